"""Text: which column is found, what a run keeps of it, and predictions of new text."""

import csv
import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conftest import FAST_TEXT, make_texts, write_csv
from tests.encoding.conftest import load_encoded

from surelabel import api
from surelabel.config import DataConfig
from surelabel.data.cells import Cells
from surelabel.errors import ConfigError, DataError

TEXTS, GIVEN, CLEAN = make_texts(60)


def column_of(corpus):
    assert isinstance(corpus.train.x, Cells)
    assert corpus.train.x.is_text
    return corpus.train.x.columns


class TestColumn:
    def test_found_by_its_content(self, load):
        assert column_of(load({"what": TEXTS, "label": GIVEN})) == ("what",)

    def test_one_with_a_usual_name_goes_before_numbers_which_are_named(self, load, caplog):
        assert column_of(load({"stars": range(60), "Review": TEXTS, "label": GIVEN})) == ("Review",)
        assert "not used as features: stars" in caplog.text

    def test_another_one_does_not_but_is_named(self, load, caplog):
        corpus = load({"stars": range(60), "what": TEXTS, "label": GIVEN})
        assert corpus.feature_names == ("stars",)
        assert "not used as features: what (text); data.text_column=what trains on that text" in caplog.text

    def test_chosen(self, load):
        columns = {"stars": range(60), "text": TEXTS, "what": TEXTS[::-1], "label": GIVEN}
        assert column_of(load(columns, text_column="what")) == ("what",)

    def test_short_words_in_a_column_called_text(self, load):
        words = [text.split()[0] for text in TEXTS]
        assert column_of(load({"text": words, "label": GIVEN})) == ("text",)

    def test_missing(self, load):
        with pytest.raises(DataError, match=r"no column 'body', which data\.text_column names; available: text, label"):
            load({"text": TEXTS, "label": GIVEN}, text_column="body")

    def test_not_beside_other_inputs(self, load):
        with pytest.raises(ConfigError, match=r"data\.text_column and data\.feature_columns"):
            load({"text": TEXTS, "label": GIVEN}, text_column="text", feature_columns=("text",))

    def test_a_blank_text_is_refused_or_left_out(self, load, caplog):
        columns = {"text": [*TEXTS, " "], "label": [*GIVEN, "sport"]}
        with pytest.raises(DataError, match=r"t\.csv, row 62: text is blank; expected text; data\.unreadable=skip"):
            load(columns)
        assert len(load(columns, unreadable="skip").train) == 60
        assert "row 62: text is blank" in caplog.text

    def test_texts_without_words_are_refused(self):
        with pytest.raises(DataError, match=r"no words in the text"):
            load_encoded(DataConfig(source="<arrays>"), (["", " "] * 2, ["a", "b"] * 2))


class TestSources:
    def test_parquet_hub_frame_and_lists_are_the_same_as_csv(self, load, tmp_path):
        datasets, pandas = pytest.importorskip("datasets"), pytest.importorskip("pandas")
        expected = load({"text": TEXTS, "label": GIVEN})
        columns = {"text": TEXTS, "label": GIVEN}
        pq.write_table(pa.table(columns), tmp_path / "t.parquet")
        others = [
            load_encoded(DataConfig(source=str(tmp_path / "t.parquet"))),
            load_encoded(DataConfig(source="<dataset>"), datasets.Dataset.from_dict(columns)),
            load_encoded(DataConfig(source="<frame>"), pandas.DataFrame(columns)),
            load_encoded(DataConfig(source="<arrays>"), (TEXTS, GIVEN)),
            load_encoded(DataConfig(source="<arrays>"), (np.array(TEXTS), GIVEN)),
            load_encoded(DataConfig(source="<arrays>"), (pandas.Series(TEXTS), GIVEN)),
        ]
        for corpus in others:
            assert corpus.train.x.features().equal(expected.train.x.features())
            assert corpus.train.label.tolist() == expected.train.label.tolist()

    def test_numbers_among_texts_are_refused(self):
        with pytest.raises(DataError, match=r"x: row 1 is nan among text"):
            load_encoded(DataConfig(source="<arrays>"), (["a b", float("nan")], ["a", "b"]))

    def test_the_column_of_training_is_read_in_a_test_file(self, load, tmp_path):
        test = write_csv(tmp_path / "test.csv", {"text": ["noise"] * 2, "what": ["goal", "bank"], "label": GIVEN[:2]})
        corpus = load({"what": TEXTS, "label": GIVEN}, test=str(test))
        assert corpus.tests["test"].x.texts(np.arange(2)) == ["goal", "bank"]


class TestEncoder:
    def test_only_training_rows_are_looked_at(self, load):
        texts = [*TEXTS, "zebra giraffe zebra giraffe"]
        columns = {"text": texts, "label": [*GIVEN, "sport"], "split": ["train"] * 60 + ["test"]}
        terms = load(columns).train.x.encoder.parts[0].terms
        assert "goal" in terms
        assert "zebra" not in terms

    def test_a_rare_term_of_many_texts_is_left_out(self, load):
        texts, given, _ = make_texts(300)
        terms = load({"text": [f"{texts[0]} zebra", *texts[1:]], "label": given}).train.x.encoder.parts[0].terms
        assert "zebra" not in terms

    def test_features_have_length_1_and_their_number_is_limited(self, load):
        x = load({"text": TEXTS, "label": GIVEN}).train.x.features()
        assert x.shape == (60, 59)
        assert x.norm(dim=1).tolist() == pytest.approx([1] * 60, abs=1e-3)

    def test_all_terms_are_features_if_they_are_few(self, load):
        corpus = load({"text": ["ab", "ab cd", "cd"] * 4, "label": ["a", "b", "c"] * 4}, text_column="text")
        assert corpus.feature_names[:2] == ("ab", "cd")
        assert corpus.train.x.features()[0, :2].tolist() == pytest.approx([1, 0])


