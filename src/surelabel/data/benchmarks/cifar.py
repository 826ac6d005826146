"""CIFAR-10 and CIFAR-100 with their own labels, and CIFAR-10N and CIFAR-100N with human labels.

`data.label_column` selects another column if the files have one: the superclasses of CIFAR-100, or
noisy labels in a parquet file, whose clean labels are then the usual ones.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from surelabel.config import Part
from surelabel.data.benchmarks.benchmark import Benchmark, Request, to_pixel_range
from surelabel.data.benchmarks.cifar_files import (
    HUB_FOLDERS,
    CifarFiles,
    HumanLabels,
    StoredPart,
    read_human_labels,
    read_stored,
)
from surelabel.data.benchmarks.dataset_directory import DatasetDirectory, check_inside, check_md5
from surelabel.data.images.load import Encoded, Images, fit_to_shape, load_images
from surelabel.data.sources.checks import refuse_lost_classes
from surelabel.data.sources.interface import ImageDefaults, Parts, Rows
from surelabel.errors import ConfigError

_SIDE = 32
_CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck"
_FINE = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree
wolf woman worm
"""
_COARSE = """
aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices household_furniture
insects large_carnivores large_man-made_outdoor_things large_natural_outdoor_scenes large_omnivores_and_herbivores
medium_mammals non-insect_invertebrates people reptiles small_mammals trees vehicles_1 vehicles_2
"""

CIFAR10_CLASSES = tuple(_CIFAR10.split())
CIFAR100_CLASSES = tuple(_FINE.split())
CIFAR100_SUPERCLASSES = tuple(_COARSE.split())


class Options(Part):
    """Options of cifar10 and cifar100."""

    verify: bool = True
    """Whether the original batches must have their published md5 sums."""


class HumanOptions(Options):
    """Options of cifar10n and cifar100n."""

    annotation: str | None = None
    """aggre, worse, random1, random2 or random3 (None) of CIFAR-10N; noisy (None) of CIFAR-100N."""
    labels_file: str | None = None
    """Path of the label file; None is CIFAR-10_human.pt or CIFAR-100_human.pt in the root."""


@dataclass(frozen=True)
class _CifarSet:
    """One of the four data sets."""

    files: CifarFiles
    image_defaults: ImageDefaults
    human: HumanLabels | None = None


def _read_parts(cifar: _CifarSet, request: Request[Options]) -> Parts:
    """Read the training and test images, in the classes of the requested label column."""
    files = cifar.files
    train = read_stored("train", files, request)
    given = _given_column(train, files, request)
    if cifar.human is not None:
        given, names = _read_annotation(cifar.human, files, train.columns[files.column], request)
        train = replace(train, columns={**train.columns, given: names})
    rows = _make_rows(train, given, files, request)
    true = _true_column(given, files)
    tests = {"test": _make_rows(read_stored("test", files, request), true, files, request)}
    return Parts(rows, tests, files.columns[true], cifar.image_defaults)


def _read_test(cifar: _CifarSet, request: Request[Options]) -> Rows:
    return _make_rows(read_stored("test", cifar.files, request), cifar.files.column, cifar.files, request)


def _given_column(train: StoredPart, files: CifarFiles, request: Request[Options]) -> str:
    """Return the column of given labels: the usual one unless the configuration names another."""
    asked = request.config.label_column
    if asked is not None and isinstance(request.options, HumanOptions):
        name = request.directory.name
        raise ConfigError(f"data.label_column: not for {name}; choose its labels with data.options.annotation")
    column = asked or files.column
    if column not in train.columns:
        raise ConfigError(f"data.label_column: there is no column {column!r}; available: {', '.join(train.columns)}")
    return column


def _true_column(given: str, files: CifarFiles) -> str:
    """Return the column of true labels: published columns are true, all others are noisy."""
    return given if given in files.columns else files.column


def _read_annotation(
    human: HumanLabels, files: CifarFiles, true_names: np.ndarray, request: Request[Options]
) -> tuple[str, np.ndarray]:
    """Return the key of the requested annotation and the class names that people gave."""
    options = request.options
    assert isinstance(options, HumanOptions)
    annotation = options.annotation or human.default
    if annotation not in human.keys:
        raise ConfigError(f"data.options.annotation: there is no {annotation!r}; available: {', '.join(human.keys)}")
    key, path = human.keys[annotation], request.root / human.file
    if options.labels_file is not None:
        path = Path(options.labels_file).expanduser()
    if not path.is_file():
        missing = human.file if options.labels_file is None else f"the label file {path}"
        raise request.directory.missing(request.root, missing)
    if options.labels_file is None:
        check_inside(path, request.root)
    if options.verify:
        check_md5(path, human.md5)
    return key, read_human_labels(path, key, true_names, files.classes)


