"""A run on pretrained features on two gloo processes: computed once, and the same run."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from surelabel.api import fit
from surelabel.runs.run_dir import RunDir

pytestmark = [pytest.mark.training, pytest.mark.timeout(600)]

WORKER = Path(__file__).with_name("worker.py")
NAME = "efficientnet_lite0"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def config_of(source: Path, train_on: str) -> dict:
    return {
        "data": {"source": str(source)},
        "method": "adaptive_car",  # asks for the second opinion before training
        "model": {
            "name": "mlp",
            "options": {"widths": [8], "norm": "none"},
            "features": NAME,
            "feature_size": 32,
            "train_on": train_on,
        },
        "train": {"epochs": 2, "batch_size": 10, "threads": 1, "device": "cpu"},
    }


def test_same_run_as_one_process(tmp_path, monkeypatch):
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    x = rng.integers(0, 150, (40, 3, 20, 20))
    x[np.arange(40), y] += 100
    np.savez(tmp_path / "x.npz", x=x.astype(np.uint8), y=y)
    kinds, jobs = ("features", "inputs"), tmp_path / "jobs.json"
    jobs.write_text(
        json.dumps([{"do": "fit", "out": str(tmp_path / k), "config": config_of(tmp_path / "x.npz", k)} for k in kinds])
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    done = subprocess.run([*command, str(WORKER), str(jobs)], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    (file,) = (tmp_path / "cache").glob("*.features")
    assert file.stat().st_size == 40 * (16 + 4 + 4 * 1280)  # each row once
    for kind in kinds:
        one, two = fit(config_of(tmp_path / "x.npz", kind), tmp_path / f"one_{kind}"), RunDir.open(tmp_path / kind)
        assert one.config().model == two.config().model
        for a, b in zip(one.metrics(), two.metrics(), strict=True):
            assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)
        for column in ("quality", "p_wrong"):
            np.testing.assert_allclose(one.samples()[column].to_numpy(), two.samples()[column].to_numpy(), atol=1e-4)
