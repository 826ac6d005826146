"""The scales of a reproduction: as published, or reduced for two cores, and the reasons."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from surelabel.config import Batches, CosineRestarts, ModelConfig, MultiStep, OneCycle, OptimiserConfig
from surelabel.errors import ConfigError

CIFARS = ("cifar10", "cifar100")
NUM_CLASSES = {"cifar10": 10, "cifar100": 100}
PUBLISHED_EPOCHS, PUBLISHED_START = 500, 60
"""Of the CIFAR runs: their length, and E_c of most of them."""


@dataclass(frozen=True)
class PreparedData:
    """A file made of the first rows of a data set, as images or as fixed features of them."""

    kind: Literal["subset", "patches"]
    data: str
    num_train: int
    num_test: int
    num_filters: int = 0
    """Of patches: how many random patches an image is compared with."""
    patch_size: int = 6
    seed: int = 0
    """Of patches: the random seed of the filters."""

    @property
    def name(self) -> str:
        """A file name that identifies the content."""
        words = [self.data, self.kind, str(self.num_train), str(self.num_test)]
        if self.num_filters:
            words += [f"{self.num_filters}x{self.patch_size}", f"seed-{self.seed}"]
        return "-".join(words) + ".npz"

    def path(self, folder: Path) -> Path:
        """Return the path of the file in the folder of a reproduction."""
        return folder / "data" / self.name


@dataclass(frozen=True)
class Protocol:
    """How runs are trained."""

    epochs: int
    batch_size: int
    optimiser: OptimiserConfig
    noises: tuple[str, ...] = ()
    """Of a method's original protocol on CIFAR: the noises it is known for."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the method that belong to the protocol."""
    epoch: Batches | None = None
    """An epoch of a fixed length; None is every row once."""
    include_true_class: bool = True
    """Whether symmetric noise draws the new label from all classes, or from the other ones."""
    normalise_as: Literal["weights", "data"] = "weights"
    """As in ModelConfig."""


@dataclass(frozen=True)
class Scale:
    """The size of CIFAR runs; other data sets have one scale, that of the paper."""

    name: str
    model: ModelConfig
    protocol: Protocol
    multi_step: MultiStep
    """The schedule of cross entropy in Figures 1 (a) and 3 (a)."""
    data: tuple[str, ...] = CIFARS
    seeds: tuple[int, ...] = (0, 1, 2)
    threads: int | None = None
    crop_padding: int | None = None
    """Padding of random crops; None is the data set's default."""
    initial_gradient: float | None = None
    """Q0 = lambda / (K - 1), which sets lambda; None keeps the published lambda and delta."""
    correction_start: int = PUBLISHED_START
    """What the published E_c = 60 becomes; other values are scaled in proportion."""
    prepared: Mapping[str, PreparedData] = field(default_factory=dict)
    """Files that runs read instead of the data sets, by data set."""

    @property
    def is_published(self) -> bool:
        """Whether this is the published protocol."""
        return not self.prepared

    def start_epoch(self, published: int) -> int:
        """Return E_c in proportion to the length of this scale."""
        return max(1, round(published * self.correction_start / PUBLISHED_START))


PAPER = Scale(
    "paper",
    model=ModelConfig(name="resnet34"),
    protocol=Protocol(
        PUBLISHED_EPOCHS,
        64,
        OptimiserConfig(
            rate=0.02, momentum=0.9, weight_decay=0.001, schedule=CosineRestarts(period=10, min_rate=0.001)
        ),
    ),
    multi_step=MultiStep(milestones=(100, 200), factor=0.1),
)
"""Appendix D of the paper."""

# A part of the images, so that an epoch of a small network takes seconds.
_NUM_IMAGES, _NUM_FEATURES, _NUM_TEST = 6_000, 10_000, 5_000
# One cycle instead of restarts: targets change once in a period, and periods of 10 epochs would
# allow only 3 updates in 40 epochs.
_PROTOCOL = Protocol(40, 128, OptimiserConfig(rate=0.1, momentum=0.9, weight_decay=5e-4, schedule=OneCycle()))
# 100 and 200 of 500 epochs, as fractions.
_MULTI_STEP = MultiStep(milestones=(0.2, 0.4), factor=0.1)
# Images are mirrored but not shifted. With the usual shifts of 4 pixels and 10,000 images, cross
# entropy had memorised only 38 % of the false labels after 40 epochs (last 0.634, best 0.686; CAR
# 0.728, 0.729, 6 %), while in the paper it memorises nearly all.
_SMALL_SHIFT = 0
# Q0, the gradient of a row before anything is learned. The paper's is 0.5 / 9 = 0.06 and
# 10 / 99 = 0.10, for 500 epochs. In 40 epochs training must start faster: 0.1 to 0.25. Our first
# version used lambda = 2 for ten classes.
_INITIAL_GRADIENT = 2 / 9
# 12 of 40 epochs, as in that version. One update per epoch makes 29, after which alpha^29 = 5 % of
# the given label remains. The published fraction, 60 of 500, is epoch 5, when a network has learned
# little; an MLP on fixed features has learned most by then, so `tiny` uses it. delta is 0
# everywhere: a threshold of 0.95 is for indicators that had 500 epochs to settle (we did not try).
_SMALL_START, _TINY_START = 12, 5

SMALL = Scale(
    "small",
    model=ModelConfig(name="fast_cnn"),
    protocol=_PROTOCOL,
    multi_step=_MULTI_STEP,
    seeds=(0,),  # a run takes minutes
    initial_gradient=_INITIAL_GRADIENT,
    correction_start=_SMALL_START,
    crop_padding=_SMALL_SHIFT,
    prepared={data: PreparedData("subset", data, _NUM_IMAGES, _NUM_TEST) for data in CIFARS},
)

TINY = Scale(
    "tiny",
    model=ModelConfig(name="mlp", options={"widths": [256]}),  # 26 CPU seconds a run, and everything is memorised
    protocol=_PROTOCOL,
    multi_step=_MULTI_STEP,
    data=("cifar10",),  # a hundred classes of a hundred images each are too few for fixed features
    threads=1,  # several runs train side by side
    initial_gradient=_INITIAL_GRADIENT,
    correction_start=_TINY_START,
    # Random patches (Coates and Ng, 2011) describe an image well without training on labels; 200 of
    # them make 1,600 features.
    prepared={"cifar10": PreparedData("patches", "cifar10", _NUM_FEATURES, _NUM_TEST, num_filters=200)},
)

SCALES = {scale.name: scale for scale in (PAPER, SMALL, TINY)}


def find_scale(name: str) -> Scale:
    """Return a scale, or raise an error that lists all."""
    if name not in SCALES:
        raise ConfigError(f"scale: there is no {name!r}; available: {', '.join(SCALES)}")
    return SCALES[name]
