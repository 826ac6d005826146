"""Windows of images on two gloo processes, streamed and decoded once: the same run as on one."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from surelabel.api import fit
from surelabel.runs.run_dir import RunDir

pytestmark = [pytest.mark.training, pytest.mark.timeout(600)]

WORKER = Path(__file__).with_name("worker.py")


def photos(folder: Path) -> Path:
    """22 images in two classes: the last of three batches has six rows, three on each process."""
    rng = np.random.default_rng(0)
    for number in range(22):
        pixels = rng.integers(0, 200, (24, 28, 3), dtype=np.uint8)
        pixels[..., number % 2] //= 2
        (folder / str(number % 2)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{number % 2}/{number:02d}.png")
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def config_of(source: Path, decode: str) -> dict:
    return {
        "data": {"source": str(source), "image_size": 20, "crop": 18, "decode": decode, "workers": 1},
        "method": "car",
        "model": {"name": "mlp", "options": {"widths": [8], "norm": "none"}},
        "train": {"epochs": 2, "batch_size": 8, "threads": 1, "device": "cpu"},
    }


def test_same_run_as_one_process(tmp_path):
    source, modes = photos(tmp_path / "photos"), ("stream", "once")
    jobs = tmp_path / "jobs.json"
    jobs.write_text(
        json.dumps([{"do": "fit", "out": str(tmp_path / mode), "config": config_of(source, mode)} for mode in modes])
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    done = subprocess.run([*command, str(WORKER), str(jobs)], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    for mode in modes:
        one, two = fit(config_of(source, mode), tmp_path / f"one_{mode}"), RunDir.open(tmp_path / mode)
        for a, b in zip(one.metrics(), two.metrics(), strict=True):
            assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)
        np.testing.assert_allclose(one.samples()["quality"].to_numpy(), two.samples()["quality"].to_numpy(), atol=2e-5)