def _make_rows(stored: StoredPart, given: str, files: CifarFiles, request: Request[Options]) -> Rows:
    x, kept, encoded = _load_images(stored, request)
    names, clean = stored.columns[given], stored.columns[_true_column(given, files)]
    refuse_lost_classes(names, names[kept], request.directory.name)
    return Rows(x, names[kept], stored.ids[kept], clean[kept], positions=kept, encoded=encoded)


def _load_images(stored: StoredPart, request: Request[Options]) -> Images:
    name = request.directory.name
    if isinstance(stored.images, Encoded):
        return load_images(stored.images, request.config, request.shape, name)
    return Images(fit_to_shape(stored.images, request.shape, name), np.arange(len(stored.ids)), None)


_CIFAR10_FILES = CifarFiles(
    columns={"label": CIFAR10_CLASSES},
    batch_keys={"label": "labels"},
    hub="cifar10",
    folder="cifar-10-batches-py",
    archive="cifar-10-python.tar.gz",
    archive_md5="c58f30108f718f92721af3b95e74349a",
    batches={
        "train": {
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        },
        "test": {"test_batch": "40351d587109b95175f43aff81a1287e"},
    },
)
_CIFAR100_FILES = CifarFiles(
    columns={"fine_label": CIFAR100_CLASSES, "coarse_label": CIFAR100_SUPERCLASSES},
    batch_keys={"fine_label": "fine_labels", "coarse_label": "coarse_labels"},
    hub="cifar100",
    folder="cifar-100-python",
    archive="cifar-100-python.tar.gz",
    archive_md5="eb9058c3a382ffc7106e4002c42a8d85",
    batches={
        "train": {"train": "16019d7e3df5f24257cddd939b257f8d"},
        "test": {"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
    },
)
_CIFAR10N_LABELS = HumanLabels(
    file="CIFAR-10_human.pt",
    md5="96644db5574813cae939af5f7f2a0aec",
    keys={
        "aggre": "aggre_label",
        "worse": "worse_label",
        "worst": "worse_label",
        "random1": "random_label1",
        "random2": "random_label2",
        "random3": "random_label3",
    },
    default="random1",
)
_CIFAR100N_LABELS = HumanLabels(
    file="CIFAR-100_human.pt",
    md5="a67b45c1d7992051865b5c755bd68bb1",
    keys={"noisy": "noisy_label"},
    default="noisy",
)
_CIFAR10_DEFAULTS = ImageDefaults(
    crop_padding=4, mean=to_pixel_range(0.4914, 0.4822, 0.4465), std=to_pixel_range(0.2023, 0.1994, 0.2010)
)
_CIFAR100_DEFAULTS = ImageDefaults(
    crop_padding=4, mean=to_pixel_range(0.5071, 0.4867, 0.4408), std=to_pixel_range(0.2675, 0.2565, 0.2761)
)


def _make_benchmark(name: str, cifar: _CifarSet) -> Benchmark[Options]:
    options = Options if cifar.human is None else HumanOptions
    read_parts, read_test = partial(_read_parts, cifar), partial(_read_test, cifar)
    return Benchmark(_make_directory(name, cifar), options, read_parts, read_test, side=_SIDE)


def _make_directory(name: str, cifar: _CifarSet) -> DatasetDirectory:
    hub, folder, archive = cifar.files.hub, cifar.files.folder, cifar.files.archive
    parquet = (
        f"ROOT/{{train, test}}.parquet, ROOT/{{{', '.join(HUB_FOLDERS)}, {hub}}}/{{train, test}}-00000-of-00001.parquet"
    )
    layout = f"one of {parquet}, ROOT/{folder}/, ROOT/{archive}, ROOT/{{train, test}}/CLASS/*.png"
    download = f"https://www.cs.toronto.edu/~kriz/cifar.html, or uoft-cs/{hub} on the Hugging Face hub"
    if cifar.human is None:
        return DatasetDirectory(name, layout, download)
    labels = "https://github.com/UCSC-REAL/cifar-10-100n"
    return DatasetDirectory(
        name, f"{layout}; and ROOT/{cifar.human.file}", f"{download}; the labels from {labels}", fallback_names=(hub,)
    )


CIFAR: tuple[Benchmark[Options], ...] = (
    _make_benchmark("cifar10", _CifarSet(_CIFAR10_FILES, _CIFAR10_DEFAULTS)),
    _make_benchmark("cifar100", _CifarSet(_CIFAR100_FILES, _CIFAR100_DEFAULTS)),
    _make_benchmark("cifar10n", _CifarSet(_CIFAR10_FILES, _CIFAR10_DEFAULTS, _CIFAR10N_LABELS)),
    _make_benchmark("cifar100n", _CifarSet(_CIFAR100_FILES, _CIFAR100_DEFAULTS, _CIFAR100N_LABELS)),
)
"""cifar10, cifar100, cifar10n and cifar100n."""
