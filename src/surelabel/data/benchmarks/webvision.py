"""WebVision 1.0 (Li et al., 2017); by default "mini", the first 50 classes of Google's pictures.

The option `ilsvrc12` names a folder with ImageNet's validation pictures, which become a second
test set. Folders called qNNNN are search queries, several per class, so labels come from the
lists only. We have not seen the text files: their format follows the official description and
five public loaders. WebVision 2.0 has other classes in another order.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field

from surelabel.config import Part
from surelabel.data.benchmarks import ilsvrc12
from surelabel.data.benchmarks.benchmark import IMAGENET_MEAN, IMAGENET_STD, Benchmark, Request, crop_defaults
from surelabel.data.benchmarks.dataset_directory import DatasetDirectory
from surelabel.data.benchmarks.image_list import ImageList, read_labelled_lines, read_lines, read_listed_images
from surelabel.data.sources.interface import Parts, Rows
from surelabel.errors import ConfigError

_DIRECTORY = DatasetDirectory(
    "webvision",
    "ROOT/{info/{train_filelist_google.txt, val_filelist.txt, synsets.txt}, google/qNNNN/*.jpg, val_images_256/*.jpg}, "
    "with flickr likewise",
    "https://data.vision.ee.ethz.ch/cvl/webvision/download.html (info.tar, google_resized_256.tar, val_images_256.tar)",
)
_NUM_CLASSES = 1000
_VALIDATION_FOLDERS = ("val_images_256", "val_images")


class Options(Part):
    """Options of webvision."""

    num_classes: int = Field(50, ge=2, le=_NUM_CLASSES)
    """How many classes to use, from the first on; 50 is WebVision mini."""
    subset: Literal["google", "flickr", "all"] = "google"
    """The search engine whose pictures to train on."""
    ilsvrc12: str | None = None
    """Folder of ImageNet's validation pictures, a second test set; None tests on WebVision only."""


def _read_parts(request: Request[Options]) -> Parts:
    options, root = request.options, request.root
    classes = _read_class_names(root, options.num_classes)
    names = tuple(classes.values())
    train = ImageList()
    for file in _find_training_lists(root, options.subset):
        train.extend(_list_images(root / file, names))
    rows = read_listed_images(train, request)
    tests = {"test": _read_validation(names, request)}
    if options.ilsvrc12 is not None:
        tests["ilsvrc12"] = ilsvrc12.read(Path(options.ilsvrc12).expanduser(), classes, request)
    return Parts(rows, tests, names, crop_defaults(request.config, IMAGENET_MEAN, IMAGENET_STD))


def _read_test(request: Request[Options]) -> Rows:
    names = tuple(_read_class_names(request.root, request.options.num_classes).values())
    return _read_validation(names, request)


def _read_class_names(root: Path, num_classes: int) -> dict[str, str]:
    """Read `WNID first name` by WordNet id, in the order of synsets.txt; some names occur twice."""
    _DIRECTORY.require(root, root, ("info/synsets.txt",))
    path = root / "info/synsets.txt"
    synsets = [line.partition(" ") for _, line in read_lines(path)]
    names = {wnid: f"{wnid} {words.split(',')[0].strip()}".strip() for wnid, _, words in synsets[:num_classes]}
    if len(names) < num_classes:
        raise ConfigError(f"data.options.num_classes: got {num_classes}, but {path} lists only {len(names)} classes")
    return names


def _find_training_lists(root: Path, subset: str) -> list[str]:
    files = [f"info/train_filelist_{subset}.txt"]
    if subset == "all" and not (root / files[0]).is_file():
        files = ["info/train_filelist_google.txt", "info/train_filelist_flickr.txt"]
    _DIRECTORY.require(root, root, files)
    return files


def _read_validation(names: tuple[str, ...], request: Request[Options]) -> Rows:
    root = request.root
    _DIRECTORY.require(root, root, ("info/val_filelist.txt",))
    folder = next((folder for folder in _VALIDATION_FOLDERS if (root / folder).is_dir()), None)
    if folder is None:
        raise _DIRECTORY.missing(root, " or ".join(_VALIDATION_FOLDERS))
    images = _list_images(root / "info/val_filelist.txt", names, f"{folder}/", "val/")
    return read_listed_images(images, request, is_clean=True)


def _list_images(path: Path, names: tuple[str, ...], folder: str = "", id_prefix: str = "") -> ImageList:
    """List the pictures of the first classes."""
    images = ImageList()
    for file, label in read_labelled_lines(path, _NUM_CLASSES):
        if label < len(names):
            images.add(folder + file, names[label], id_prefix + file)
    return images


WEBVISION = Benchmark(_DIRECTORY, Options, _read_parts, _read_test, side=256, crop=227)
