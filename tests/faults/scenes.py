"""Tiny data and commands on which every method trains in a second."""

from pathlib import Path

import numpy as np
from PIL import Image

TRAIN = [
    *("--epochs", "3", "--batch-size", "16", "--device", "cpu", "--threads", "1"),
    *("--model", "mlp", "--set", "model.options={widths: [8], norm: none}"),
]


def write_blobs(path: Path, num_samples: int = 60) -> Path:
    """Write Gaussian blobs of three classes in six dimensions, with a test part."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 6)) * 3
    parts = {}
    for suffix, size in (("", num_samples), ("_test", 30)):
        y = np.arange(size) % 3
        parts |= {f"x{suffix}": (centres[y] + rng.normal(size=(size, 6))).astype(np.float32), f"y{suffix}": y}
    np.savez(path, **parts)
    return path


def write_photos(folder: Path, count: int = 40) -> Path:
    """Write small images of two classes."""
    rng = np.random.default_rng(0)
    for number in range(count):
        pixels = rng.integers(0, 200, (24, 20 + number % 3, 3), dtype=np.uint8)
        pixels[..., number % 2] //= 2
        (folder / str(number % 2)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / str(number % 2) / f"{number:02d}.png")
    return folder


def settings(method: str, source: str = "data.npz") -> dict:
    """Return the configuration of a run on the blobs."""
    return {
        "data": {"source": source},
        "noise": {"kind": "symmetric", "rate": 0.3},
        "method": {"name": method},
        "model": {"name": "mlp", "options": {"widths": [8], "norm": "none"}},
        "train": {"epochs": 3, "batch_size": 16, "threads": 1, "device": "cpu"},
    }


def fit_words(method: str, seed: int = 0, data: str = "data.npz", out: str = "run") -> list[str]:
    """Return a `fit` of a method on the blobs."""
    return ["fit", data, "--method", method, "--noise", "symmetric:0.3", "--seed", str(seed), "--out", out, *TRAIN]
