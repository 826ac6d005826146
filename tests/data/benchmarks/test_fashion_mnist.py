import gzip
import struct

import numpy as np
import pytest

from surelabel.config import DataConfig
from surelabel.data import read_inputs
from surelabel.errors import DataError


def idx(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def write(root, pack=None, num_train=6):
    root.mkdir(parents=True, exist_ok=True)
    for stem, count in (("train", num_train), ("t10k", 4)):
        files = {
            f"{stem}-images-idx3-ubyte": np.arange(count)[:, None, None] + np.zeros((1, 28, 28)),
            f"{stem}-labels-idx1-ubyte": np.arange(count)[::-1],
        }
        for name, array in files.items():
            content = idx(array)
            path = root / (f"{name}.gz" if pack else name)
            path.write_bytes(gzip.compress(content) if pack else content)
    return root


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("folder", [".", "raw", "FashionMNIST/raw"])
def test_the_four_files_are_read(tmp_path, load, pack, folder):
    write(tmp_path / folder, pack)
    corpus = load("fashion_mnist", tmp_path)
    assert corpus.train.x.shape == (6, 1, 28, 28)
    assert corpus.train.x[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert corpus.train.label.tolist() == [5, 4, 3, 2, 1, 0]
    assert corpus.train.clean.tolist() == corpus.train.label.tolist()
    assert corpus.train.ids[:2].tolist() == ["train/00000", "train/00001"]
    assert corpus.tests["test"].ids[0] == "test/00000"
    assert corpus.class_names[0] == "T-shirt/top"
    assert corpus.num_classes == 10
    assert corpus.image_defaults.crop_padding == 2


def test_files_named_gz_need_not_be_compressed(tmp_path, load):
    for path in write(tmp_path).iterdir():
        path.rename(path.with_name(path.name + ".gz"))
    assert len(load("fashion_mnist", tmp_path).train) == 6


def test_test_images_can_be_read_in_another_shape(tmp_path):
    config = DataConfig(source="fashion_mnist", root=str(write(tmp_path)))
    x, ids = read_inputs(config, (3, 14, 14))
    assert x.shape == (4, 3, 14, 14)
    assert ids[0] == "test/00000"


def change(path, function):
    path.write_bytes(function(path.read_bytes()))


@pytest.mark.parametrize(
    ("file", "function", "message"),
    [
        ("train-images-idx3-ubyte", lambda b: b[:-5], r"4699 bytes after its header, which promises 4704: cut off"),
        ("train-images-idx3-ubyte", lambda b: b[:9], r"cut off within its header"),
        ("train-images-idx3-ubyte", lambda _: b"", r"starts with , expected 00000803"),
        ("train-images-idx3-ubyte", lambda b: b"\0\0\x08\x01" + b[4:], r"starts with 00000801, expected 00000803"),
        ("train-labels-idx1-ubyte", lambda _: idx(np.arange(5)), r"5 labels for 6 images"),
        ("t10k-labels-idx1-ubyte", lambda _: idx(np.array([1, 2, 10, 3])), r".*row 2 is 10; expected 0\.\.9"),
        ("t10k-labels-idx1-ubyte", lambda b: gzip.compress(b)[:-9], r"not readable"),
    ],
)
def test_damaged_files_are_named(tmp_path, load, file, function, message):
    change(write(tmp_path) / file, function)
    with pytest.raises(DataError, match=rf"{file}: {message}"):
        load("fashion_mnist", tmp_path)


def test_a_missing_file_is_named(tmp_path, load):
    (write(tmp_path) / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match="lacks t10k-labels-idx1-ubyte; expected ROOT/"):
        load("fashion_mnist", tmp_path)
