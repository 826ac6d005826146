"""A small finished run, and decisions on it."""

import pytest

from surelabel import api
from surelabel.runs.decisions import Decision
from surelabel.runs.run_dir import RunDir
from surelabel.verdicts import audit


@pytest.fixture(scope="session")
def decision():
    """Return a function that makes a decision: `decision("relabel", "2")`."""
    time = "2026-01-31T12:00:00.000+00:00"
    return lambda action, label: Decision(1, time, "any", "any", action, label, "tester")


@pytest.fixture(scope="session")
def run(tmp_path_factory, make_blobs) -> RunDir:
    """Train on 75 easy rows with 30 % wrong labels, a fifth of them held out."""
    folder = tmp_path_factory.mktemp("export")
    settings = {
        "data": {"source": str(make_blobs(folder / "blobs.npz")), "validation_fraction": 0.2},
        "noise": {"kind": "symmetric", "rate": 0.3},
        "model": {"name": "mlp", "options": {"widths": [16], "norm": "none"}},
        "train": {"epochs": 12, "batch_size": 16, "threads": 1, "device": "cpu"},
    }
    return api.fit(settings, folder / "run")


@pytest.fixture(scope="session")
def verdict(run):
    """Return the audit of the run."""
    return audit(run)
