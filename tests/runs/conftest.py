"""Runs that tests of run directories copy and then damage."""

import pytest

from surelabel import api
from surelabel.engine.loop import Interrupted


@pytest.fixture(scope="session")
def runs(tmp_path_factory, make_blobs):
    """Write data.npz, the finished run `done` and the interrupted run `stopped`."""
    folder = tmp_path_factory.mktemp("runs")
    settings = {
        "data": {"source": str(make_blobs(folder / "data.npz"))},
        "noise": {"kind": "symmetric", "rate": 0.3},
        "model": {"name": "mlp", "options": {"widths": [8], "norm": "none"}},
        "train": {"epochs": 3, "batch_size": 16, "threads": 1, "device": "cpu"},
    }
    api.fit(settings, folder / "done")
    steps = iter(range(1000))
    with pytest.raises(Interrupted):
        api.fit(settings, folder / "stopped", interrupt=lambda: next(steps) > 7)
    return folder
