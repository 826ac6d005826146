"""Food-101N (Lee et al., 2018): 310,009 web pictures of 101 dishes; about 20 % wrong labels.

The test set is that of Food-101, a separate data set whose folder the option `food101` names;
without it there is no test set. The release also has verification labels. They tell whether a
label is right, not which one would be, so they are no clean labels and we do not use them. The
lists start with a header line.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from surelabel.config import Part
from surelabel.data.benchmarks.benchmark import IMAGENET_MEAN, IMAGENET_STD, Benchmark, Request, crop_defaults
from surelabel.data.benchmarks.dataset_directory import DatasetDirectory, check_inside
from surelabel.data.benchmarks.image_list import ImageList, read_lines, read_listed_images
from surelabel.data.sources.interface import Parts, Rows
from surelabel.errors import DataError

_DIRECTORY = DatasetDirectory(
    "food101n",
    "ROOT/{images/CLASS/*.jpg, meta/classes.txt, meta/imagelist.tsv} (or in ROOT/Food-101N_release)",
    "https://kuanghuei.github.io/Food-101N/",
)
_TEST_DIRECTORY = DatasetDirectory(
    "food101n: data.options.food101",
    "FOLDER/{images/CLASS/*.jpg, meta/test.txt or meta/test.json} (or in FOLDER/food-101)",
    "https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/",
)
_HEADER = "class_name"
_TEST_LISTS = ("meta/test.txt", "meta/test.json")


class Options(Part):
    """Options of food101n."""

    food101: str | None = None
    """Folder of Food-101, whose test split is the test set; None trains without a test set."""


def _read_parts(request: Request[Options]) -> Parts:
    release = replace(request, root=_find_release(request.root))
    classes = _read_class_names(release.root)
    train = read_listed_images(_list_training_images(release.root, classes), release)
    folder = request.options.food101
    tests = {} if folder is None else {"test": _read_food101(folder, classes, request)}
    return Parts(train, tests, classes, crop_defaults(request.config, IMAGENET_MEAN, IMAGENET_STD))


def _read_test(request: Request[Options]) -> Rows:
    """Read the test pictures of Food-101, or without its folder the training pictures."""
    parts = _read_parts(request)
    return parts.tests.get("test", parts.train)


def _find_release(root: Path) -> Path:
    folder = root / "Food-101N_release" if (root / "Food-101N_release").is_dir() else root
    _DIRECTORY.require(root, folder, ("images", "meta/classes.txt", "meta/imagelist.tsv"))
    return folder


def _read_class_names(root: Path) -> tuple[str, ...]:
    """Read the class names in their order; those of Food-101 are the same in another order."""
    return tuple(line for _, line in read_lines(root / "meta/classes.txt") if not line.startswith(_HEADER))


def _list_training_images(root: Path, classes: tuple[str, ...]) -> ImageList:
    images, path = ImageList(), root / "meta/imagelist.tsv"
    for number, line in read_lines(path):
        if not line.startswith(_HEADER):
            _add_image(images, line, "", classes, f"{path}, line {number}")
    return images


def _read_food101(place: str, classes: tuple[str, ...], request: Request[Options]) -> Rows:
    folder = Path(place).expanduser()
    root = folder / "food-101" if (folder / "food-101").is_dir() else folder
    path = next((root / file for file in _TEST_LISTS if (root / file).is_file()), None)
    if path is None or not (root / "images").is_dir():
        raise _TEST_DIRECTORY.missing(folder, "images" if path else " or ".join(_TEST_LISTS))
    images = ImageList()
    for number, key in _read_keys(check_inside(path, root)):
        _add_image(images, key, "food101/", classes, f"{path}, line {number}")
    return read_listed_images(images, replace(request, directory=_TEST_DIRECTORY, root=root), is_clean=True)


def _read_keys(path: Path) -> Iterable[tuple[int, str]]:
    """Read the keys CLASS/IMAGE of Food-101 from its text list, or from its JSON list by class."""
    if path.suffix != ".json":
        return read_lines(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return list(enumerate((str(key) for keys in content.values() for key in keys), 1))
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise DataError(f"{path}: not readable as JSON of keys by class ({' '.join(str(error).split())})") from None


def _add_image(images: ImageList, key: str, id_prefix: str, classes: tuple[str, ...], where: str) -> None:
    name, separator, image = key.partition("/")
    if name not in classes or not separator or not image:
        raise DataError(
            f"{where}: expected CLASS/IMAGE with one of the {len(classes)} classes of classes.txt, got {key!r}"
        )
    # The keys of Food-101 have no suffix.
    file = key if image.lower().endswith(".jpg") else f"{key}.jpg"
    images.add(f"images/{file}", name, id_prefix + key)


FOOD101N = Benchmark(_DIRECTORY, Options, _read_parts, _read_test, side=256, crop=224)
