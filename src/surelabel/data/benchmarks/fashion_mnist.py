"""Fashion-MNIST: 60,000 training and 10,000 test pictures of clothes, grey and 28 x 28.

The four IDX files may be gzipped or not, whatever their names say, and lie in the root or where
torchvision puts them. Debian's package dataset-fashion-mnist is found automatically. Augmentation
shifts by 2 pixels and mirrors: clothes fill the frame, so that the 4 pixels usual for CIFAR would
cut off sleeves and heels; a mirrored shirt is still a shirt.
"""

import gzip
import math
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from surelabel.data.benchmarks.benchmark import Benchmark, NoOptions, Request, numbered_ids, to_class_names
from surelabel.data.benchmarks.dataset_directory import DatasetDirectory, check_inside
from surelabel.data.images.load import fit_to_shape, square_shape
from surelabel.data.sources.interface import ImageDefaults, Parts, Rows
from surelabel.errors import DataError

CLASSES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")

_DIRECTORY = DatasetDirectory(
    "fashion_mnist",
    "ROOT/{train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte}, "
    "each with or without .gz",
    "https://github.com/zalandoresearch/fashion-mnist, or Debian's package dataset-fashion-mnist",
    fallback_places=("/usr/share/datasets/fashion-mnist",),
)
_IMAGE_DEFAULTS = ImageDefaults(crop_padding=2, flip=True, mean=(72.94,), std=(90.02,))
"""Mean and deviation are those of the 60,000 training pictures."""
_SIDE = 28
_FOLDERS = (".", "raw", "FashionMNIST/raw")
_STEMS = {"train": "train", "test": "t10k"}
_GZIP_MAGIC = b"\x1f\x8b"
_UNSIGNED_BYTE = 8
"""IDX's code for the type of the values."""


def _read_parts(request: Request[NoOptions]) -> Parts:
    train = _read_part("train", request)
    test = _read_part("test", replace(request, requested_shape=tuple(train.x.shape[1:])))
    return Parts(train, {"test": test}, CLASSES, _IMAGE_DEFAULTS)


def _read_test(request: Request[NoOptions]) -> Rows:
    return _read_part("test", request)


def _read_part(part: str, request: Request[NoOptions]) -> Rows:
    pictures = _read_array(_find_file(request.root, f"{_STEMS[part]}-images-idx3-ubyte"), 3)
    path = _find_file(request.root, f"{_STEMS[part]}-labels-idx1-ubyte")
    labels = _read_array(path, 1)
    if len(labels) != len(pictures):
        raise DataError(f"{path}: {len(labels)} labels for {len(pictures)} images")
    names = to_class_names(labels, CLASSES, f"{path}: the class")
    grey = torch.from_numpy(pictures)[:, None]
    shape = request.requested_shape or square_shape(grey, request.config.image_size)
    x = fit_to_shape(grey, shape, request.directory.name)
    return Rows(x, names, numbered_ids(part, len(x)), clean=names)


def _find_file(root: Path, name: str) -> Path:
    for folder in _FOLDERS:
        for path in (root / folder / name, root / folder / f"{name}.gz"):
            if path.is_file():
                return check_inside(path, root)
    raise _DIRECTORY.missing(root, name)


def _read_array(path: Path, num_axes: int) -> np.ndarray:
    """Read the array in an IDX file.

    The file has two zeros, the type, the number of axes, their lengths as big-endian int32, and the
    values.
    """
    content = _read_content(path)
    header = bytes((0, 0, _UNSIGNED_BYTE, num_axes))
    if content[:4] != header:
        raise DataError(
            f"{path}: starts with {content[:4].hex()}, expected {header.hex()}: not the IDX file that its name promises"
        )
    start = 4 + 4 * num_axes
    if len(content) < start:
        raise DataError(f"{path}: cut off within its header")
    lengths = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    if len(content) - start != math.prod(lengths):
        found = f"{len(content) - start} bytes after its header"
        raise DataError(f"{path}: {found}, which promises {math.prod(lengths)}: cut off or damaged")
    return np.frombuffer(content, np.uint8, offset=start).reshape(lengths).copy()


def _read_content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content.startswith(_GZIP_MAGIC) else content
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not readable ({' '.join(str(error).split())})") from None


FASHION_MNIST = Benchmark(_DIRECTORY, NoOptions, _read_parts, _read_test, side=_SIDE)
