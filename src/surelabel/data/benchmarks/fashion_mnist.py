"""Fashion-MNIST: 60,000 and 10,000 grey pictures of clothes, 28 x 28, in four IDX files.

The files may be gzipped or not, whatever their names say, and lie in the root or where torchvision puts them. Debian's
package dataset-fashion-mnist is found by itself. Augmentation shifts by 2 pixels and mirrors: clothes fill the frame, so
that the 4 pixels usual on CIFAR would cut sleeves and heels off; a mirrored shirt is still a shirt.
"""

import gzip
import math
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from surelabel.config import DataConfig, Part
from surelabel.data.benchmarks.layout import Layout, inside, options_of
from surelabel.data.images.load import fitted, square
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.interface import ImageDefaults, Parts, Rows
from surelabel.errors import DataError

KIND = "fashion_mnist"
BUNDLED: tuple[str, ...] = ("fashion_mnist",)

CLASSES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")

_LAYOUT = Layout(
    "fashion_mnist",
    "ROOT/{train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte}, each with or "
    "without .gz",
    "https://github.com/zalandoresearch/fashion-mnist, or Debian's package dataset-fashion-mnist",
    places=("/usr/share/datasets/fashion-mnist",),
)
_LOOK = ImageDefaults(crop_padding=2, flip=True, mean=(72.94,), std=(90.02,))
"""Mean and deviation of the 60,000 training pictures."""
_FOLDERS = (".", "raw", "FashionMNIST/raw")
_STEMS = {"train": "train", "test": "t10k"}
_GZIP = b"\x1f\x8b"
_BYTES = 8
"""IDX's number for unsigned bytes."""


class Options(Part):
    """None yet."""


def accepts(source: str) -> bool:
    """By the name."""
    return source in BUNDLED


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """The training pictures and `test`; all labels are true."""
    train = _rows("train", config, shape)
    test = _rows("test", config, tuple(train.x.shape[1:]))
    return Parts(train, {"test": test}, CLASSES, _LOOK)


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """The test part."""
    test = _rows("test", config, shape)
    return test.x, test.ids


def _rows(part: str, config: DataConfig, shape: Shape | None) -> Rows:
    options_of(config, Options)
    root = _LAYOUT.root(config)
    pictures = _array(_file(root, f"{_STEMS[part]}-images-idx3-ubyte"), 3)
    path = _file(root, f"{_STEMS[part]}-labels-idx1-ubyte")
    labels = _array(path, 1)
    if len(labels) != len(pictures):
        raise DataError(f"{path}: {len(labels)} labels for {len(pictures)} images")
    if len(labels) and labels.max() >= len(CLASSES):
        raise DataError(f"{path}: row {labels.argmax()} has the class {labels.max()}; there are 0..{len(CLASSES) - 1}")
    x: Inputs = torch.from_numpy(pictures)[:, None]
    x = fitted(x, shape or square(x, config.image_size), _LAYOUT.name)
    names = np.array(CLASSES)[labels]
    return Rows(x, names, np.array([f"{part}/{row:05d}" for row in range(len(x))]), clean=names)


def _file(root: Path, name: str) -> Path:
    for folder in _FOLDERS:
        for path in (root / folder / name, root / folder / f"{name}.gz"):
            if path.is_file():
                return inside(path, root)
    raise _LAYOUT.lacks(root, name)


def _array(path: Path, num_axes: int) -> np.ndarray:
    """The array in an IDX file: two zeros, the type, the number of axes, their lengths as big-endian int32, the values."""
    content = _readable(path, lambda: _unpacked(path.read_bytes()))
    header = bytes((0, 0, _BYTES, num_axes))
    if content[:4] != header:
        raise DataError(
            f"{path}: starts with {content[:4].hex()}, expected {header.hex()}: not the IDX file it is called"
        )
    start = 4 + 4 * num_axes
    if len(content) < start:
        raise DataError(f"{path}: cut off within its header")
    lengths = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    if len(content) - start != math.prod(lengths):
        found = f"{len(content) - start} bytes after its header"
        raise DataError(f"{path}: {found}, which promises {math.prod(lengths)}: cut off or damaged")
    return np.frombuffer(content, np.uint8, offset=start).reshape(lengths).copy()


def _unpacked(content: bytes) -> bytes:
    return gzip.decompress(content) if content.startswith(_GZIP) else content


def _readable(path: Path, read: Callable[[], bytes]) -> bytes:
    try:
        return read()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not readable ({' '.join(str(error).split())})") from None