class TestRun:
    def test_wrong_labels_are_found_and_the_text_is_kept_nowhere(self, text_run):
        found = api.audit(text_run / "run").measures()
        assert found["quality_auroc"] > 0.95
        files = [path for path in (text_run / "run").iterdir() if path.suffix not in (".html", ".csv")]
        assert not any(make_texts(120)[0][0].encode() in path.read_bytes() for path in files)

    def test_new_text_is_predicted(self, text_run, done, tmp_path):
        done("predict", text_run / "run", text_run / "new.csv", "--out", tmp_path / "p.csv")
        with (tmp_path / "p.csv").open() as file:
            predicted = [row["predicted"] for row in csv.DictReader(file)]
        assert np.mean(np.array(predicted) == make_texts(20, seed=1)[2]) > 0.9

    def test_in_python_texts_are_predicted_like_files(self, text_run, tmp_path, done):
        model = api.load(text_run / "run")
        texts = make_texts(20, seed=1)[0]
        done("predict", text_run / "run", text_run / "new.csv", "--out", tmp_path / "p.csv")
        with (tmp_path / "p.csv").open() as file:
            rows = [float(row["sport"]) for row in csv.DictReader(file)]
        assert model.predict_proba(texts)[:, model.class_names.index("sport")] == pytest.approx(rows, abs=1e-5)
        assert model.predict(np.array(texts)).tolist() == model.predict(texts).tolist()

    def test_a_blank_text_is_predicted_too(self, text_run, done, tmp_path):
        write_csv(tmp_path / "blank.csv", {"id": ["a", "b"], "review": ["", "goal"]})
        assert "2 rows" in done("predict", text_run / "run", tmp_path / "blank.csv", "--out", tmp_path / "p.csv")

    def test_numbers_instead_of_text_are_refused(self, text_run, call, make_blobs, tmp_path):
        result = call("predict", text_run / "run", make_blobs(tmp_path / "b.npz"))
        assert result.exit_code == 2
        assert "6 features per row; expected text" in result.stderr

    def test_a_warm_start_takes_over_the_encoder(self, text_run, tmp_path):
        texts, given, _ = make_texts(100, seed=3)
        settings = {**FAST_TEXT, "train.epochs": 1, "train.warm_start": str(text_run / "run")}
        again = api.fit((texts, given), tmp_path / "again", settings=settings)
        for name in ("encoder.json", "encoder.safetensors"):
            assert (again.path / name).read_bytes() == (text_run / "run" / name).read_bytes()

    def test_an_interrupted_run_is_resumed_with_its_encoder(self, text_run, tmp_path):
        from surelabel.engine.loop import Interrupted

        steps = iter(range(1000))
        source, settings = str(text_run / "reviews.csv"), {**FAST_TEXT, "data.clean_column": "truth", "model": "mlp"}
        with pytest.raises(Interrupted):
            api.fit(source, tmp_path / "run", settings=settings, interrupt=lambda: next(steps) > 20)
        before = (tmp_path / "run" / "encoder.safetensors").read_bytes()
        assert api.resume(tmp_path / "run").is_done
        assert (tmp_path / "run" / "encoder.safetensors").read_bytes() == before

    def test_a_start_that_failed_leaves_no_encoder_behind(self, text_run, tmp_path, make_blobs):
        (tmp_path / "run").mkdir()
        for name in ("lock", "checksums.json", "encoder.json", "encoder.safetensors"):
            shutil.copy(text_run / "run" / name, tmp_path / "run" / name)
        settings = {**FAST_TEXT, "model": "mlp", "train.epochs": 1}
        run = api.fit(str(make_blobs(tmp_path / "b.npz")), tmp_path / "run", settings=settings)
        assert not list(run.path.glob("encoder*"))
        assert api.load(run).encoder is None

    def test_changed_text_is_noticed(self, text_run, tmp_path):
        from surelabel.errors import RunError

        shutil.copytree(text_run, tmp_path / "copy")
        config = json.loads((tmp_path / "copy" / "run" / "config.json").read_text())
        config["data"]["source"] = str(tmp_path / "copy" / "reviews.csv")
        (tmp_path / "copy" / "run" / "config.json").write_text(json.dumps(config))
        (tmp_path / "copy" / "run" / "checksums.json").unlink()
        assert api.reopen_data(tmp_path / "copy" / "run").num_classes == 3
        text = (tmp_path / "copy" / "reviews.csv").read_text()
        (tmp_path / "copy" / "reviews.csv").write_text(text.replace("goal", "gaol", 1))
        with pytest.raises(RunError, match="has changed since the run"):
            api.reopen_data(tmp_path / "copy" / "run")
