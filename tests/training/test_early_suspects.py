"""Suspects so far: shown and written while a long run trains, without changing what it learns."""

import json

import numpy as np
import pytest

from surelabel import api
from surelabel.console import ProgressLines
from surelabel.engine.loop import Interrupted
from surelabel.runs.run_dir import SUSPECTS_FILE, RunDir
from surelabel.training import early_suspects

EPOCHS = 12


@pytest.fixture
def settings(tiny, make_blobs, tmp_path):
    source = make_blobs(tmp_path / "many.npz", num_samples=240)
    return tiny("car", data__source=str(source), train__epochs=EPOCHS)


@pytest.fixture
def always(monkeypatch):
    """Look every five epochs, however short they are."""
    monkeypatch.setattr(early_suspects, "WAIT", 0.0)


def train(settings, out, **more):
    """Train, and return the run, its output, and each suspects.json as it was after an epoch."""
    lines, seen = [], {}

    class Watch(ProgressLines):
        def epoch(self, row):
            super().epoch(row)
            if (out / SUSPECTS_FILE).is_file():
                found = json.loads((out / SUSPECTS_FILE).read_text())
                seen[found["epoch"]] = found

    run = api.fit(settings, out, progress=Watch(lines.append, every=0), **more)
    return run, "\n".join(lines), seen


def test_ten_suspects_and_the_rate_every_five_epochs(settings, make_blobs, tmp_path, always):
    settings["data"]["source"] = str(make_blobs(tmp_path / "more.npz", num_samples=600))
    settings["train"]["epochs"] = 40
    run, text, seen = train(settings, tmp_path / "run")
    assert list(seen) == [5, 10, 15, 20, 25, 30, 35]
    assert not (run.path / SUSPECTS_FILE).exists()  # the verdict has replaced it
    labels = {row["id"]: row for row in run.labels().to_pylist()}
    for found in seen.values():
        assert found["epochs"] == 40
        assert len(found["suspects"]) == 10
        wrong = [labels[one["id"]]["given"] != labels[one["id"]]["clean"] for one in found["suspects"]]
        assert sum(wrong) >= 9
        means = [one["mean_given_probability"] for one in found["suspects"]]
        assert means == sorted(means)
        low, high = found["noise_interval"]
        assert low < 0.3 < high
        assert found["noise_rate"] == pytest.approx(0.3, abs=0.03)
    assert "suspects so far, epoch 10 of 40: about 30 % of the labels are wrong (between " in text
    for one in seen[10]["suspects"]:
        assert f"\n  {one['id']}: given {one['given']}, " in text


def test_what_cannot_be_told_yet_is_not_told(settings, tmp_path, always):
    _, text, seen = train(settings, tmp_path / "run")
    assert list(seen) == [5, 10]
    assert f"suspects so far, epoch 5 of {EPOCHS}: how many labels are wrong is not known yet" in text
    for found in seen.values():
        assert (found["noise_rate"], found["noise_interval"]) == (None, None)
        assert len(found["suspects"]) == 10


def test_short_runs_are_left_alone(settings, tmp_path):
    _, text, seen = train(settings, tmp_path / "run")
    assert seen == {}
    assert "suspects so far" not in text


def test_confirmed_labels_are_no_suspects(settings, tmp_path, always):
    _, _, seen = train(settings, tmp_path / "first")
    names = [one["id"] for one in seen[5]["suspects"]]
    file = tmp_path / "trusted.csv"
    file.write_text("id\n" + "".join(f"{name}\n" for name in names[:3]))
    settings["data"]["trusted"] = str(file)
    _, _, again = train(settings, tmp_path / "second")
    assert not set(names[:3]) & {one["id"] for one in again[5]["suspects"]}


def test_hostile_names_do_not_reach_the_terminal():
    suspect = {"id": "a\x1b[31m", "given": "cat\n", "predicted": "dog"}
    text = early_suspects.describe({"epoch": 5, "epochs": 9, "noise_rate": None, "suspects": [suspect]})
    assert text.splitlines()[1:] == ["  a\\u001b[31m: given cat\\u000a, predicted dog"]
    assert "not known yet" in text


def test_the_result_is_the_same_to_the_last_bit_also_after_an_interruption(settings, tmp_path, monkeypatch):
    plain, _, _ = train(settings, tmp_path / "plain")
    monkeypatch.setattr(early_suspects, "WAIT", 0.0)
    calls = iter(range(10_000))
    with pytest.raises(Interrupted):
        train(settings, tmp_path / "stopped", interrupt=lambda: next(calls) == 100)
    stopped = RunDir(tmp_path / "stopped")
    assert json.loads((stopped.path / SUSPECTS_FILE).read_text())["epoch"] == 5
    api.resume(stopped)
    assert not (stopped.path / SUSPECTS_FILE).exists()
    for run in (stopped, train(settings, tmp_path / "whole")[0]):
        assert run.samples().equals(plain.samples())
        weights, expected = run.tensors("model.safetensors"), plain.tensors("model.safetensors")
        assert all(np.array_equal(weights[name], expected[name]) for name in expected)
        changed = [row.get("changed_predictions") for row in run.metrics()]
        assert changed == [row.get("changed_predictions") for row in plain.metrics()]


def test_what_to_watch_instead_of_the_loss(settings, tmp_path):
    run, text, _ = train(settings, tmp_path / "run")
    assert "the loss of car may rise in a normal run" in text
    first, *rest = run.metrics()
    assert "changed_predictions" not in first
    assert all(0 <= row["changed_predictions"] <= 1 for row in rest)
    assert f"changed predictions {100 * rest[-1]['changed_predictions']:.1f} %" in text
    settings["method"]["name"] = "cross_entropy"
    assert "may rise" not in train(settings, tmp_path / "plain")[1]
