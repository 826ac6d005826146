"""ANIMAL-10N (Song et al., 2019): ten animals that are easily confused; about 8 % wrong labels.

People labelled the pictures. Two versions are published: binary batches, and folders `training`
and `testing` with files whose names start with the class number. The byte order of the batches is
not documented; we take the one in which all labels are classes. True labels of the training
pictures are unknown. One public loader claims that the names of classes 4 and 5 (Cheetah, Jaguar)
are swapped; we use the authors' names and have not verified them. Like the authors, we do not
augment by default.
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from surelabel.data.benchmarks.benchmark import Benchmark, NoOptions, Request, numbered_ids
from surelabel.data.benchmarks.dataset_directory import DatasetDirectory, check_inside
from surelabel.data.benchmarks.image_list import ImageList, read_listed_images
from surelabel.data.images.load import fit_to_shape, is_image
from surelabel.data.sources.interface import ImageDefaults, Parts, Rows
from surelabel.errors import DataError

CLASSES = ("Cat", "Lynx", "Wolf", "Coyote", "Cheetah", "Jaguar", "Chimpanzee", "Orangutan", "Hamster", "Guinea pig")

_DIRECTORY = DatasetDirectory(
    "animal10n",
    "ROOT/{data_batch_1.bin, ..., test_batch.bin}, or ROOT/{training, testing}/LABEL_*.jpg",
    "the authors on request: https://dm.kaist.ac.kr/datasets/animal-10n/",
)
_IMAGE_DEFAULTS = ImageDefaults(crop_padding=0, flip=False)
_SIDE = 64
_FOLDERS = {"train": "training", "test": "testing"}
_BATCH = {"train": re.compile(r"data_batch_(\d+)\.bin"), "test": re.compile(r"test_batch(\d*)\.bin")}


def _read_parts(request: Request[NoOptions]) -> Parts:
    return Parts(_read_part("train", request), {"test": _read_part("test", request)}, CLASSES, _IMAGE_DEFAULTS)


def _read_test(request: Request[NoOptions]) -> Rows:
    return _read_part("test", request)


def _read_part(part: str, request: Request[NoOptions]) -> Rows:
    batches = _find_batches(request.root, part)
    return _read_batches(batches, part, request) if batches else _read_folder(part, request)


def _find_batches(root: Path, part: str) -> list[Path]:
    """Return the binary files in the order of their numbers, in which 10 follows 9."""
    matches = [(match, path) for path in root.iterdir() if (match := _BATCH[part].fullmatch(path.name))]
    return [check_inside(path, root) for _, path in sorted(matches, key=lambda pair: int(pair[0][1] or 0))]


def _read_batches(paths: list[Path], part: str, request: Request[NoOptions]) -> Rows:
    batches = [_read_records(path) for path in paths]
    x = torch.from_numpy(np.concatenate([records["pixels"] for records in batches]))
    names = np.array(CLASSES)[np.concatenate([records["label"] for records in batches])]
    return Rows(fit_to_shape(x, request.shape, request.directory.name), names, numbered_ids(part, len(names)))


def _read_records(path: Path) -> np.ndarray:
    """Read the records in the byte order in which all labels are classes."""
    for order in "<>":
        kind = np.dtype([("id", f"{order}i4"), ("label", f"{order}i4"), ("pixels", "u1", (3, _SIDE, _SIDE))])
        if not path.stat().st_size or path.stat().st_size % kind.itemsize:
            size = f"{path.stat().st_size} bytes are not a number of records of {kind.itemsize} bytes"
            raise DataError(f"{path}: {size} (id, label, 3 x {_SIDE} x {_SIDE} pixels): cut off or damaged")
        records = np.memmap(path, kind, mode="r")
        if ((records["label"] >= 0) & (records["label"] < len(CLASSES))).all():
            return records
    raise DataError(
        f"{path}: labels outside 0..{len(CLASSES) - 1} in both byte orders; expected ANIMAL-10N's binary version"
    )


def _read_folder(part: str, request: Request[NoOptions]) -> Rows:
    """Read a folder of files, in the root or one level below, where archives may have put it."""
    folder = _find_folder(request.root, part)
    images = ImageList()
    for path in sorted(path for path in folder.iterdir() if is_image(path)):
        label, separator, _ = path.name.partition("_")
        if not separator or label not in map(str, range(len(CLASSES))):
            raise DataError(f"{path}: expected a name that starts with its class, 0_ to {len(CLASSES) - 1}_")
        relative = f"{folder.name}/{path.name}"
        images.add(relative, CLASSES[int(label)], relative)
    return read_listed_images(images, replace(request, root=folder.parent))


def _find_folder(root: Path, part: str) -> Path:
    for place in (root, *sorted(path for path in root.iterdir() if path.is_dir())):
        if (place / _FOLDERS[part]).is_dir():
            return place / _FOLDERS[part]
    raise _DIRECTORY.missing(root, f"{_FOLDERS[part]}/ and {'data' if part == 'train' else 'test'}_batch*.bin")


ANIMAL10N = Benchmark(_DIRECTORY, NoOptions, _read_parts, _read_test, side=_SIDE)
