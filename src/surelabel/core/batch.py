"""The input of a training step, and the output of a network."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from surelabel.core.collective import total

SMALLEST_WEIGHT = 1e-12
"""Replaces a total weight of zero as divisor, so that the mean over no rows is 0 and not NaN."""


class Outputs(NamedTuple):
    """The output of a network for B inputs.

    >>> import torch
    >>> from surelabel.core import Outputs
    >>> outputs = Outputs(torch.zeros(1, 3), torch.zeros(1, 8), confidence_logit=torch.zeros(1))
    >>> outputs.tau
    tensor([0.5000])
    """

    logits: Tensor
    """(B, K)"""
    features: Tensor
    """(B, M): the penultimate layer."""
    confidence_logit: Tensor | None = None
    """(B,): h of the paper, or None without an indicator branch."""

    @property
    def tau(self) -> Tensor:
        """Return the (B,) confidence, sigmoid(h)."""
        if self.confidence_logit is None:
            raise ValueError("this network has no indicator branch: make it with task.network(indicator=True)")
        return torch.sigmoid(self.confidence_logit)


@dataclass(frozen=True)
class Batch:
    """B rows of a view of the training set.

    Ranks have equally many rows, to one. If a batch has fewer rows than there are ranks, each rank
    without any has a padding row with index -1 and weight 0.

    >>> import torch
    >>> from surelabel.core import Batch
    >>> index, label, weight = torch.tensor([[4, 7, -1], [0, 1, 0], [1, 1, 0]])
    >>> batch = Batch(index, (torch.zeros(3, 2),), label, weight)
    >>> batch.mean(torch.tensor([1.0, 3.0, 100.0]))  # the last row is padding
    tensor(2.)
    """

    index: Tensor
    """(B,) positions in the training set; -1 for padding, which every SampleStore ignores."""
    copies: tuple[Tensor, ...]
    """One (B, ...) input per copy that the view asks for, augmented independently."""
    label: Tensor
    """(B,) GIVEN labels, which may be wrong."""
    weight: Tensor
    """(B,) 1, or 0 for padding."""

    @property
    def x(self) -> Tensor:
        """The first copy, (B, ...)."""
        return self.copies[0]

    def mean(self, values: Tensor, where: Tensor | None = None) -> Tensor:
        """Return the mean of (B,) `values` over the real rows, `where` selected, of ALL ranks.

        If no row is selected, the result is a zero that is still connected to the graph, because
        other ranks wait for its gradient.
        """
        weight = self.weight if where is None else self.weight * where
        return total((values * weight).sum()) / total(weight.sum()).clamp(min=SMALLEST_WEIGHT)

    @property
    def num_rows(self) -> int:
        """Number of rows on this rank, including padding."""
        return len(self.index)
