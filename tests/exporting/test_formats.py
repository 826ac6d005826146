"""Formats of other tools: against the packages that are installed, else as they are documented."""

import json
import shutil
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from PIL import Image

from surelabel import api
from surelabel.errors import ConfigError, DataError
from surelabel.exporting import export, undo
from surelabel.runs.decisions import FILE_NAME, Journal, Wish
from surelabel.verdicts import audit

HOSTILE = 'c|t & "<b>"'


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Train on 41 images, two of them equal; a class has a difficult name; relabel a row."""
    folder = tmp_path_factory.mktemp("formats")
    rng = np.random.default_rng(0)
    for row in range(40):
        path = folder / "photos" / ("dog", HOSTILE)[row % 2] / f"{row} a.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(100 * (row % 2), 155 + 100 * (row % 2), (8, 8), dtype=np.uint8)).save(path)
    shutil.copyfile(folder / "photos/dog/0 a.png", folder / "photos/dog/copy.png")
    settings = {"model": "mlp", "train.epochs": 2, "train.threads": 1, "train.device": "cpu"}
    run = api.fit(str(folder / "photos"), folder / "run", settings=settings)
    row = next(audit(run).head(1))
    other = next(name for name in ("dog", HOSTILE) if name != row["given"])
    Journal(run.path / FILE_NAME).append([Wish(row["id"], row["given"], "relabel", other)])
    return folder


@pytest.fixture(scope="module")
def exported(photos, done):
    """Return the export of the images in all formats."""
    every = [word for name in ("label-studio", "fiftyone", "cleanlab", "datalab", "hf") for word in ("--format", name)]
    done("export", photos / "run", "--out", photos / "out", "--images", "copy", *every)
    return photos / "out"


@pytest.fixture(scope="module")
def texts(text_run, done, tmp_path_factory):
    out = tmp_path_factory.mktemp("texts") / "out"
    done("export", text_run / "run", "--out", out, "--format", "label-studio", "--format", "hf")
    return out


def cleaned(folder):
    return pq.read_table(folder / "cleaned.parquet").to_pylist()


class TestLabelStudio:
    def check_tasks(self, folder, kind):
        """Check what Label Studio's documentation demands of tasks with predictions."""
        tasks = json.loads((folder / "label_studio.json").read_text())
        view = ElementTree.parse(folder / "label_studio.xml").getroot()
        choices = view.find("Choices")
        names = {choice.get("value") for choice in choices}
        assert view.find(kind.capitalize()).get("value") == f"${kind}"
        for task in tasks:
            assert set(task) <= {"data", "predictions", "annotations"}
            (prediction,) = task["predictions"]
            assert 0 <= prediction["score"] <= 1
            for result in (r for part in (*task["predictions"], *task.get("annotations", ())) for r in part["result"]):
                assert result["from_name"] == choices.get("name")
                assert result["to_name"] == choices.get("toName") == view.find(kind.capitalize()).get("name")
                assert result["type"] == "choices"
                assert set(result["value"]["choices"]) <= names
        return tasks

    def test_images(self, exported, photos):
        tasks = self.check_tasks(exported, "image")
        for task in tasks:
            address = task["data"]["image"]
            assert address.startswith("/data/local-files/?d=photos/")
            assert (photos / unquote(address.partition("?d=")[2])).is_file()

    def test_suspects_come_first_and_decisions_are_annotations(self, exported):
        tasks, rows = json.loads((exported / "label_studio.json").read_text()), cleaned(exported)
        assert {task["data"]["id"] for task in tasks} == {row["id"] for row in rows}
        scores = [task["predictions"][0]["score"] for task in tasks if "annotations" not in task]
        assert scores == sorted(scores)
        (decided,) = [row for row in rows if row["decided_by"] == "person"]
        assert tasks[-1]["data"]["id"] == decided["id"]
        assert tasks[-1]["annotations"][0]["result"][0]["value"]["choices"] == [decided["label"]]

    def test_texts(self, texts, text_run):
        tasks = self.check_tasks(texts, "text")
        lines = pd.read_csv(text_run / "reviews.csv").set_index("id")["review"].to_dict()
        assert {task["data"]["id"]: task["data"]["text"] for task in tasks} == lines


