"""A signal after the last training step stops `fit`, and `resume` ends like an undisturbed run."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from surelabel.runs.run_dir import RunDir

pytestmark = pytest.mark.training

PROGRAM = Path(__file__).with_name("late_signal.py")
FIT = [
    *("fit", "data.npz", "--noise", "symmetric:0.3", "--epochs", "2", "--batch-size", "16", "--device", "cpu"),
    *("--threads", "1", "--model", "mlp", "--set", "model.options={widths: [8], norm: none}"),
]
PLACES = {
    "evaluation": {"place": "surelabel.engine.metrics:accuracies", "call": 2},
    "verdict": {"place": "surelabel.engine.verdict:chunk_columns"},
    "second opinion": {"place": "surelabel.training.second_opinion:second_opinion"},
    "neighbours": {"place": "surelabel.training.second_opinion:find_neighbours"},
    "samples": {"place": "surelabel.runs.run_dir:RunDir.write_samples"},
}
"""Functions that a run calls after its last step, in this order."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, make_blobs):
    """A folder with data.npz and the run `whole`, which nothing has disturbed."""
    folder = tmp_path_factory.mktemp("late")
    make_blobs(folder / "data.npz")
    assert start(folder, "-m", "surelabel", *FIT, "--out", "whole").returncode == 0
    return folder


def start(folder, *words):
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def interrupt(folder, run, place, number, *options):
    """Train with a signal at this place; check that it ends the command as it does in training."""
    (folder / "went_on").unlink(missing_ok=True)
    order = json.dumps({**PLACES[place], "number": number})
    ended = start(folder, PROGRAM, order, *FIT, "--out", run, *options)
    assert ended.returncode == 128 + number, ended.stderr
    assert ended.stdout == ""
    assert ended.stderr.splitlines()[-1] == f"stopped; the state is saved. Resume with: surelabel resume {run}"
    assert ended.stderr.count("Resume with") == 1
    assert "Traceback" not in ended.stderr
    assert (folder / run / "state.safetensors").is_file()
    assert not RunDir(folder / run).is_done
    assert not list((folder / run).glob(".*"))


def resume(folder, run, *options):
    ended = start(folder, "-m", "surelabel", "resume", run, *options)
    assert ended.returncode == 0, ended.stderr
    return RunDir(folder / run)


@pytest.mark.parametrize(
    ("place", "number"),
    [
        *((place, signal.SIGTERM) for place in PLACES),
        ("second opinion", signal.SIGINT),
        ("second opinion", signal.SIGHUP),
    ],
)
def test_it_stops_at_once_and_resume_ends_the_same(folder, place, number):
    run = f"{place}-{number}".replace(" ", "-")
    interrupt(folder, run, place, number)
    assert not (folder / "went_on").exists()
    resumed, whole = resume(folder, run), RunDir(folder / "whole")
    assert (resumed.path / "samples.parquet").read_bytes() == (whole.path / "samples.parquet").read_bytes()
    assert [row["loss"] for row in resumed.metrics()] == [row["loss"] for row in whole.metrics()]


@pytest.mark.parametrize("place", ["evaluation", "verdict", "second opinion"])
def test_two_processes_stop_together(folder, place):
    """The first alone gets the signal; in what they do together they stop where they agree."""
    run = f"two-{place}".replace(" ", "-")
    interrupt(folder, run, place, signal.SIGTERM, "--devices", "2")
    resumed, whole = resume(folder, run, "--devices", "1"), RunDir(folder / "whole")
    assert resumed.is_done
    assert resumed.samples()["id"] == whole.samples()["id"]


STEP = "surelabel.engine.loop:Engine._train_step"
STOPS = {
    "reading": (
        {"place": "surelabel.training.build:corpus", "number": signal.SIGTERM},
        (143, "stopped; training had not begun. Resume with: surelabel resume"),
    ),
    "second": (
        {"place": STEP, "call": 3, "number": signal.SIGINT, "times": 2},
        (130, "stopped; what was saved before is intact. Resume with: surelabel resume"),
    ),
    "lost": (
        {"place": STEP, "call": 3, "number": signal.SIGKILL, "rank": 1},
        (2, "error: lost: a process that trains this run has ended"),
    ),
}


@pytest.mark.parametrize("name", STOPS)
def test_an_end_without_a_saved_state_says_what_is_true_and_resume_works(folder, name):
    order, (code, expected) = STOPS[name]
    ended = start(folder, PROGRAM, json.dumps(order), *FIT, "--out", name, *(["--devices", "2"] * (name == "lost")))
    assert ended.returncode == code, ended.stderr
    assert ended.stdout == ""
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(expected)
    assert last.endswith(f"surelabel resume {name}")
    assert "Traceback" not in ended.stderr
    resumed, whole = resume(folder, name, "--devices", "1"), RunDir(folder / "whole")
    assert (resumed.path / "samples.parquet").read_bytes() == (whole.path / "samples.parquet").read_bytes()
