"""`surelabel reproduce`: what it prints, writes and refuses."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from surelabel import api
from surelabel.cli import app
from surelabel.paper.tables import PRESETS, SCALES, PreparedData, Preset, Trial


@pytest.fixture
def toy(trial, monkeypatch, tmp_path):
    """A table of two rows, of which the second cannot be trained."""

    def trials(plan):
        return [
            Trial({"method": "plain"}, trial().config),
            Trial({"method": "the same"}, trial().config),
            Trial({"method": "broken"}, trial(labels="missing.csv").config),
        ]

    monkeypatch.setitem(PRESETS, "toy", Preset("toy", "A toy", trials, rows=("method",)))
    monkeypatch.chdir(tmp_path)
    return trials(None)


def call(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)], catch_exceptions=False, prog_name="surelabel")


def test_dry_run_says_what_is_left_and_does_nothing(toy, tmp_path):
    result = call("toy", "--dry-run", "--json")
    assert result.exit_code == 0, result.stderr
    plan = json.loads(result.stdout)
    assert (plan["num_runs"], plan["new"], plan["done"], plan["epochs"], plan["epochs_left"]) == (2, 2, 0, 4, 4)
    assert list(tmp_path.iterdir()) == []
    api.fit(toy[0].config, tmp_path / "reproduction" / "paper" / "runs" / toy[0].name)
    shown = call("toy", "--dry-run").stdout
    assert "2 runs (1 done, 1 new), 4 epochs, 2 left" in shown
    assert toy[0].name in shown


@pytest.mark.training
def test_tables_are_written_though_a_run_fails(toy, tmp_path):
    api.fit(toy[0].config, tmp_path / "out" / "runs" / toy[0].name)
    result = call("toy", "--out", "out", "--json")
    assert result.exit_code == 1
    printed = json.loads(result.stdout)
    assert (printed["runs"]["done"], printed["runs"]["skipped"]) == (0, 1)
    assert "missing.csv" in printed["runs"]["failed"][toy[2].name]
    means = [entry["ours"]["last"] for entry in printed["entries"]]
    assert means[0] == means[1] != means[2]
    assert means[2] is None
    for suffix in ("md", "csv", "tex"):
        assert (tmp_path / "out" / "tables" / f"toy.{suffix}").is_file()


def test_a_run_in_the_place_of_another_is_a_failure_and_no_result(toy, trial, tmp_path):
    api.fit(trial(epochs=1).config, tmp_path / "out" / "runs" / toy[0].name)
    result = call("toy", "--out", "out", "--only", "method=plain", "--json")
    assert result.exit_code == 1
    printed = json.loads(result.stdout)
    assert "train.epochs is 1 there and 2 here" in printed["runs"]["failed"][toy[0].name]
    assert printed["entries"][0]["ours"]["last"] is None


@pytest.fixture
def two_sets(trial, monkeypatch, tmp_path):
    """A table of two data sets, of which one cannot be prepared."""
    kept, missing = (PreparedData("subset", data, 8, 4) for data in ("cifar10", "cifar100"))

    def trials(plan):
        sources = {"here": kept.path(plan.folder), "missing": missing.path(plan.folder)}
        return [Trial({"data": data}, trial(source=str(path)).config) for data, path in sources.items()]

    monkeypatch.setitem(SCALES, "small", replace(SCALES["small"], prepared={"cifar10": kept, "cifar100": missing}))
    monkeypatch.setitem(PRESETS, "sets", Preset("sets", "Two sets", trials, rows=("data",)))
    monkeypatch.chdir(tmp_path)
    return kept, missing


@pytest.mark.training
def test_missing_data_do_not_stop_the_others(two_sets, make_blobs, tmp_path):
    """One data set has its file; the file of the other cannot be made."""
    place = two_sets[0].path(tmp_path / "out")
    place.parent.mkdir(parents=True)
    make_blobs(place)
    result = call("sets", "--scale", "small", "--data", "nowhere", "--out", "out", "--json")
    assert result.exit_code == 1, result.stderr
    printed = json.loads(result.stdout)
    assert printed["runs"]["done"] == 1
    (reason,) = printed["runs"]["failed"].values()
    assert "cifar100: no such folder" in reason


def test_no_data_at_all_are_one_error(two_sets, tmp_path):
    result = call("sets", "--scale", "small", "--data", "nowhere", "--out", "out")
    assert result.exit_code == 2
    assert "cifar10: no such folder" in result.stderr
    assert not (tmp_path / "out" / "tables").exists()


def test_part_of_a_table_that_is_done(toy, tmp_path):
    api.fit(toy[0].config, tmp_path / "out" / "runs" / toy[0].name)
    result = call("toy", "--out", "out", "--only", "method=plain")
    assert result.exit_code == 0, result.stderr
    assert "0 runs done" in result.stdout
    assert "broken" not in result.stdout
    assert "broken" in (tmp_path / "out" / "tables" / "toy.md").read_text(), "the file has the whole table"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tabel1"], "available: table1"),
        (["toy", "--scale", "huge"], "available: paper, small, tiny"),
        (["toy", "--only", "method=nothing"], "available: plain, the same, broken"),
        (["toy", "--only", "colour=red"], "available: method, seed"),
        (["toy", "--protocol", "mine"], "car"),
        (["toy", "--workers", "2", "--ray", "auto"], "--workers and --ray exclude each other"),
    ],
)
def test_refused(toy, tmp_path, arguments, words):
    result = call(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert words in result.stderr
    assert list(tmp_path.iterdir()) == []


ENDLESS = """
from surelabel.cli import main
from surelabel.config import validate
from surelabel.paper.tables import PRESETS, Preset, Trial
config = validate({"data": {"source": "digits"}, "train": {"epochs": 100000, "threads": 1}, "model": "mlp"})
PRESETS["endless"] = Preset("endless", "Endless", lambda plan: [Trial({"row": "one"}, config)], rows=("row",))
main()
"""


@pytest.mark.training
def test_ctrl_c_on_a_terminal_saves_and_says_how_to_resume(tmp_path):
    command = [sys.executable, "-c", ENDLESS, "reproduce", "endless", "--out", str(tmp_path)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # nohup has it ignored
    )
    try:
        for _ in range(1200):
            if any(file.stat().st_size for file in tmp_path.glob("runs/*/metrics.jsonl")):
                break
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
        out, err = process.communicate(timeout=90)
    finally:
        process.kill()
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1].startswith("stopped; the states are saved. Resume with the same command")
    assert list(tmp_path.rglob("tables/*.csv"))
    assert list(tmp_path.glob("runs/*/state.safetensors"))
    (log,) = tmp_path.glob("logs/*")
    assert all(line.startswith("note: ") for line in log.read_text().splitlines())
