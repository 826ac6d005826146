"""Training described as data: a method returns stages, the engine executes them."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from surelabel.config import OptimiserConfig

if TYPE_CHECKING:
    from surelabel.core.method import Run, Step


def seed_of(*parts: object) -> int:
    """A 63-bit seed from any parts: the same on every machine, process and restart."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@dataclass(frozen=True)
class Clock:
    """Where training stands. Epochs count from 1, as in the paper, within the stage."""

    stage: str
    epoch: int
    epochs: int
    """Epochs of this stage."""
    step: int
    """Batches of this pass that came before this one."""
    steps: int
    """Batches of this pass."""
    run_fraction: float
    """Share of the whole run that is done, in [0, 1)."""
    seed: int = 0
    pass_number: int = 0

    @property
    def progress(self) -> float:
        """Epochs of this stage that are done, with the fraction of the current one."""
        return self.epoch - 1 + self.step / max(self.steps, 1)

    def generator(self, purpose: str = "") -> torch.Generator:
        """A CPU generator that depends on the seed and on where training stands: equal on all ranks, nothing to save."""
        seed = seed_of(self.seed, self.stage, self.epoch, self.pass_number, self.step, purpose)
        return torch.Generator().manual_seed(seed)


@dataclass(frozen=True)
class View:
    """Which rows to iterate, and how to look at them."""

    indices: Tensor | None = None
    """(n,) positions in the training set; None is all of them."""
    augment: bool | Literal["strong"] = True
    """Whether images are cropped and mirrored at random; strong also changes their colours and geometry."""
    copies: int = 1
    """Independent augmentations of each row."""
    batch_size: int | None = None
    """None is the run's."""


@dataclass(frozen=True)
class Pass:
    """One walk of a step over `views`: `step(batch, clock)`, with the batches of further views by name.

    The first view sets the length and is seen exactly once; the others cycle.
    """

    step: "Callable[..., Step]"
    views: dict[str, View]


@dataclass(frozen=True)
class Stage:
    """A part of training. Its results are buffers of the method, so that it can resume and later stages can depend on it."""

    name: str
    epochs: int
    step: "Callable[..., Step]"
    plan: "Callable[[Run], Sequence[Pass]] | None" = None
    """What to iterate in this epoch; None is one pass over all rows, augmented."""
    then: "Callable[[Run], Any] | None" = None
    """Computes what the stage was for, into buffers, when it has ended."""
    stop: "Callable[[Run], bool] | None" = None
    """Asked after each epoch whether the stage has reached its end early."""
    reset: Literal["initial", "new"] | None = None
    """Networks to start from: as they are, the run's initial weights again, or newly drawn ones."""
    keep: Literal["last", "best"] = "last"
    """Which epoch's networks the stage ends with; best is by the given labels of `validate_on`."""
    validate_on: View | None = None
    optimiser: OptimiserConfig | None = None
    """None is the run's; a schedule spans its stage."""
    rate_factor: float = 1.0
    """Multiplies every rate of the stage: how a rate that a paper gives relative to another stage's carries over."""
