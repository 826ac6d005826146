"""Class names that look alike: what is said about them, and how `--merge-classes` merges them."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient
from tests.reviewing.conftest import HOST, PORT

import surelabel
from surelabel import api
from surelabel.class_names import describe_alike, find_slips, find_variants, fold
from surelabel.config import DataConfig, validate
from surelabel.data import load_corpus
from surelabel.errors import ConfigError, DataError
from surelabel.reviewing.access import KEY_HEADER, Access
from surelabel.reviewing.server import make_app, make_review

NAMES = ["cattle"] * 30 + ["Cattle"] * 3 + ["catle"] + ["hot dog"] * 30 + ["hotdog"] * 2 + ["owl"] * 24
"""Labels of 90 rows: three classes under six names."""
QUICK = {"train.epochs": 2, "train.second_opinion": False, "train.device": "cpu", "train.threads": 1, "model": "mlp"}
WORDS = [word for name, value in QUICK.items() for word in ("--set", f"{name}={json.dumps(value)}")]
BOTH = ["variants", "catle=cattle"]
MERGED = {"cattle": 34, "hot dog": 32, "owl": 24}


def features():
    """Inputs of the rows."""
    centre = np.array([{"c": 0, "C": 0, "h": 1, "o": 2}[name[0]] for name in NAMES])
    return (5 * np.eye(3)[centre] + np.random.default_rng(0).normal(size=(90, 3))).astype(np.float32)


@pytest.fixture
def table(tmp_path):
    """Write the rows as a CSV table."""
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        write = csv.writer(file)
        write.writerow(["a", "b", "c", "label"])
        write.writerows([*x, name] for x, name in zip(features().tolist(), NAMES, strict=True))
    return tmp_path / "rows.csv"


def corpus_of(source, data=None, **settings):
    return load_corpus(DataConfig(source=str(source), **settings), data)


def counts_of(corpus):
    counts = corpus.train.label.bincount(minlength=corpus.num_classes).tolist()
    return dict(zip(corpus.class_names, counts, strict=True))


class TestNames:
    @pytest.mark.parametrize(
        "names",
        [
            *(("cat", "CAT"), ("hot dog", "hotdog"), ("hot  dog", "hot dog"), ("café", "cafe"), ("cafe\u0301", "café")),
            *(("cat\u200b", "cat"), ("x\u00a0y", "x y"), ("Straße", "STRASSE"), ("ﬁsh", "fish")),
        ],
    )
    def test_variants_differ_by_case_spaces_or_accents(self, names):
        assert find_variants(dict(zip(names, (1, 2), strict=True))) == [list(names[::-1])]

    @pytest.mark.parametrize(
        "names", [("cat", "car"), ("1", "01"), ("कि", "कु"), ("か", "が"), ("a-b", "ab"), ("", " ")]
    )
    def test_other_names_are_not_variants(self, names):
        assert fold(names[0]) != fold(names[1])
        assert find_variants({names[0]: 1, names[1]: 100}) == []

    @pytest.mark.parametrize("rare", ["catle", "cattel", "catttle", "bcattle", "cattlé", "Cattla", "cattle1", "c4ttle"])
    def test_one_letter(self, rare):
        expected = [] if rare in ("cattel", "cattlé", "cattle1", "c4ttle") else [(rare, "cattle")]
        assert find_slips({"cattle": 100, rare: 9}) == expected

    def test_neither_short_nor_frequent_names_nor_digits(self):
        assert find_slips({"cats": 100, "bats": 1}) == []
        assert find_slips({"cattle": 100, "battle": 10}) == []
        assert find_slips({"class 1": 100, "class 2": 1, "class 12": 1}) == []
        assert find_slips({"zebra": 60, "Zebra": 50, "zebrra": 10}) == [("zebrra", "zebra")]

    def test_spaces_can_be_seen_and_of_many_groups_the_first_are_listed(self):
        (text,) = describe_alike({"hot  dog": 1, "hot dog": 2, "x\u00a0y": 3, "x y": 1})
        assert "'hot dog' (2 labels) and 'hot  dog' (1 label)" in text
        assert r"'x\xa0y'" in text
        assert "--merge-classes variants" in text
        (many,) = describe_alike({name: 1 for number in range(9) for name in (f"a{number}", f"A{number}")})
        assert many.count(" and 'a") == 5
        assert "and 4 more" in many


class TestCommands:
    def test_plan_names_them_and_merges_them(self, table, done):
        found = json.loads(done("plan", table, *WORDS, "--json"))
        alike = [text for text in found["warnings"] if "Class names" in text]
        assert "'cattle' (30 labels) and 'Cattle' (3 labels)" in alike[0]
        assert "'hot dog' (30 labels) and 'hotdog' (2 labels)" in alike[0]
        assert "'catle' (1 label) and 'cattle' (30 labels)" in alike[1]
        assert "fit --merge-classes catle=cattle" in alike[1]
        words = [word for rule in BOTH for word in ("--merge-classes", rule)]
        merged = json.loads(done("plan", table, *WORDS, *words, "--json"))
        assert merged["class_counts"] == MERGED
        assert not [text for text in merged["warnings"] if "Class names" in text]

    def test_fit_report_and_page_say_so(self, table, tmp_path, call, done):
        result = call("fit", table, "--out", tmp_path / "run", *WORDS)
        assert result.exit_code == 0
        assert "--merge-classes variants" in result.stderr
        assert "--merge-classes variants" in result.stdout
        done("report", tmp_path / "run", "--out", tmp_path / "report.html")
        page = (tmp_path / "report.html").read_text()
        assert "--merge-classes variants" in page
        assert "--merge-classes catle=cattle" in page
        run = surelabel.audit(tmp_path / "run")
        review = make_review(api.RunDir.open(tmp_path / "run"), api.reopen_data(tmp_path / "run"))
        access = Access(PORT)
        app = TestClient(make_app(review, access), base_url=f"http://{HOST}", headers={KEY_HEADER: access.key})
        shown = [text for text in app.get("/api/progress").json()["warnings"] if "Class names" in text]
        assert len(shown) == 2
        assert shown == [text for text in run.warnings if "Class names" in text]

    def test_a_run_on_merged_classes_knows_their_names_only(self, table, tmp_path, call, done):
        result = call("fit", table, "--out", tmp_path / "run", *WORDS, "--merge-classes", "variants")
        assert "merges 'Cattle' (3 labels) into 'cattle', 'hotdog' (2 labels) into 'hot dog'" in result.stderr
        assert set(surelabel.audit(tmp_path / "run").class_names) == {"catle", "cattle", "hot dog", "owl"}
        done("export", tmp_path / "run", "--out", tmp_path / "clean")
        with (tmp_path / "clean" / "cleaned.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert rows[31]["given"] == "cattle"
        # The command that export prints: these labels, and the settings of the run.
        words = ["--config", tmp_path / "run" / "config.json", "--labels", tmp_path / "clean" / "cleaned.csv"]
        done("fit", *words, "--trusted", tmp_path / "clean" / "decisions.csv", "--out", tmp_path / "again")
        assert "Cattle" not in surelabel.audit(tmp_path / "again").class_names

    @pytest.mark.parametrize(
        ("rules", "guilty"),
        [
            (["all"], "expected variants, or OLD=NEW"),
            (["=cattle"], "expected variants, or OLD=NEW"),
            (["catel=cattle"], "there is no class 'catel'; available: Cattle, catle, cattle"),
            (["catle=cow"], "there is no class 'cow'"),
            (["catle=catle"], "'catle' must be merged into one other class"),
            (["catle=cattle", "catle=owl"], "'catle' must be merged into one other class"),
            (["catle=Cattle", "Cattle=cattle"], "expected catle=cattle"),
        ],
    )
    def test_bad_rules_are_one_line(self, table, call, rules, guilty):
        result = call("plan", table, *[word for rule in rules for word in ("--merge-classes", rule)])
        assert result.exit_code == 2
        (line,) = [line for line in result.stderr.splitlines() if line.startswith("error:")]
        assert "--merge-classes" in line
        assert guilty in line


class TestSources:
    """Every kind of data merges the same classes."""

    def test_tables(self, table, tmp_path):
        assert counts_of(corpus_of(table, merge_classes=BOTH)) == MERGED
        columns = {"a": features()[:, 0], "b": features()[:, 1], "label": NAMES}
        pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
        assert counts_of(corpus_of(tmp_path / "rows.parquet", merge_classes=BOTH)) == MERGED

    def test_arrays_and_frames(self):
        data = {"x": features(), "y": np.array([f" {name} " for name in NAMES])}
        assert counts_of(corpus_of("<arrays>", data, merge_classes=BOTH)) == MERGED
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"a": features()[:, 0], "b": features()[:, 1], "label": NAMES})
        assert counts_of(corpus_of("<frame>", frame, merge_classes="variants")) == {**MERGED, "cattle": 33, "catle": 1}

    def test_classes_in_a_fixed_order_keep_it(self):
        names = ["owl", "hotdog", "hot dog", "Cattle", "cattle", "catle"]
        numbers = np.array([names.index(name) for name in NAMES])
        data = {"x": features(), "y": numbers, "class_names": names, "x_test": features(), "y_test": numbers}
        merged = corpus_of("<arrays>", data, merge_classes=BOTH)
        assert merged.class_names == ("owl", "hot dog", "cattle")
        assert counts_of(merged) == MERGED
        assert merged.tests["test"].label.tolist() == merged.train.label.tolist()

    def test_torch_data_sets(self):
        class Rows:
            classes = ("owl", "hotdog", "hot dog", "Cattle", "cattle", "catle")

            def __len__(self):
                return len(NAMES)

            def __getitem__(self, row):
                if row >= len(NAMES):
                    raise IndexError
                return features()[row], self.classes.index(NAMES[row])

        assert counts_of(corpus_of("<dataset Rows>", Rows(), merge_classes=BOTH)) == MERGED

    def test_data_of_the_hub(self, tmp_path):
        names = sorted(set(NAMES))
        table = pa.table({"a": features()[:, 0], "b": features()[:, 1], "label": [names.index(n) for n in NAMES]})
        feature = {"label": {"names": names, "_type": "ClassLabel"}}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": feature}})})
        pq.write_table(table, tmp_path / "train-00000-of-00001.parquet")
        assert counts_of(corpus_of(tmp_path, merge_classes=BOTH)) == MERGED

    def test_folders(self, tmp_path, paint):
        for row, name in enumerate(["cat", "cat", "Cat", "dog", "dog", "dgo"]):
            paint(tmp_path / "images" / name / f"{row}.png", 40 * row)
        merged = corpus_of(tmp_path / "images", merge_classes=["variants", "dgo=dog"])
        assert counts_of(merged) == {"cat": 3, "dog": 3}
        assert "Cat/2.png" in merged.train.ids  # files keep their names

    def test_the_true_labels_and_test_sets_are_merged_too(self, tmp_path):
        header, lines = "a,b,label,clean_label,split", []
        for row, name in enumerate(NAMES):
            lines.append(
                f"{row},{row % 7},{name},{'Owl' if name == 'owl' else name},{'test' if row % 9 == 0 else 'train'}"
            )
        (tmp_path / "rows.csv").write_text("\n".join([header, *lines]))
        merged = corpus_of(tmp_path / "rows.csv", merge_classes=BOTH, clean_column="clean_label")
        assert merged.class_names == ("cattle", "hot dog", "owl")
        assert (merged.train.clean == merged.train.label).all()
        assert merged.tests["test"].label.max() == 2

    def test_a_test_set_with_another_spelling_is_refused_with_the_remedy(self, table, tmp_path, call, done):
        (tmp_path / "test.csv").write_text("a,b,c,label\n1,2,3,OWL\n1,2,4,cattle\n")
        result = call("plan", table, "--test", tmp_path / "test.csv")
        assert "has the class 'OWL'" in result.stderr
        assert "--merge-classes variants makes it 'owl'" in result.stderr
        words = ["--merge-classes", "variants", "--json", *WORDS]
        assert json.loads(done("plan", table, "--test", tmp_path / "test.csv", *words))["sizes"]["test"] == 2


class TestLabelsFromElsewhere:
    def test_of_labels_and_trusted(self, table, tmp_path):
        (tmp_path / "labels.csv").write_text("id,label\n0,CATTLE\n1,Owl\n2,catle\n")
        (tmp_path / "trusted.csv").write_text("id,label\n3,CATTLE\n4,catle\n")
        labels, trusted = (str(tmp_path / f"{name}.csv") for name in ("labels", "trusted"))
        config = validate({"data": {"source": str(table), "labels": labels, "trusted": trusted, "merge_classes": BOTH}})
        corpus, _ = api.read_corpus(config, None)
        assert corpus.class_names == ("cattle", "hot dog", "owl")
        assert corpus.train.label[:5].tolist() == [0, 2, 0, 0, 0]
        assert corpus.train.trusted[3:5].all()

    def test_after_a_merge_numbers_are_no_positions(self, tmp_path):
        (tmp_path / "trusted.csv").write_text("id,label\n0,1\n")
        names = ["Cattle", "cattle", "owl"]
        data = {"x": features()[:6], "y": np.array([0, 1, 1, 1, 2, 2]), "class_names": names}
        settings = {"data.trusted": str(tmp_path / "trusted.csv"), "data.merge_classes": "variants"}
        with pytest.raises(DataError, match="there is no class '1'; available: cattle, owl"):
            api.read_corpus(api.make_config(data, settings), data)

    def test_classes_of_the_source_take_variants_in_the_file(self, tmp_path):
        (tmp_path / "labels.csv").write_text("id,label\n0,OWL\n")
        data = {"x": features()[:4], "y": np.array([0, 0, 1, 1]), "class_names": ["cattle", "owl"]}
        settings = {"labels": str(tmp_path / "labels.csv")}
        with pytest.raises(DataError, match="there is no class 'OWL'"):
            corpus_of("<arrays>", data, **settings)
        assert counts_of(corpus_of("<arrays>", data, merge_classes="variants", **settings)) == {"cattle": 1, "owl": 3}

    def test_new_data_are_judged_under_the_names_of_the_run(self, tmp_path):
        data = (features(), np.array(NAMES))
        run = surelabel.fit(data, tmp_path / "run", merge_classes=BOTH, settings=QUICK)
        audit = surelabel.audit(run, data=(features(), np.char.upper(np.array(NAMES))))
        assert set(audit.columns["given"]) == {"cattle", "hot dog", "owl"}
        assert len(audit) == 90


class TestPython:
    def test_a_wrong_rule_names_the_setting(self):
        with pytest.raises(ConfigError, match=r"data\.merge_classes.*variants, or OLD=NEW.*'all'"):
            api.make_config((features(), np.array(NAMES)), {"data.merge_classes": "all"})

    def test_the_estimator_strips_labels_and_has_the_classes_that_stay(self):
        spaced = np.array([name + " " * (row % 2) for row, name in enumerate(NAMES)])
        settings = {"data.merge_classes": BOTH, "train.second_opinion": False}
        quick = {"model": "mlp", "epochs": 2, "device": "cpu", "threads": 1}
        plain = surelabel.NoisyLabelClassifier(settings={"train.second_opinion": False}, **quick).fit(
            features(), spaced
        )
        assert plain.classes_.tolist() == sorted(set(NAMES))
        assert any("--merge-classes variants" in text for text in plain.audit_.warnings)
        found = surelabel.NoisyLabelClassifier(settings=settings, **quick).fit(features(), spaced)
        assert found.classes_.tolist() == ["cattle", "hot dog", "owl"]
        assert found.predict_proba(features()).shape == (90, 3)
        assert set(found.suggested_labels_) <= set(found.classes_)
