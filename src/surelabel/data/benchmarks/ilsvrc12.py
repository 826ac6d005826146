"""ImageNet's validation pictures (ILSVRC 2012) as a test set for WebVision's classes, in any of four layouts.

Classes are matched by WordNet id, or by WebVision's own numbers where a layout was made for WebVision:

- FOLDER/val/n01440764/*.JPEG: by id, as torchvision has it;
- FOLDER/val/ILSVRC2012_val_00000001.JPEG ... with the devkit's data/meta.mat and data/ILSVRC2012_validation_ground_truth.txt:
  the devkit's numbers follow another order than the ids, so they go through meta.mat;
- FOLDER/imagenet_val.txt with lines `FILE CLASS`, and FOLDER/val/FILE: WebVision's numbers (ELR);
- FOLDER/val/0 ... FOLDER/val/49: WebVision's numbers (DivideMix).
"""

import re
from collections.abc import Iterator
from pathlib import Path

from surelabel.config import DataConfig
from surelabel.data.benchmarks.layout import Layout, inside
from surelabel.data.benchmarks.listing import Listing, labelled_lines, lines_of, listed_rows
from surelabel.data.images.load import is_image
from surelabel.data.inputs import Shape
from surelabel.data.sources.interface import Rows
from surelabel.errors import DataError

_LAYOUT = Layout(
    "webvision: data.options.ilsvrc12",
    "FOLDER/val/WNID/*.JPEG, or FOLDER/val/ILSVRC2012_val_*.JPEG with FOLDER/ILSVRC2012_devkit_t12/data/{meta.mat, "
    "ILSVRC2012_validation_ground_truth.txt}, or FOLDER/imagenet_val.txt with FOLDER/val, or FOLDER/val/0..49",
    "https://image-net.org/challenges/LSVRC/2012/ (validation images, and the development kit of tasks 1 and 2)",
)
_WNID = re.compile(r"n\d{8}")
_FLAT = re.compile(r"ILSVRC2012_val_(\d{8})\.\w+")
_TRUTH = "ILSVRC2012_validation_ground_truth.txt"
_NUM_CLASSES = 1000

_Labelled = Iterator[tuple[str, str]]
"""Path relative to the folder, and the WordNet id."""


def read(folder: Path, classes: dict[str, str], config: DataConfig, shape: Shape) -> Rows:
    """The pictures of `classes`, which are names by WordNet id in WebVision's order."""
    if not folder.is_dir():
        raise _LAYOUT.lacks(folder, "everything: there is no such folder")
    listing = Listing()
    for path, wnid in sorted(_labelled(folder, list(classes))):
        if wnid in classes:
            listing.add(path, classes[wnid], f"ilsvrc12/{path.rpartition('/')[2]}")
    if not len(listing):
        raise _LAYOUT.lacks(
            folder, f"pictures of the {len(classes)} classes, the first of which is {next(iter(classes))}"
        )
    return listed_rows(listing, folder, _LAYOUT, config, shape, is_clean=True)


def _labelled(folder: Path, wnids: list[str]) -> _Labelled:
    """Every picture with its class, by the first layout that fits."""
    pictures = "val/" if (folder / "val").is_dir() else ""
    entries = sorted(path.name for path in (folder / pictures).iterdir())
    if (folder / "imagenet_val.txt").is_file():
        return _by_list(folder, pictures, wnids)
    if any(_WNID.fullmatch(name) for name in entries):
        return _by_folder(folder, pictures, {name: name for name in entries if _WNID.fullmatch(name)})
    if any(_FLAT.fullmatch(name) for name in entries):
        return _by_devkit(folder, pictures, entries)
    return _by_folder(
        folder, pictures, {str(n): wnid for n, wnid in enumerate(wnids) if (folder / pictures / str(n)).is_dir()}
    )


def _by_list(folder: Path, pictures: str, wnids: list[str]) -> _Labelled:
    for file, label in labelled_lines(inside(folder / "imagenet_val.txt", folder), _NUM_CLASSES):
        if label < len(wnids):
            yield pictures + file, wnids[label]


def _by_folder(folder: Path, pictures: str, wnid_of: dict[str, str]) -> _Labelled:
    for name, wnid in wnid_of.items():
        for path in (folder / pictures / name).iterdir():
            if is_image(path):
                yield f"{pictures}{name}/{path.name}", wnid


def _by_devkit(folder: Path, pictures: str, entries: list[str]) -> _Labelled:
    """Picture n has the class of line n, whose number meta.mat translates."""
    devkit = _devkit(folder)
    wnid_of, line_of = _meta(devkit / "meta.mat"), dict(lines_of(devkit / _TRUTH))
    for name in entries:
        if match := _FLAT.fullmatch(name):
            number = line_of.get(int(match[1]), "")
            if number not in wnid_of:
                known = "a class number of meta.mat"
                raise DataError(
                    f"{devkit / _TRUTH}, line {int(match[1])}, for {name}: expected {known}, got {number!r}"
                )
            yield pictures + name, wnid_of[number]


def _devkit(folder: Path) -> Path:
    files = ("meta.mat", _TRUTH)
    for place in (folder, folder / "data", *sorted(path / "data" for path in folder.iterdir() if path.is_dir())):
        if all((place / file).is_file() for file in files):
            _LAYOUT.require(folder, place, files)
            return place
    raise _LAYOUT.lacks(folder, " and ".join(files))


def _meta(path: Path) -> dict[str, str]:
    """By the devkit's number, as it is written, the WordNet id."""
    from scipy.io import loadmat

    try:
        synsets = loadmat(str(path), squeeze_me=True)["synsets"]
        return {
            str(int(number)): str(wnid) for number, wnid in zip(synsets["ILSVRC2012_ID"], synsets["WNID"], strict=True)
        }
    # A damaged file makes scipy's reader raise nearly anything.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path}: not readable as the devkit's table of classes ({reason})") from None