class TestFiftyOne:
    def test_values_by_file(self, exported):
        content = json.loads((exported / "fiftyone.json").read_text())
        assert content["key_field"] == "filepath"
        found = {row["id"]: row["p_wrong"] for row in cleaned(exported)}
        values = content["fields"]["mistakenness"]
        assert all(name.startswith("/") for name in values)
        by_id = {"/".join(name.rsplit("/", 2)[1:]): value for name, value in values.items()}
        assert by_id == pytest.approx(found, abs=1e-6)
        for field in content["fields"].values():
            assert set(field) == set(values)

    def test_values_by_sample_id(self, tmp_path, done):
        ids = [f"{number:024x}" for number in range(40)]
        lines = [f"{name},{number % 2}.5,{number},{'ab'[number % 2]}" for number, name in enumerate(ids)]
        (tmp_path / "data.csv").write_text("\n".join(["id,x,z,label", *lines]) + "\n")
        settings = {"model": "mlp", "train.epochs": 1, "train.threads": 1, "train.device": "cpu"}
        api.fit(str(tmp_path / "data.csv"), tmp_path / "run", settings=settings)
        done("export", tmp_path / "run", "--format", "fiftyone")
        content = json.loads((tmp_path / "run/export/fiftyone.json").read_text())
        assert content["key_field"] == "id"
        assert list(content["fields"]["mistakenness"]) == ids


class TestCleanlab:
    def test_clean_learning_takes_the_frame(self, exported):
        from cleanlab.classification import CleanLearning
        from sklearn.linear_model import LogisticRegression

        frame, labels = pd.read_parquet(exported / "label_issues.parquet"), np.load(exported / "given_labels.npy")
        x = np.random.default_rng(0).normal(size=(len(labels), 2)) + labels[:, None]
        model = CleanLearning(LogisticRegression(), verbose=False).fit(x, labels, label_issues=frame)
        kept = model.get_label_issues()
        assert list(frame.columns) == ["is_label_issue", "label_quality", "given_label", "predicted_label"]
        pd.testing.assert_frame_equal(kept[frame.columns], frame)
        assert (~frame["is_label_issue"]).tolist() == np.load(exported / "keep_mask.npy").tolist()

    def test_the_frame_has_the_types_that_cleanlab_makes(self, exported):
        from cleanlab.classification import CleanLearning
        from sklearn.linear_model import LogisticRegression

        ours, y = pd.read_parquet(exported / "label_issues.parquet"), np.arange(60) % 2
        x = np.random.default_rng(0).normal(size=(60, 2)) + 3 * y[:, None]
        alone = {"n_jobs": 1}
        theirs = CleanLearning(LogisticRegression(), find_label_issues_kwargs=alone, verbose=False).find_label_issues(
            x, y
        )
        assert {name: kind.kind for name, kind in ours.dtypes.items()} == {n: k.kind for n, k in theirs.dtypes.items()}

    def test_datalab_reports_our_frames(self, exported, capsys):
        from cleanlab import Datalab

        rng, y = np.random.default_rng(0), np.arange(41) % 2
        lab = Datalab({"x": list(range(41)), "y": y.tolist()}, label_name="y", verbosity=0)
        lab.find_issues(features=rng.normal(size=(41, 3)), issue_types={"outlier": {}, "near_duplicate": {}})
        theirs = lab.get_issues()
        ours = pd.read_parquet(exported / "datalab/issues.parquet")
        summary = pd.read_csv(exported / "datalab/issue_summary.csv")
        assert set(theirs.columns) <= set(ours.columns)
        assert dict(ours[theirs.columns].dtypes) == dict(theirs.dtypes)
        assert list(summary.columns) == list(lab.get_issue_summary().columns)
        for _, row in summary.iterrows():
            assert row["num_issues"] == ours[f"is_{row['issue_type']}_issue"].sum()
            assert row["score"] == pytest.approx(ours[f"{row['issue_type']}_score"].mean(), abs=1e-5)
        lab.data_issues.issues, lab.data_issues.issue_summary = ours[theirs.columns], summary
        capsys.readouterr()
        lab.report(num_examples=2)
        assert "near_duplicate issues" in capsys.readouterr().out
        assert ours["is_near_duplicate_issue"].sum() == 2

    def test_a_report_in_words(self, exported):
        text = (exported / "datalab/report.txt").read_text()
        assert "label issues" in text
        assert "num_examples: 41, num_classes: 2" in text


