"""Training described as data: a method returns stages and the engine executes them."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

if TYPE_CHECKING:
    from surelabel.core.method import Step
    from surelabel.core.run import Run


def seed_of(*parts: object) -> int:
    """Derive a 63-bit seed from any parts: the same on every machine, process and restart."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@dataclass(frozen=True)
class Clock:
    """A point in training. Epochs count from 1 within the stage, as in the paper.

    >>> from surelabel.core import Clock
    >>> clock = Clock("train", epoch=3, epochs=10, step=5, steps=10, run_fraction=0.25)
    >>> clock.progress
    2.5
    """

    stage: str
    epoch: int
    epochs: int
    """Epochs of this stage."""
    step: int
    """Number of earlier batches in this pass."""
    steps: int
    """Batches of this pass."""
    run_fraction: float
    """Fraction of the whole run that is done, in [0, 1)."""
    seed: int = 0
    pass_number: int = 0

    @property
    def progress(self) -> float:
        """Finished epochs of this stage, plus the finished fraction of the current one."""
        return self.epoch - 1 + self.step / max(self.steps, 1)

    def generator(self, purpose: str = "") -> torch.Generator:
        """Return a CPU generator seeded by this point in training, equal on all ranks."""
        seed = seed_of(self.seed, self.stage, self.epoch, self.pass_number, self.step, purpose)
        return torch.Generator().manual_seed(seed)


@dataclass(frozen=True)
class View:
    """Which rows to iterate over, and how to augment them.

    >>> import torch
    >>> from surelabel.core import View
    >>> View(torch.tensor([0, 2]), copies=2)  # two rows, each augmented twice
    View(indices=tensor([0, 2]), augment=True, copies=2, batch_size=None)
    """

    indices: Tensor | None = None
    """(n,) positions in the training set; None means all rows."""
    augment: bool | Literal["strong", "strong_copies"] = True
    """Whether to crop and mirror images at random.

    "strong" also changes colours and geometry, "strong_copies" does so in all copies but the first.
    """
    copies: int = 1
    """Independent augmentations of each row."""
    batch_size: int | None = None
    """Rows of a batch, at most; None means the run's batch size."""


@dataclass(frozen=True)
class Pass:
    """One walk over `views` that calls `step(batch, clock)`, with batches of further views by name.

    The first view sets the length and is seen exactly once; the others cycle.

    >>> import torch
    >>> from surelabel.core import Pass, Step, View
    >>> def step(batch, clock, unlabelled):
    ...     return Step({"loss": batch.mean(batch.x.sum(1)) + unlabelled.mean(unlabelled.x.sum(1))})
    >>> chosen, others = torch.tensor([0, 1]), torch.tensor([2, 3])
    >>> sorted(Pass(step, {"labelled": View(chosen), "unlabelled": View(others)}).views)
    ['labelled', 'unlabelled']
    """

    step: "Callable[..., Step]"
    views: dict[str, View]


@dataclass(frozen=True)
class Stage:
    """A part of training; its results are buffers, which later stages see and which resume.

    >>> from surelabel.core import Stage
    >>> def step(batch, clock): ...
    >>> stages = [Stage("warm up", 10, step), Stage("train", 90, step, reset="new", rate=0.01)]
    >>> sum(stage.epochs for stage in stages)
    100
    """

    name: str
    epochs: int
    step: "Callable[..., Step]"
    plan: "Callable[[Run], Sequence[Pass]] | Sequence[Pass] | None" = None
    """The passes of each epoch, or a function that returns them; None is one over all rows."""
    then: "Callable[[Run], Any] | None" = None
    """Called when the stage has ended: computes its results into buffers."""
    stop: "Callable[[Run], bool] | None" = None
    """Called after each epoch: returns whether to end the stage early."""
    reset: Literal["initial", "new"] | None = None
    """Weights to start from: the current ones (None), the initial ones, or newly drawn ones."""
    keep: Literal["last", "best"] = "last"
    """Which epoch's networks to end with; the best has the lowest loss on `validate_on`."""
    validate_on: View | None = None
    rate: float | None = None
    """A constant learning rate; None means the run's, whose schedule spans the stage."""
    weight_decay: float | None = None
    """None means the run's. Everything else about the optimiser is the run's."""
    rate_factor: float = 1.0
    """Multiplies every rate of the stage, for rates stated relative to another stage's."""
