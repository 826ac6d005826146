"""What a method sees of its run, and the verdict it returns on each label at the end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from surelabel.core.batch import Batch
from surelabel.core.stages import Clock, View


class Record(Protocol):
    """The history of every training sample, as (N,) tensors; it comes from training steps.

    >>> import torch
    >>> from types import SimpleNamespace
    >>> from surelabel.core import Record
    >>> def often_forgotten(record: Record) -> torch.Tensor:
    ...     return torch.nonzero(record.forgotten > 1).squeeze(1)
    >>> often_forgotten(SimpleNamespace(forgotten=torch.tensor([0, 3, 1, 2])))  # in a test
    tensor([1, 3])
    """

    @property
    def visits(self) -> Tensor:
        """How often the sample was seen."""

    @property
    def prediction(self) -> Tensor:
        """The class predicted at the last visit; -1 before the first."""

    @property
    def mean_given_probability(self) -> Tensor:
        """Running mean over visits of p at the given label."""

    @property
    def mean_margin(self) -> Tensor:
        """Running mean over visits of the given label's logit minus the largest other logit."""

    @property
    def first_learned(self) -> Tensor:
        """The first epoch in which the given label was predicted; 0 if it never was."""

    @property
    def forgotten(self) -> Tensor:
        """How often the prediction changed from the given label to another one."""


class Run(Protocol):
    """The handle for `plan`, `then` and `stop`; it hides loaders, optimisers, ranks and paths.

    >>> from types import SimpleNamespace
    >>> from surelabel.core import Run
    >>> def has_converged(run: Run) -> bool:  # for Stage(..., stop=has_converged)
    ...     losses = [row["loss"] for row in run.history]
    ...     return len(losses) > 1 and losses[-1] > 0.99 * losses[-2]
    >>> has_converged(SimpleNamespace(history=[{"loss": 1.0}, {"loss": 0.998}]))  # in a test
    True
    """

    @property
    def clock(self) -> Clock:
        """The clock at the start of the current epoch."""

    @property
    def record(self) -> Record:
        """Each training sample's history."""

    @property
    def history(self) -> Sequence[Mapping[str, Any]]:
        """One row of metrics per finished epoch."""

    @property
    def rng(self) -> torch.Generator:
        """A generator that is equal on all ranks and differs between epochs."""

    def collect(self, function: Callable[[Batch], Tensor], view: View, train_mode: bool = False) -> Tensor:
        """Apply `function` to all batches of `view`, without gradient; return rows in its order."""

    def draw_rows(self, purpose: str) -> Tensor | None:
        """Draw the rows of a pass if epochs have a number of batches; None means all rows.

        Draws differ between purposes and epochs. A pass over some of them is not shortened again.
        """

    def note(self, name: str, value: Any) -> None:
        """Store an estimate in the metrics of this epoch."""


@dataclass(frozen=True)
class Rows:
    """A chunk of C training rows at the end of a run, equal on all ranks.

    >>> import torch
    >>> from surelabel.core import Rows
    >>> probability = torch.tensor([[0.9, 0.1], [0.8, 0.2]])
    >>> rows = Rows(torch.tensor([5, 6]), torch.tensor([0, 1]), probability, record=None)
    >>> rows.at_given(rows.prediction)
    tensor([0.9000, 0.2000])
    """

    index: Tensor
    """(C,) positions in the training set."""
    given: Tensor
    """(C,) given labels."""
    prediction: Tensor
    """(C, K) class probabilities from the final networks, without augmentation."""
    record: Record
    """The history of all N samples."""

    @property
    def mean_given_probability(self) -> Tensor:
        """(C,) running mean over visits of p at the given label."""
        return self.record.mean_given_probability[self.index]

    def at_given(self, values: Tensor) -> Tensor:
        """Return the (C,) entries of (C, K) `values` at the given labels."""
        return values.gather(1, self.given[:, None]).squeeze(1)


@dataclass(frozen=True)
class Verdict:
    """The verdict on C given labels.

    >>> import torch
    >>> from surelabel.core import Verdict
    >>> corrected = torch.tensor([[0.9, 0.1], [0.7, 0.3]])
    >>> verdict = Verdict(quality=torch.tensor([0.9, 0.3]), corrected=corrected)
    >>> verdict.corrected.argmax(1)
    tensor([0, 0])
    """

    quality: Tensor
    """(C,) in [0, 1]; low is suspicious."""
    corrected: Tensor
    """(C, K) soft labels; the largest entry is the label that is suggested."""
    evidence: Mapping[str, Tensor] = field(default_factory=dict)
    """Further (C,) columns by name; "tau" is the confidence."""
