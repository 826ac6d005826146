"""A small finished run, and decisions on it."""

from dataclasses import dataclass

import pytest

from surelabel import api
from surelabel.runs.run_dir import RunDir
from surelabel.verdicts import audit


@dataclass(frozen=True)
class Said:
    """As much of a journal's entry as an export reads."""

    action: str
    label: str | None
    time: str = "2026-01-31T12:00:00.000+00:00"


@pytest.fixture(scope="session")
def said():
    """`said("relabel", "2")`."""
    return Said


@pytest.fixture(scope="session")
def run(tmp_path_factory, make_blobs) -> RunDir:
    """75 easy rows with 30 % wrong labels, a fifth of them held out."""
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
    """Its audit."""
    return audit(run)
