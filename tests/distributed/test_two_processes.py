"""Two gloo processes against one: equal losses and states, interchangeable checkpoints."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from surelabel import methods
from surelabel.api import Interrupted, fit, resume
from surelabel.runs.run_dir import RunDir

pytestmark = [pytest.mark.training, pytest.mark.timeout(900)]

ALL = methods.names()
SHARDED = ("aum", "car", "elr", "elr_plus", "incv", "nlnl", "self_ensemble", "sop")
"""Methods whose verdict reads per-sample tables, in different ways."""
FORMS = {"topk": {"store": "topk", "store_k": 2}, "memmap": {"store": "memmap"}}
"""Forms of the tables of targets that are not kept whole in memory."""
WORKER = Path(__file__).with_name("worker.py")
DIGITS = {
    "data": {"source": "digits"},
    "noise": {"kind": "symmetric", "rate": 0.4},
    "train": {"epochs": 3, "threads": 1, "device": "cpu", "second_opinion": False},
}
"""The default method and network."""
NOT_COMPARED = ("seconds", "samples_per_second", "epoch", "stage_epoch", "stage")


def free_port() -> int:
    """A free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def on_two_processes(jobs: list[dict], folder: Path) -> None:
    """Run jobs under torchrun."""
    file = folder / "jobs.json"
    file.write_text(json.dumps(jobs))
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        f"--master-port={free_port()}",
        str(WORKER),
        str(file),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]


def config_for(name: str, **train: object) -> dict:
    """A run of 67 rows in batches of 13 and 14 through batch norm, so that some do not divide."""
    return {
        "data": {"source": "blobs.npz", "validation_fraction": 0.1},
        "noise": {"kind": "symmetric", "rate": 0.3},
        "method": {"name": name},
        "model": {"name": "mlp", "options": {"widths": [16]}},
        "train": {"epochs": 4, "batch_size": 15, "threads": 1, "device": "cpu", **train},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory, make_blobs):
    """The results of all two-process jobs, run once, because starting processes is slow."""
    folder = tmp_path_factory.mktemp("two")
    make_blobs(folder / "blobs.npz")
    jobs = []
    for name in ALL:
        jobs.append({"do": "fit", "out": str(folder / f"{name}-two"), "config": located(config_for(name), folder)})
    for name in SHARDED:
        config = located(config_for(name, replicate_below=0), folder)
        jobs.append({"do": "fit", "out": str(folder / f"{name}-sharded"), "config": config})
    for name, form in FORMS.items():
        config = located(config_for("car", replicate_below=0, **form), folder)
        jobs.append({"do": "fit", "out": str(folder / f"{name}-sharded"), "config": config})
    jobs.append({"do": "fit", "out": str(folder / "digits-two"), "config": DIGITS})
    config = located(config_for("car", sync_batch_norm=False), folder)
    jobs.append({"do": "fit", "out": str(folder / "car-by-process"), "config": config})
    jobs.append({"do": "fit", "out": str(folder / "folds-two"), "config": located(config_for("car", folds=2), folder)})
    sharded = located(config_for("car", replicate_below=0), folder)
    jobs.append({"do": "fit", "out": str(folder / "car-two-stopped"), "config": sharded, "stop_after": 7})
    try:
        fit(
            located(config_for("car"), folder),
            folder / "car-one-stopped",
            interrupt=iter([False] * 6 + [True]).__next__,
        )
    except Interrupted:
        jobs.append({"do": "resume", "out": str(folder / "car-one-stopped")})
    on_two_processes(jobs, folder)
    return folder


def located(config: dict, folder: Path) -> dict:
    """The configuration with the data's real path."""
    return {**config, "data": {**config["data"], "source": str(folder / config["data"]["source"])}}


@pytest.fixture(scope="module")
def alone(folder):
    """The run of a method on one process, trained on first use."""
    made: dict[str, RunDir] = {}

    def run(name: str) -> RunDir:
        if name not in made:
            made[name] = fit(located(config_for(name), folder), folder / f"{name}-one")
        return made[name]

    return run


def assert_same(one: RunDir, two: RunDir) -> None:
    """Check that metrics and verdicts are equal up to the order of summation."""
    assert len(one.metrics()) == len(two.metrics())
    for a, b in zip(one.metrics(), two.metrics(), strict=True):
        compare(a, b, f"epoch {a['epoch']}")
    first, second = one.samples(), two.samples()
    for column in first.column_names:
        a, b = first[column].to_pylist(), second[column].to_pylist()
        if isinstance(a[0], str):
            assert a == b
        else:
            np.testing.assert_allclose(np.array(a, float), np.array(b, float), atol=2e-5, err_msg=column)


def compare(a: object, b: object, where: str) -> None:
    """Check that structures are equal, with numbers to 1e-5."""
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a.keys() - set(NOT_COMPARED):
            compare(a[key], b[key], f"{where} {key}")
    else:
        np.testing.assert_allclose(a, b, atol=1e-5, err_msg=where)


@pytest.mark.parametrize("name", ALL)
def test_same_trace_and_state_as_one_process(name, folder, alone):
    assert_same(alone(name), RunDir.open(folder / f"{name}-two"))


def test_default_network_has_the_trace_of_one_process(folder):
    assert_same(fit(DIGITS, folder / "digits-one"), RunDir.open(folder / "digits-two"))


def test_each_process_may_normalise_by_itself(folder, alone):
    one, two = (run.metrics() for run in (alone("car"), RunDir.open(folder / "car-by-process")))
    assert len(one) == len(two)
    assert one[0]["loss"] != pytest.approx(two[0]["loss"], abs=1e-4)


@pytest.mark.parametrize("name", SHARDED)
def test_tables_divided_among_processes_give_the_same(name, folder, alone):
    assert_same(alone(name), RunDir.open(folder / f"{name}-sharded"))


@pytest.mark.parametrize("form", FORMS)
def test_tables_of_every_form_are_divided_among_processes(form, folder):
    one = fit(located(config_for("car", **FORMS[form]), folder), folder / f"{form}-one")
    assert_same(one, RunDir.open(folder / f"{form}-sharded"))


def test_folds_give_the_same(folder):
    one, two = fit(located(config_for("car", folds=2), folder), folder / "folds-one"), RunDir.open(folder / "folds-two")
    assert_same(one, two)
    first, second = (run.second_opinion()["experts"][-1] for run in (one, two))
    assert second["name"] == "folds"
    assert second["loss"] == pytest.approx(first["loss"], abs=1e-5)


def test_state_of_two_processes_resumes_on_one(folder, alone):
    assert not RunDir.open(folder / "car-two-stopped").is_done
    assert_same(alone("car"), resume(folder / "car-two-stopped"))


def test_state_of_one_process_resumes_on_two(folder, alone):
    assert_same(alone("car"), RunDir.open(folder / "car-one-stopped"))
