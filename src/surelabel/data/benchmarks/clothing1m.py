"""Clothing1M (Xiao et al., 2015): a million pictures of clothes from shops, labelled by the words around them.

Training takes the noisy list alone. The 47,570 pictures of the clean training list stay unused, unless the option
`use_clean_train` adds them. A few pictures are in both lists; their true label is not used even to measure, because clean
labels are known either for all rows or for none. The text files and the pictures may lie in any of the usual places; their
names hold commas. Class names are line by line those of category_names_eng.txt, if it is there; the names here stand for it
and agree in three public copies of the code (the file itself was not seen).
"""

from pathlib import Path

import numpy as np

from surelabel.config import DataConfig, Part
from surelabel.data.benchmarks.layout import Layout, inside, options_of
from surelabel.data.benchmarks.listing import Listing, labelled_lines, lines_of, listed_rows
from surelabel.data.benchmarks.usual import coloured, cropped_look, pixels, sized
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.interface import Parts
from surelabel.errors import DataError

KIND = "clothing1m"
BUNDLED: tuple[str, ...] = ("clothing1m",)

_CLASSES = "T-Shirt Shirt Knitwear Chiffon Sweater Hoodie Windbreaker Jacket Downcoat Suit Shawl Dress Vest Underwear"
CLASSES = tuple(_CLASSES.split())

_LAYOUT = Layout(
    "clothing1m",
    "ROOT/{noisy_train_key_list.txt, noisy_label_kv.txt, clean_{train,val,test}_key_list.txt, clean_label_kv.txt} "
    "(or in ROOT/annotations or ROOT/images) and ROOT/images/0..9 (or ROOT/0..9)",
    "the authors on request: https://github.com/Cysu/noisy_label",
)
_NEEDED = (
    "noisy_train_key_list.txt",
    "noisy_label_kv.txt",
    "clean_val_key_list.txt",
    "clean_test_key_list.txt",
    "clean_label_kv.txt",
)
_NAMES_FILE = "category_names_eng.txt"
_TESTS = {"test": "clean_test_key_list.txt", "clean_validation": "clean_val_key_list.txt"}
_PREFIX = "images/"
_SIDE, _CROP = 256, 224
_MEAN, _STD = pixels(0.6959, 0.6537, 0.6371), pixels(0.3113, 0.3192, 0.3214)


class Options(Part):
    """Of clothing1m."""

    use_clean_train: bool = False
    """Whether to train on the 47,570 pictures with clean labels too; their ids start with clean/."""


def accepts(source: str) -> bool:
    """By the name."""
    return source in BUNDLED


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """The noisy training list; the clean test list, and the clean validation list as a second test."""
    options, root, config = options_of(config, Options), _LAYOUT.root(config), sized(config, _SIDE, _CROP)
    shape = shape or coloured(config, _SIDE)
    texts = _texts(root, options.use_clean_train)
    classes = _class_names(texts, root)
    clean = _labels(texts / "clean_label_kv.txt", classes)
    train = _listing(texts / "noisy_train_key_list.txt", _labels(texts / "noisy_label_kv.txt", classes), root)
    if options.use_clean_train:
        train.extend(_listing(texts / "clean_train_key_list.txt", clean, root, "clean/"))
    tests = {name: _listing(texts / file, clean, root) for name, file in _TESTS.items()}
    return Parts(
        listed_rows(train, root, _LAYOUT, config, shape),
        {name: listed_rows(test, root, _LAYOUT, config, shape, is_clean=True) for name, test in tests.items()},
        classes,
        cropped_look(config, _MEAN, _STD),
    )


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """The clean test list."""
    root, config = _LAYOUT.root(config), sized(config, _SIDE, _CROP)
    texts = _texts(root, options_of(config, Options).use_clean_train)
    clean = _labels(texts / "clean_label_kv.txt", _class_names(texts, root))
    rows = listed_rows(_listing(texts / _TESTS["test"], clean, root), root, _LAYOUT, config, shape)
    return rows.x, rows.ids


def _texts(root: Path, with_clean_train: bool) -> Path:
    """The folder with the lists, all of which must be there."""
    folders = [folder for folder in (root, root / "annotations", root / "images") if (folder / _NEEDED[0]).is_file()]
    folder = folders[0] if folders else root
    _LAYOUT.require(root, folder, (*_NEEDED, "clean_train_key_list.txt") if with_clean_train else _NEEDED)
    if not any((root / _pictures(root) / str(digit)).is_dir() for digit in range(10)):
        raise _LAYOUT.lacks(root, "the pictures, images/0..9")
    return folder


def _pictures(root: Path) -> str:
    """The folder of pictures: `images` in the root, or the root itself."""
    return _PREFIX if (root / _PREFIX).is_dir() else ""


def _class_names(texts: Path, root: Path) -> tuple[str, ...]:
    if not (texts / _NAMES_FILE).is_file():
        return CLASSES
    names = tuple(line for _, line in lines_of(inside(texts / _NAMES_FILE, root)))
    if len(set(names)) != len(CLASSES):
        raise DataError(
            f"{texts / _NAMES_FILE}: {len(set(names))} different class names; expected {len(CLASSES)} lines"
        )
    return names


def _labels(path: Path, classes: tuple[str, ...]) -> dict[str, str]:
    """By key, the name of its class."""
    return {key: classes[label] for key, label in labelled_lines(path, len(classes))}


def _listing(path: Path, labels: dict[str, str], root: Path, id_prefix: str = "") -> Listing:
    """The pictures of a key list; ids are keys, wherever the pictures lie."""
    listing, pictures, without = Listing(), _pictures(root), []
    for number, key in lines_of(path):
        if key in labels:
            listing.add(pictures + key.removeprefix(_PREFIX), labels[key], id_prefix + key)
        else:
            without.append((number, key))
    if without:
        more = f" (and {len(without) - 1} more)" if len(without) > 1 else ""
        raise DataError(f"{path}, line {without[0][0]}: no label for {without[0][1]}{more} in the kv file beside it")
    return listing
