"""ImageNet's validation pictures (ILSVRC 2012) as a test set for WebVision's classes.

Four layouts are read. Classes are matched by WordNet id, or by WebVision's class numbers if a
layout was made for WebVision:

- FOLDER/val/n01440764/*.JPEG: by id, as in torchvision;
- FOLDER/val/ILSVRC2012_val_00000001.JPEG ... with the devkit's data/meta.mat and
  data/ILSVRC2012_validation_ground_truth.txt: the devkit numbers the classes in another order than
  their ids, so meta.mat translates the numbers;
- FOLDER/imagenet_val.txt with lines `FILE CLASS`, and FOLDER/val/FILE: WebVision's numbers (ELR);
- FOLDER/val/0 ... FOLDER/val/49: WebVision's numbers (DivideMix).
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from surelabel.data.benchmarks.benchmark import Request
from surelabel.data.benchmarks.dataset_directory import DatasetDirectory, check_inside
from surelabel.data.benchmarks.image_list import ImageList, read_labelled_lines, read_lines, read_listed_images
from surelabel.data.images.load import is_image
from surelabel.data.sources.interface import Rows
from surelabel.errors import DataError

_DIRECTORY = DatasetDirectory(
    "webvision: data.options.ilsvrc12",
    "FOLDER/val/WNID/*.JPEG, or FOLDER/val/ILSVRC2012_val_*.JPEG with FOLDER/ILSVRC2012_devkit_t12/data/{meta.mat, "
    "ILSVRC2012_validation_ground_truth.txt}, or FOLDER/imagenet_val.txt with FOLDER/val, or FOLDER/val/0..49",
    "https://image-net.org/challenges/LSVRC/2012/ (validation images, and the development kit of tasks 1 and 2)",
)
_WNID = re.compile(r"n\d{8}")
_NUMBERED_FILE = re.compile(r"ILSVRC2012_val_(\d{8})\.\w+")
_TRUTH = "ILSVRC2012_validation_ground_truth.txt"
_NUM_CLASSES = 1000

_Labelled = Iterator[tuple[str, str]]
"""Paths relative to the folder, with WordNet ids."""


def read(folder: Path, classes: dict[str, str], request: Request[Any]) -> Rows:
    """Read the pictures of `classes`, which are names by WordNet id in WebVision's order."""
    if not folder.is_dir():
        raise _DIRECTORY.missing(folder, "everything: there is no such folder")
    images = ImageList()
    for path, wnid in sorted(_list_labelled(folder, list(classes))):
        if wnid in classes:
            images.add(path, classes[wnid], f"ilsvrc12/{path.rpartition('/')[2]}")
    if not len(images):
        raise _DIRECTORY.missing(
            folder, f"pictures of the {len(classes)} classes, the first of which is {next(iter(classes))}"
        )
    return read_listed_images(images, replace(request, directory=_DIRECTORY, root=folder), is_clean=True)


def _list_labelled(folder: Path, wnids: list[str]) -> _Labelled:
    """List every picture with its class, in the first layout that fits."""
    pictures = "val/" if (folder / "val").is_dir() else ""
    entries = sorted(path.name for path in (folder / pictures).iterdir())
    if (folder / "imagenet_val.txt").is_file():
        return _list_by_file(folder, pictures, wnids)
    if any(_WNID.fullmatch(name) for name in entries):
        return _list_by_folder(folder, pictures, {name: name for name in entries if _WNID.fullmatch(name)})
    if any(_NUMBERED_FILE.fullmatch(name) for name in entries):
        return _list_by_devkit(folder, pictures, entries)
    numbered = {str(n): wnid for n, wnid in enumerate(wnids) if (folder / pictures / str(n)).is_dir()}
    return _list_by_folder(folder, pictures, numbered)


def _list_by_file(folder: Path, pictures: str, wnids: list[str]) -> _Labelled:
    for file, label in read_labelled_lines(check_inside(folder / "imagenet_val.txt", folder), _NUM_CLASSES):
        if label < len(wnids):
            yield pictures + file, wnids[label]


def _list_by_folder(folder: Path, pictures: str, wnid_of: dict[str, str]) -> _Labelled:
    for name, wnid in wnid_of.items():
        for path in (folder / pictures / name).iterdir():
            if is_image(path):
                yield f"{pictures}{name}/{path.name}", wnid


def _list_by_devkit(folder: Path, pictures: str, entries: list[str]) -> _Labelled:
    """List numbered pictures: line n of the truth has the class of picture n, as in meta.mat."""
    devkit = _find_devkit(folder)
    wnid_of, line_of = _read_meta(devkit / "meta.mat"), dict(read_lines(devkit / _TRUTH))
    for name in entries:
        if match := _NUMBERED_FILE.fullmatch(name):
            number = line_of.get(int(match[1]), "")
            if number not in wnid_of:
                where = f"{devkit / _TRUTH}, line {int(match[1])}, for {name}"
                raise DataError(f"{where}: expected a class number of meta.mat, got {number!r}")
            yield pictures + name, wnid_of[number]


def _find_devkit(folder: Path) -> Path:
    files = ("meta.mat", _TRUTH)
    for place in (folder, folder / "data", *sorted(path / "data" for path in folder.iterdir() if path.is_dir())):
        if all((place / file).is_file() for file in files):
            _DIRECTORY.require(folder, place, files)
            return place
    raise _DIRECTORY.missing(folder, " and ".join(files))


def _read_meta(path: Path) -> dict[str, str]:
    """Read the WordNet id of each of the devkit's class numbers."""
    from scipy.io import loadmat

    try:
        synsets = loadmat(str(path), squeeze_me=True)["synsets"]
        return {
            str(int(number)): str(wnid) for number, wnid in zip(synsets["ILSVRC2012_ID"], synsets["WNID"], strict=True)
        }
    # Damaged files make scipy's reader raise nearly anything.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path}: not readable as the devkit's table of classes ({reason})") from None
