"""Record the runs of this folder again: python tests/stored_runs/record.py CIFAR10_FOLDER."""

import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from PIL import Image
from sklearn.datasets import load_digits

import surelabel

LEFT_OUT = ("lock", "model.safetensors", "trajectory.safetensors", "neighbours.safetensors")
"""Files that no test reads; they would be most of the bytes."""
SETTINGS = {"train.second_opinion": False, "model.features": "none"}


def flip(rng, clean, rate):
    """Give some labels another class."""
    wrong = rng.random(len(clean)) < rate
    return np.where(wrong, (clean + rng.integers(1, clean.max() + 1, len(clean))) % (clean.max() + 1), clean)


def make_digits(rng):
    found = load_digits()
    return found.images[:, None].astype(np.float32) / 16, flip(rng, found.target, 0.2), found.target


def make_imbalanced(rng):
    clean = np.repeat(np.arange(5), [400, 300, 150, 44, 3])
    x = rng.normal(size=(5, 64))[clean] * 0.5 + rng.normal(size=(len(clean), 64))
    return x.astype(np.float32), flip(rng, clean, 0.1), clean


def make_photos(rng, folder):
    table = pq.read_table(folder / "train.parquet")
    table = table.take(rng.choice(len(table), 1000, replace=False))
    images = [np.asarray(Image.open(io.BytesIO(row["bytes"])).convert("RGB")) for row in table["img"].to_pylist()]
    clean = table["label"].to_numpy()
    return np.stack(images).transpose(0, 3, 1, 2), flip(rng, clean, 0.2), clean


def record(name, arrays, epochs):
    """Train on arrays and keep the run under this name, without its large files."""
    np.savez(f"{name}.npz", **dict(zip(("x", "y", "clean"), arrays, strict=True)))
    run = surelabel.fit(f"{name}.npz", name, epochs=epochs, settings=SETTINGS)
    run.write_json("env.json", {**run.environment(), "folder": ".", "platform": "Linux"})
    for file in LEFT_OUT:
        run.remove(file)
    place = Path(__file__).parent / name
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(name, place)


if __name__ == "__main__":
    photos = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        record("digits", make_digits(np.random.default_rng(0)), 200)
        record("imbalanced", make_imbalanced(np.random.default_rng(0)), 200)
        record("photos", make_photos(np.random.default_rng(0), photos), 60)
