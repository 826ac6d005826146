"""ANIMAL-10N (Song et al., 2019): pictures of ten animals that are easily confused, labelled by people; about 8 % are wrong.

Two versions are published: binary batches, and `training` and `testing` folders of files whose names start with the class
number. The byte order of the batches is not stated: it is the one in which all labels are classes. No true labels are known
for training. One public loader holds that the names of classes 4 and 5 (Cheetah, Jaguar) are exchanged; the names here are the
authors', and are not verified. The authors train without augmentation, and so is it here unless it is asked for.
"""

import re
from pathlib import Path

import numpy as np
import torch

from surelabel.config import DataConfig, Part
from surelabel.data.benchmarks.layout import Layout, inside, options_of
from surelabel.data.benchmarks.listing import Listing, listed_rows
from surelabel.data.benchmarks.usual import coloured
from surelabel.data.images.load import fitted, is_image
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.interface import ImageDefaults, Parts, Rows
from surelabel.errors import DataError

KIND = "animal10n"
BUNDLED: tuple[str, ...] = ("animal10n",)

CLASSES = ("Cat", "Lynx", "Wolf", "Coyote", "Cheetah", "Jaguar", "Chimpanzee", "Orangutan", "Hamster", "Guinea pig")

_LAYOUT = Layout(
    "animal10n",
    "ROOT/{data_batch_1.bin, ..., test_batch.bin}, or ROOT/{training, testing}/LABEL_*.jpg",
    "the authors on request: https://dm.kaist.ac.kr/datasets/animal-10n/",
)
_LOOK = ImageDefaults(crop_padding=0, flip=False)
_SIDE = 64
_FOLDERS = {"train": "training", "test": "testing"}
_BATCH = {"train": re.compile(r"data_batch_(\d+)\.bin"), "test": re.compile(r"test_batch(\d*)\.bin")}


class Options(Part):
    """None yet."""


def accepts(source: str) -> bool:
    """By the name."""
    return source in BUNDLED


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """The training pictures and `test`, with their labels as given."""
    train = _rows("train", config, shape)
    return Parts(train, {"test": _rows("test", config, tuple(train.x.shape[1:]))}, CLASSES, _LOOK)


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """The test part."""
    test = _rows("test", config, shape)
    return test.x, test.ids


def _rows(part: str, config: DataConfig, shape: Shape | None) -> Rows:
    options_of(config, Options)
    root, shape = _LAYOUT.root(config), shape or coloured(config, _SIDE)
    batches = _batches(root, part)
    if batches:
        return _from_batches(batches, part, config, shape)
    folder = _folder(root, part)
    return listed_rows(_listing(folder), folder.parent, _LAYOUT, config, shape)


def _batches(root: Path, part: str) -> list[Path]:
    """The binary files by their number: 10 follows 9."""
    matches = [(match, path) for path in root.iterdir() if (match := _BATCH[part].fullmatch(path.name))]
    return [inside(path, root) for _, path in sorted(matches, key=lambda pair: int(pair[0][1] or 0))]


def _from_batches(paths: list[Path], part: str, config: DataConfig, shape: Shape) -> Rows:
    records = [_records(path) for path in paths]
    x: Inputs = torch.from_numpy(np.concatenate([record["pixels"] for record in records]))
    names = np.array(CLASSES)[np.concatenate([record["label"] for record in records])]
    ids = np.array([f"{part}/{row:05d}" for row in range(len(names))])
    return Rows(fitted(x, shape, config.source), names, ids)


def _records(path: Path) -> np.ndarray:
    """Id, label and channels of each picture, in the byte order that makes all labels classes."""
    for order in "<>":
        kind = np.dtype([("id", f"{order}i4"), ("label", f"{order}i4"), ("pixels", "u1", (3, _SIDE, _SIDE))])
        if not path.stat().st_size or path.stat().st_size % kind.itemsize:
            size = f"{path.stat().st_size} bytes are not a number of records of {kind.itemsize} bytes"
            raise DataError(f"{path}: {size} (id, label, 3 x {_SIDE} x {_SIDE} pixels): cut off or damaged")
        records = np.memmap(path, kind, mode="r")
        if ((records["label"] >= 0) & (records["label"] < len(CLASSES))).all():
            return records
    raise DataError(
        f"{path}: in neither byte order are all labels in 0..{len(CLASSES) - 1}; expected ANIMAL-10N's binary version"
    )


def _folder(root: Path, part: str) -> Path:
    """The folder of a part, in the root or one level below, where archives may have put it."""
    for place in (root, *sorted(path for path in root.iterdir() if path.is_dir())):
        if (place / _FOLDERS[part]).is_dir():
            return place / _FOLDERS[part]
    raise _LAYOUT.lacks(root, f"{_FOLDERS[part]}/ and {'data' if part == 'train' else 'test'}_batch*.bin")


def _listing(folder: Path) -> Listing:
    """The files in sorted order, because the system lists them in any."""
    listing = Listing()
    for path in sorted(path for path in folder.iterdir() if is_image(path)):
        label, sign, _ = path.name.partition("_")
        if not sign or label not in map(str, range(len(CLASSES))):
            raise DataError(f"{path}: expected a name that starts with its class, 0_ to {len(CLASSES) - 1}_")
        listing.add(f"{folder.name}/{path.name}", CLASSES[int(label)], f"{folder.name}/{path.name}")
    return listing
