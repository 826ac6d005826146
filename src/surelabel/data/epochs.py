"""What an epoch is, where it is not all rows: so many of them, drawn anew each time, maybe equally many of every label."""

import torch
from torch import Tensor


def drawn(rows: Tensor, given: Tensor, count: int, balanced: bool, seed: int) -> Tensor:
    """At most `count` of the positions `rows`, in rising order; `given` (N,) are the labels of all positions.

    Balanced, a label gives at most ceil(count / K) rows, K being the number of labels among `rows`. A label that has fewer gives
    all of them, and no other takes their place, as the protocol of Clothing1M has it.
    """
    shuffled = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))]
    if balanced:
        label = given[shuffled]
        share = -(-count // max(1, len(label.unique())))
        shuffled = shuffled[_place_in_class(label) < share]
    return shuffled[:count].sort().values


def _place_in_class(label: Tensor) -> Tensor:
    """(n,) how many rows before each one have the same label."""
    order = label.argsort(stable=True)
    counts = label.bincount()
    first = (counts.cumsum(0) - counts)[label[order]]
    place = torch.empty_like(order)
    place[order] = torch.arange(len(label)) - first
    return place
