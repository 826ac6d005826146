"""Food-101N (Lee et al., 2018): 310,009 pictures of 101 dishes from the web; about 20 % of the labels are wrong.

The test set is the one of Food-101, a data set apart: the option `food101` names its folder; without it there is no test.
The release's verification labels say whether a label is right and not which one would be, so they are no clean labels and stay
unused. Its lists start with a header line.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from surelabel.config import DataConfig, Part
from surelabel.data.benchmarks.layout import Layout, inside, options_of
from surelabel.data.benchmarks.listing import Listing, lines_of, listed_rows
from surelabel.data.benchmarks.usual import IMAGENET_MEAN, IMAGENET_STD, coloured, cropped_look, sized
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.interface import Parts, Rows
from surelabel.errors import DataError

KIND = "food101n"
BUNDLED: tuple[str, ...] = ("food101n",)

_LAYOUT = Layout(
    "food101n",
    "ROOT/{images/CLASS/*.jpg, meta/classes.txt, meta/imagelist.tsv} (or in ROOT/Food-101N_release)",
    "https://kuanghuei.github.io/Food-101N/",
)
_TEST_LAYOUT = Layout(
    "food101n: data.options.food101",
    "FOLDER/{images/CLASS/*.jpg, meta/test.txt or meta/test.json} (or in FOLDER/food-101)",
    "https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/",
)
_HEADER = "class_name"
_TEST_LISTS = ("meta/test.txt", "meta/test.json")
_SIDE, _CROP = 256, 224


class Options(Part):
    """Of food101n."""

    food101: str | None = None
    """Folder of Food-101, whose test split is the test set; None trains without a test set."""


def accepts(source: str) -> bool:
    """By the name."""
    return source in BUNDLED


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """The web's pictures, and Food-101's `test` where its folder is named."""
    options, config = options_of(config, Options), sized(config, _SIDE, _CROP)
    root, shape = _release(config), shape or coloured(config, _SIDE)
    classes = _class_names(root)
    train = listed_rows(_train(root, classes), root, _LAYOUT, config, shape)
    tests = {} if options.food101 is None else {"test": _test_rows(options.food101, classes, config, shape)}
    return Parts(train, tests, classes, cropped_look(config, IMAGENET_MEAN, IMAGENET_STD))


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """Food-101's test pictures where its folder is named, else the web's."""
    parts = read(config, shape)
    rows = parts.tests.get("test", parts.train)
    return rows.x, rows.ids


def _release(config: DataConfig) -> Path:
    root = _LAYOUT.root(config)
    folder = root / "Food-101N_release" if (root / "Food-101N_release").is_dir() else root
    _LAYOUT.require(root, folder, ("images", "meta/classes.txt", "meta/imagelist.tsv"))
    return folder


def _class_names(root: Path) -> tuple[str, ...]:
    """In the order of the list; Food-101 has the same names, and only names are compared."""
    return tuple(line for _, line in lines_of(root / "meta/classes.txt") if not line.startswith(_HEADER))


def _train(root: Path, classes: tuple[str, ...]) -> Listing:
    listing, path = Listing(), root / "meta/imagelist.tsv"
    for number, line in lines_of(path):
        if not line.startswith(_HEADER):
            _add(listing, line, "", classes, f"{path}, line {number}")
    return listing


def _test_rows(place: str, classes: tuple[str, ...], config: DataConfig, shape: Shape) -> Rows:
    folder = Path(place).expanduser()
    root = folder / "food-101" if (folder / "food-101").is_dir() else folder
    path = next((root / file for file in _TEST_LISTS if (root / file).is_file()), None)
    if path is None or not (root / "images").is_dir():
        raise _TEST_LAYOUT.lacks(folder, "images" if path else " or ".join(_TEST_LISTS))
    listing = Listing()
    for number, key in _keys(inside(path, root)):
        _add(listing, key, "food101/", classes, f"{path}, line {number}")
    return listed_rows(listing, root, _TEST_LAYOUT, config, shape, is_clean=True)


def _keys(path: Path) -> Iterable[tuple[int, str]]:
    """The keys CLASS/IMAGE of Food-101's text list, or of its JSON list, which has them by class."""
    if path.suffix != ".json":
        return lines_of(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return list(enumerate((str(key) for keys in content.values() for key in keys), 1))
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise DataError(f"{path}: not readable as JSON of keys by class ({' '.join(str(error).split())})") from None


def _add(listing: Listing, key: str, id_prefix: str, classes: tuple[str, ...], where: str) -> None:
    name, sign, image = key.partition("/")
    if name not in classes or not sign or not image:
        raise DataError(
            f"{where}: expected CLASS/IMAGE with one of the {len(classes)} classes of classes.txt, got {key!r}"
        )
    # Food-101 leaves the suffix out.
    file = key if image.lower().endswith(".jpg") else f"{key}.jpg"
    listing.add(f"images/{file}", name, id_prefix + key)
