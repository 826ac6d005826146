"""Runs on the labels of an export: resumed, with changed files, and by training alone."""

import csv
import shutil

import numpy as np
import pytest

import surelabel
from surelabel import api
from surelabel.engine.loop import Interrupted
from surelabel.errors import RunError
from surelabel.runs.decisions import Decision
from surelabel.verdicts.gate import check_labels

NUM_CLASSES, NUM_OWN = 3, 40
SETTINGS = {
    "model": {"name": "mlp", "options": {"widths": [16], "norm": "none"}},
    "train": {"epochs": 4, "batch_size": 16, "threads": 1, "device": "cpu"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, make_blobs):
    """Write data.npz, whose labels are right, and cleaned.csv, in which the model replaced some."""
    folder = tmp_path_factory.mktemp("retraining")
    given = np.load(make_blobs(folder / "data.npz", num_samples=120))["y"]
    lines = [f"{row},{(label + 1) % NUM_CLASSES},{label},model" for row, label in enumerate(given[:NUM_OWN])]
    lines += [f"{NUM_OWN},{(given[NUM_OWN] + 1) % NUM_CLASSES},{given[NUM_OWN]},person"]
    (folder / "cleaned.csv").write_text("\n".join(["id,label,given,decided_by", *lines]))
    return folder


def settings_in(folder, **train):
    data = {"source": str(folder / "data.npz"), "labels": str(folder / "cleaned.csv")}
    return {**SETTINGS, "data": data, "train": {**SETTINGS["train"], **train}}


@pytest.fixture(scope="module")
def run(folder):
    return api.fit(settings_in(folder), folder / "run")


def own_rows(audit):
    return (audit.columns["original"] != audit.columns["given"]) & (audit.columns["verdict"] != "trusted")


def test_suggestions_that_are_wrong_look_wrong(run):
    audit = surelabel.audit(run)
    assert audit.num_own == NUM_OWN
    assert audit.columns["p_wrong"][own_rows(audit)].min() > 0.5
    low, high = audit.noise_rate.interval
    assert low <= NUM_OWN / 120 <= high


def test_what_a_person_decided_is_trusted_without_another_file(run):
    [row] = [one for one in run.samples().to_pylist() if one["id"] == str(NUM_OWN)]
    assert (row["verdict"], row["p_wrong"]) == ("trusted", 0)
    assert row["original"] != row["given"]


def test_a_killed_run_ends_like_an_undisturbed_one(folder, run, outcome):
    steps = iter(range(1000))
    with pytest.raises(Interrupted):
        api.fit(settings_in(folder), folder / "killed", interrupt=lambda: next(steps) > 12)
    assert outcome(api.resume(folder / "killed")) == outcome(run)


def test_another_original_label_is_other_data(folder, tmp_path):
    for name in ("data.npz", "cleaned.csv"):
        shutil.copy(folder / name, tmp_path)
    steps = iter(range(1000))
    with pytest.raises(Interrupted):
        api.fit(settings_in(tmp_path), tmp_path / "run", interrupt=lambda: next(steps) > 12)
    lines = (tmp_path / "cleaned.csv").read_text().splitlines()
    lines[1] = ",".join([*lines[1].split(",")[:3], "nobody"])
    (tmp_path / "cleaned.csv").write_text("\n".join(lines))
    with pytest.raises(RunError, match="original labels of the training rows"):
        api.resume(tmp_path / "run")


def test_without_a_second_opinion_the_rate_is_not_known(folder):
    run = api.fit(settings_in(folder, second_opinion=False), folder / "alone")
    audit = surelabel.audit(run)
    assert not audit.can_tell
    assert audit.noise_rate.interval == (0.0, pytest.approx(119 / 120)), "all but the row that a person decided on"
    assert f"{NUM_OWN} of 120 labels are surelabel's own suggestions" in " ".join(audit.sentences())
    assert check_labels(audit, max_wrong=0.9).exit_code == 3


@pytest.mark.parametrize("accept", ["safe", "all"])
def test_a_second_export_knows_what_was_given_at_first(folder, run, accept):
    from surelabel.exporting import Rules, export

    id = str(NUM_OWN - 1)
    given = {str(row): str(label) for row, label in enumerate(np.load(folder / "data.npz")["y"])}
    decisions = {id: Decision(1, "2026-01-31T12:00:00.000+00:00", id, "x", "keep", given[id], "tester")}
    out = folder / accept
    written = export(run, surelabel.audit(run), decisions, out, rules=Rules(accept))
    with (out / "cleaned.csv").open(newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    assert {name: row["given"] for name, row in rows.items()} == given
    model = {name for name, row in rows.items() if row["decided_by"] == "model"}
    assert model == {name for name, row in rows.items() if row["label"] != row["given"]} - {str(NUM_OWN)}
    assert all(
        row["decided_by"] == ("person" if name in (id, str(NUM_OWN)) else "nobody")
        for name, row in rows.items()
        if name not in model
    )
    assert all((row["changed"] == "True") == (row["label"] != row["given"]) for row in rows.values())
    keep = np.load(out / "keep_mask.npy")
    assert not any(kept for kept, name in zip(keep, rows, strict=True) if name in model)
    assert written.counts["changed_by_model"] == len(model)
    if accept == "all":
        assert len(model) <= 2, "what the user gave is the user's again"
        before, after = written.cleaned.expected_right
        assert after > before + NUM_OWN / 2
