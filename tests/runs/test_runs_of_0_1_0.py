"""Every command reads the finished and the interrupted run that version 0.1.0 wrote."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import surelabel
from surelabel.runs.decisions import Journal, Wish
from surelabel.runs.run_dir import SCHEMA_VERSION, RunDir

STORED = Path(__file__).parents[1] / "stored_runs"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Copy the data and both runs into the working folder."""
    shutil.copy(STORED / "blobs.npz", tmp_path)
    for name in ("finished", "interrupted"):
        shutil.copytree(STORED / f"{name}_0.1.0", tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_finished_one_loads_and_predicts(folder):
    model = surelabel.load("finished")
    with np.load("blobs.npz") as data:
        found = model.predict_proba(data["x_test"])
    assert found.shape == (30, 3)
    assert surelabel.audit("finished").measures()["wrong_labels"] == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize("command", ["audit", "report", "export", "predict"])
def test_commands_read_the_finished_one(folder, done, command):
    found = json.loads(done(command, "finished", *(["blobs.npz"] if command == "predict" else []), "--json"))
    assert found


def test_only_wrong_labels_are_known_of_the_finished_one(folder, done):
    audit = surelabel.audit("finished")
    assert audit.kinds.counts() == {
        "wrong": audit.num_suspicious,
        "duplicate": None,
        "outlier": None,
        "ambiguous": None,
    }
    assert set(audit.columns["kind"]) <= {"wrong", "ok"}
    done("report", "finished", "--out", "report.html")
    assert "Kinds of issues" not in Path("report.html").read_text(encoding="utf-8")


def test_decisions_are_taken_into_an_export(folder, done):
    Journal("finished/decisions.jsonl").append([Wish("0", "1", "relabel", "2")])
    assert json.loads(done("export", "finished", "--json"))["changed_by_person"] == 1


def test_the_interrupted_one_goes_on_to_the_end_of_the_finished_one(folder, done):
    done("resume", "interrupted")
    resumed, finished = RunDir.open("interrupted"), RunDir.open("finished")
    assert len(resumed.metrics()) == len(finished.metrics()) == 6
    # 0.1.0 left a small last batch, 60 rows in batches of 16, 16, 16 and 12; now they have 15 each.
    # So the first epochs are the same, and the rest is nearly so.
    assert [row["terms"] for row in resumed.metrics()[:3]] == [row["terms"] for row in finished.metrics()[:3]]
    assert [row["num_samples"] for row in resumed.metrics()] == [60, 60, 60, 62, 60, 60]
    for name in ("quality", "given_probability", "tau"):
        a, b = (run.samples()[name].to_numpy() for run in (resumed, finished))
        np.testing.assert_allclose(a, b, atol=5e-3, err_msg=name)
    assert resumed.data()["schema"] == SCHEMA_VERSION
    assert resumed.samples()["suggested"].to_pylist() == finished.samples()["suggested"].to_pylist()
