"""What tells the CIFAR sets apart: classes, files, sums, label columns, and how they are looked at."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from torch import Tensor

from surelabel.config import DataConfig
from surelabel.data.benchmarks.layout import Layout
from surelabel.data.benchmarks.usual import pixels
from surelabel.data.images.load import Encoded
from surelabel.data.inputs import LazyInputs
from surelabel.data.sources.interface import ImageDefaults

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

ALIASES = {"cra": "crab", "computer_keyboard": "keyboard"}
"""Other spellings in public copies; the first stands on the Hugging Face hub."""


SIDE = 32
HUB_FOLDERS = ("data", "plain_text")
"""Where copies of the hub keep parquet files, beside the root and a folder with the set's name."""


@dataclass(frozen=True)
class Human:
    """A file of people's labels for the training images, in the order of the original batches (Wei et al., 2022)."""

    file: str
    md5: str
    keys: Mapping[str, str]
    """By annotation, the key in the file."""
    default: str


@dataclass(frozen=True)
class Cifar:
    """One of the sets."""

    layout: Layout
    columns: Mapping[str, tuple[str, ...]]
    """Label columns with their classes in order; the first is the usual one."""
    batch_keys: Mapping[str, str]
    """By label column, the key in the original batches."""
    hub: str
    """Its name on the Hugging Face hub."""
    folder: str
    archive: str
    archive_md5: str
    batches: Mapping[str, Mapping[str, str]]
    """For train and test, the original files in order, with their md5 sums."""
    image_defaults: ImageDefaults
    human: Human | None = None

    @property
    def column(self) -> str:
        """The usual label column, which holds the truth."""
        return next(iter(self.columns))


@dataclass(frozen=True)
class Wanted:
    """A part to look for."""

    root: Path
    part: str
    """train or test."""
    cifar: Cifar
    config: DataConfig
    verify: bool
    """Whether published md5 sums are checked."""


@dataclass(frozen=True)
class Stored:
    """A part of a set as a layout keeps it: the pictures, maybe not decoded yet, and every label column by name."""

    pictures: Encoded | Tensor | LazyInputs
    ids: np.ndarray
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    """By column (N,) str: class names."""


def _layout(name: str, hub: str, folder: str, archive: str, human: str | None = None) -> Layout:
    parquet = (
        f"ROOT/{{train, test}}.parquet, ROOT/{{{', '.join(HUB_FOLDERS)}, {hub}}}/{{train, test}}-00000-of-00001.parquet"
    )
    images = f"one of {parquet}, ROOT/{folder}/, ROOT/{archive}, ROOT/{{train, test}}/CLASS/*.png"
    places = f"https://www.cs.toronto.edu/~kriz/cifar.html, or uoft-cs/{hub} on the Hugging Face hub"
    if human is None:
        return Layout(name, images, places)
    labels = "https://github.com/UCSC-REAL/cifar-10-100n"
    return Layout(name, f"{images}; and ROOT/{human}", f"{places}; the labels from {labels}", also=(hub,))


_TEN = Cifar(
    layout=_layout("cifar10", "cifar10", "cifar-10-batches-py", "cifar-10-python.tar.gz"),
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
    image_defaults=ImageDefaults(
        crop_padding=4, mean=pixels(0.4914, 0.4822, 0.4465), std=pixels(0.2023, 0.1994, 0.2010)
    ),
)
_HUNDRED = Cifar(
    layout=_layout("cifar100", "cifar100", "cifar-100-python", "cifar-100-python.tar.gz"),
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
    image_defaults=ImageDefaults(
        crop_padding=4, mean=pixels(0.5071, 0.4867, 0.4408), std=pixels(0.2675, 0.2565, 0.2761)
    ),
)
_HUMAN10 = Human(
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
_HUMAN100 = Human("CIFAR-100_human.pt", "a67b45c1d7992051865b5c755bd68bb1", {"noisy": "noisy_label"}, "noisy")


def _annotated(name: str, cifar: Cifar, human: Human) -> Cifar:
    return replace(cifar, layout=_layout(name, cifar.hub, cifar.folder, cifar.archive, human.file), human=human)


SETS: dict[str, Cifar] = {
    "cifar10": _TEN,
    "cifar100": _HUNDRED,
    "cifar10n": _annotated("cifar10n", _TEN, _HUMAN10),
    "cifar100n": _annotated("cifar100n", _HUNDRED, _HUMAN100),
}
"""By name."""
