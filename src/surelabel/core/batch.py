"""What a step is given and what a network gives back."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from surelabel.core.collective import total

SMALLEST_WEIGHT = 1e-12
"""Divides the sum over no selected rows, which is zero, instead of zero."""


class Outputs(NamedTuple):
    """What a network says about B inputs."""

    logits: Tensor
    """(B, K)"""
    features: Tensor
    """(B, M): the penultimate layer."""
    confidence_logit: Tensor | None = None
    """(B,): h of the paper, or None without an indicator branch."""

    @property
    def tau(self) -> Tensor:
        """(B,): the confidence, sigmoid(h)."""
        if self.confidence_logit is None:
            raise ValueError("this network has no indicator branch: make it with task.network(indicator=True)")
        return torch.sigmoid(self.confidence_logit)


@dataclass(frozen=True)
class Batch:
    """B rows of a view of the training set. Padding rows (other ranks had one row more) have index -1 and weight 0."""

    index: Tensor
    """(B,) position in the training set; -1 for padding, which every SampleStore ignores."""
    views: tuple[Tensor, ...]
    """One (B, ...) input per copy that the view asked for, each augmented on its own."""
    label: Tensor
    """(B,) the GIVEN label, which may be wrong."""
    weight: Tensor
    """(B,) 1, or 0 for padding."""

    @property
    def x(self) -> Tensor:
        """(B, ...): the first copy."""
        return self.views[0]

    def mean(self, values: Tensor, where: Tensor | None = None) -> Tensor:
        """Mean of (B,) `values` over the real rows (`where` they are selected) of ALL ranks' batches.

        With nothing selected it is a zero that is still connected to the graph, because other ranks wait for its gradient.
        """
        weight = self.weight if where is None else self.weight * where
        return total((values * weight).sum()) / total(weight.sum()).clamp(min=SMALLEST_WEIGHT)

    @property
    def num_rows(self) -> int:
        """Rows on this rank, padding included."""
        return len(self.index)
