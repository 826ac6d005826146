"""Data that do not fit into memory end in one line that names the file and its size."""

import contextlib
import os
import resource
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from surelabel.config import DataConfig
from surelabel.data import load_corpus
from surelabel.errors import DataError

MIB = 2**20
X = np.random.default_rng(0).normal(size=(8, 2))


@contextlib.contextmanager
def memory_left(size):
    """Leave this process so many bytes more than it has."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def grow(path, size):
    """Make a file larger without writing to the disk."""
    os.truncate(path, size)
    return path


def write_csv(folder):
    (folder / "a.csv").write_text("f,label\n1,a\n2,b\n")
    return grow(folder / "a.csv", 4096 * MIB), {}


def write_labels(folder):
    np.savez(folder / "a.npz", x=X, y=np.arange(8) % 2)
    (folder / "labels.csv").write_text("id,label\n0,a\n")
    grow(folder / "labels.csv", 4096 * MIB)
    return folder / "a.npz", {"labels": str(folder / "labels.csv")}


def write_test(folder):
    np.savez(folder / "a.npz", x=X, y=np.arange(8) % 2)
    (folder / "test.csv").write_text("f,label\n1,a\n")
    grow(folder / "test.csv", 4096 * MIB)
    return folder / "a.npz", {"test": str(folder / "test.csv")}


def write_npy(folder):
    np.save(folder / "x.npy", X)
    np.lib.format.open_memmap(folder / "y.npy", mode="w+", dtype=np.int64, shape=(512 * MIB,))
    return folder / "x.npy", {}


def write_npz(folder):
    huge = np.lib.stride_tricks.as_strided(np.zeros(1), shape=(12 * MIB, 2), strides=(0, 0))
    np.savez_compressed(folder / "a.npz", x=huge, y=np.arange(8))
    return folder / "a.npz", {}


def write_parquet(folder):
    part = pa.table({"f": np.zeros(MIB), "label": pa.array(["a"]).take(pa.array(np.zeros(MIB, dtype=np.int32)))})
    with pq.ParquetWriter(folder / "a.parquet", part.schema) as writer:
        for _ in range(24):
            writer.write_table(part)
    return folder / "a.parquet", {}


def write_picture(folder):
    for name in ("a", "b"):
        (folder / "images" / name).mkdir(parents=True)
        Image.new("L", (8, 8)).save(folder / "images" / name / "small.png")
    Image.new("RGB", (9000, 9000)).save(folder / "images/a/large.png", compress_level=1)
    return folder / "images", {}


CASES = {
    "csv": (write_csv, "a.csv"),
    "labels": (write_labels, "labels.csv"),
    "test table": (write_test, "test.csv"),
    "npy": (write_npy, "x.npy|y.npy"),
    "npz": (write_npz, "a.npz"),
    "parquet": (write_parquet, "a.parquet"),
    "picture": (write_picture, "large.png"),
}


@pytest.mark.parametrize("name", CASES)
def test_one_line_names_the_file_and_its_size(name, tmp_path):
    make, named = CASES[name]
    source, settings = make(tmp_path)
    config = DataConfig(source=str(source), cache=False, **settings)
    load_corpus(DataConfig(source="digits"))  # so that everything is imported and has its threads
    with memory_left(128 * MIB), pytest.raises(DataError, match=named) as caught:
        load_corpus(config)
    assert "memory" in str(caught.value)
    assert "bytes" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_commands_end_in_one_line_wherever_memory_ends(call, monkeypatch):
    def fail(_settings):
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr("surelabel.training.cost_estimate.plan", fail)
    result = call("plan", "digits")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("error: not enough memory: Unable to allocate 7 TiB")