class TestHuggingFace:
    @pytest.fixture(scope="class")
    @classmethod
    def loaded(cls, exported, texts, tmp_path_factory):
        """Load both folders as a user of the hub would; both have the same name and cache."""
        import datasets

        cache = str(tmp_path_factory.mktemp("hf-cache"))
        return {
            kind: datasets.load_dataset(str(folder / "hf"), cache_dir=cache)
            for kind, folder in {"image": exported, "text": texts}.items()
        }

    def test_rows_carry_their_provenance(self, loaded, exported, texts):
        for kind, folder in {"image": exported, "text": texts}.items():
            data, rows = loaded[kind]["train"], cleaned(folder)
            names = data.features["label"].names
            for found, row in zip(data.remove_columns(kind), rows, strict=True):
                assert found["id"] == row["id"]
                assert names[found["label"]] == row["label"]
                assert names[found["given_label"]] == row["given"]
                assert names[found["suggested_label"]] == row["suggested"]
                for column in ("p_wrong", "decided_by", "decided_at", "changed"):
                    assert found[column] == row[column]

    def test_inputs(self, loaded, photos, text_run):
        first = loaded["image"]["train"][0]
        original = np.asarray(Image.open(photos / "photos" / first["id"]))
        assert np.array_equal(np.asarray(first["image"]), original)
        lines = pd.read_csv(text_run / "reviews.csv").set_index("id")["review"].to_dict()
        assert {row["id"]: row["text"] for row in loaded["text"]["train"]} == lines

    def test_held_out_rows_are_a_split(self, run, verdict, tmp_path):
        import datasets

        export(run, verdict, {}, tmp_path / "out", formats=["hf"])
        found = datasets.load_dataset(str(tmp_path / "out/hf"), cache_dir=str(tmp_path / "cache"))
        assert {name: len(rows) for name, rows in found.items()} == {"train": 60, "validation": 15}

    def test_the_card_has_metadata_and_the_figures_of_the_audit(self, exported, photos):
        from huggingface_hub import DatasetCard

        card = DatasetCard.load(exported / "hf/README.md")
        assert card.data.task_categories == ["image-classification"]
        assert card.data.size_categories == ["n<1K"]
        found = audit(photos / "run")
        for name, rate in found.class_rates.items():
            shown = name.replace("|", "\\|").replace("<", "\\<").replace(">", "\\>").replace("&", "\\&")
            assert f"| {shown} | {rate.num_labels} | {100 * rate.rate:.1f} % |" in card.text
        assert "After 1 decision" in card.text
        assert "changed by person | 1 |" in card.text


def test_undo_removes_all_of_them(photos, exported, done, tmp_path):
    done("export", photos / "run", "--out", tmp_path / "out", "--format", "hf", "--format", "datalab")
    assert undo(tmp_path / "out") == []
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_written_is_refused_before_anything_is(run, verdict, tmp_path):
    with pytest.raises(ConfigError, match="--format coco: expected label-studio"):
        export(run, verdict, {}, tmp_path / "out", formats=["coco"])
    for name in ("label-studio", "fiftyone"):
        with pytest.raises(DataError, match=f"--format {name}"):
            export(run, verdict, {}, tmp_path / "out", formats=[name])
    assert list(tmp_path.iterdir()) == []
