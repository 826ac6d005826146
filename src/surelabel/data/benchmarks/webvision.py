"""WebVision 1.0 (Li et al., 2017), by default "mini": the first 50 classes of the pictures that Google found.

The option `ilsvrc12` names a folder with ImageNet's validation pictures, which become a second test set. Folders called qNNNN
are queries, several for one class: labels come from the lists only. The text files were not seen when this was written; their
format is the one of the official description and of five public loaders. WebVision 2.0 has other classes in another order.
"""

from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from surelabel.config import DataConfig, Part
from surelabel.data.benchmarks import ilsvrc12
from surelabel.data.benchmarks.layout import Layout, options_of
from surelabel.data.benchmarks.listing import Listing, labelled_lines, lines_of, listed_rows
from surelabel.data.benchmarks.usual import IMAGENET_MEAN, IMAGENET_STD, coloured, cropped_look, sized
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.interface import Parts, Rows
from surelabel.errors import ConfigError

KIND = "webvision"
BUNDLED: tuple[str, ...] = ("webvision",)

_LAYOUT = Layout(
    "webvision",
    "ROOT/{info/{train_filelist_google.txt, val_filelist.txt, synsets.txt}, google/qNNNN/*.jpg, val_images_256/*.jpg}, with flickr "
    "likewise",
    "https://data.vision.ee.ethz.ch/cvl/webvision/download.html (info.tar, google_resized_256.tar, val_images_256.tar)",
)
_NUM_CLASSES = 1000
_VALIDATION_FOLDERS = ("val_images_256", "val_images")
_SIDE, _CROP = 256, 227


class Options(Part):
    """Of webvision."""

    num_classes: int = Field(50, ge=2, le=_NUM_CLASSES)
    """How many classes to take, from the first on; 50 is WebVision mini."""
    subset: Literal["google", "flickr", "all"] = "google"
    """Whose pictures to train on."""
    ilsvrc12: str | None = None
    """Folder of ImageNet's validation pictures, a second test set; None tests on WebVision's own only."""


def accepts(source: str) -> bool:
    """By the name."""
    return source in BUNDLED


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """The pictures of the subset; WebVision's validation list as `test`, and `ilsvrc12` where its folder is named."""
    options, config = options_of(config, Options), sized(config, _SIDE, _CROP)
    root, shape = _LAYOUT.root(config), shape or coloured(config, _SIDE)
    classes = _class_names(root, options.num_classes)
    train = listed_rows(_train(root, options.subset, classes), root, _LAYOUT, config, shape)
    tests = {"test": _test_rows(root, classes, config, shape)}
    if options.ilsvrc12 is not None:
        tests["ilsvrc12"] = ilsvrc12.read(Path(options.ilsvrc12).expanduser(), classes, config, shape)
    return Parts(train, tests, tuple(classes.values()), cropped_look(config, IMAGENET_MEAN, IMAGENET_STD))


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """WebVision's validation list."""
    options, config = options_of(config, Options), sized(config, _SIDE, _CROP)
    root = _LAYOUT.root(config)
    rows = _test_rows(root, _class_names(root, options.num_classes), config, shape)
    return rows.x, rows.ids


def _class_names(root: Path, num_classes: int) -> dict[str, str]:
    """By WordNet id, `ID first name`, in the order of synsets.txt: some names alone stand for two classes."""
    _LAYOUT.require(root, root, ("info/synsets.txt",))
    path = root / "info/synsets.txt"
    synsets = [line.partition(" ") for _, line in lines_of(path)]
    names = {wnid: f"{wnid} {words.split(',')[0].strip()}".strip() for wnid, _, words in synsets[:num_classes]}
    if len(names) < num_classes:
        raise ConfigError(f"data.options.num_classes: {num_classes} asked for, {path} lists {len(names)} classes")
    return names


def _train(root: Path, subset: str, classes: dict[str, str]) -> Listing:
    files = [f"info/train_filelist_{subset}.txt"]
    if subset == "all" and not (root / files[0]).is_file():
        files = ["info/train_filelist_google.txt", "info/train_filelist_flickr.txt"]
    _LAYOUT.require(root, root, files)
    listing, names = Listing(), list(classes.values())
    for file in files:
        for path, label in labelled_lines(root / file, _NUM_CLASSES):
            if label < len(names):
                listing.add(path, names[label], path)
    return listing


def _test_rows(root: Path, classes: dict[str, str], config: DataConfig, shape: Shape) -> Rows:
    _LAYOUT.require(root, root, ("info/val_filelist.txt",))
    folder = next((folder for folder in _VALIDATION_FOLDERS if (root / folder).is_dir()), None)
    if folder is None:
        raise _LAYOUT.lacks(root, " or ".join(_VALIDATION_FOLDERS))
    listing, names = Listing(), list(classes.values())
    for file, label in labelled_lines(root / "info/val_filelist.txt", _NUM_CLASSES):
        if label < len(names):
            listing.add(f"{folder}/{file}", names[label], f"val/{file}")
    return listed_rows(listing, root, _LAYOUT, config, shape, is_clean=True)
