"""Sums and gathers over processes: the identity in one process, differentiable across ranks.

Every rank computes the same objective, so a rank's gradient through `total` or `gathered` is the
sum over all ranks' objectives. Data-parallel training takes the mean over ranks, and the two
factors cancel. A step that uses these functions therefore has the same loss and the same gradient
on any number of processes, up to the order of summation, if the network maps each row by itself or
normalises over the rows of all ranks, as `engine/batch_norm.py` makes it. Processes may have
different numbers of rows. Only a batch with fewer rows than processes needs padding, which a
network's batch norm counts as rows.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def world_size() -> int:
    """Return the number of processes that train together.

    >>> from surelabel.core import world_size
    >>> world_size()
    1
    """
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return the number of this process, counted from 0.

    >>> from surelabel.core import rank
    >>> rank()
    0
    """
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, x: Tensor) -> Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(_ctx: Any, *grads: Tensor) -> Tensor:
        grad = grads[0].clone()
        dist.all_reduce(grad)
        return grad


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.counts = _row_counts(x)
        return _all_gather(x, ctx.counts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        grad = grads[0].clone()
        dist.all_reduce(grad)
        return torch.split(grad, ctx.counts)[rank()]


def _row_counts(x: Tensor) -> list[int]:
    """Return how many rows `x` has on each process."""
    own = torch.tensor([len(x)], device=x.device)
    counts = [torch.empty_like(own) for _ in range(world_size())]
    dist.all_gather(counts, own)
    return [int(count) for count in counts]


def _all_gather(x: Tensor, counts: list[int]) -> Tensor:
    """Return the rows of all processes; they travel in blocks of equal size."""
    block = x.new_zeros(max(counts), *x.shape[1:])
    block[: len(x)] = x
    parts = [torch.empty_like(block) for _ in counts]
    dist.all_gather(parts, block)
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])


def total(x: Tensor) -> Tensor:
    """Return the sum of `x` over all processes.

    >>> import torch
    >>> from surelabel.core import total
    >>> total(torch.tensor([1.0, 2.0]))  # one process: the values themselves
    tensor([1., 2.])
    """
    if world_size() == 1:
        return x
    if x.dtype == torch.int16:  # gloo has no sums and gathers of it
        return total(x.int()).short()
    summed: Tensor = _Total.apply(x)  # type: ignore[no-untyped-call]  # torch does not annotate it
    return summed


def gathered(x: Tensor) -> Tensor:
    """Return the rows of `x` from all processes, in rank order.

    >>> import torch
    >>> from surelabel.core import gathered
    >>> gathered(torch.tensor([3, 1])).sort().values  # sorts the rows of all processes
    tensor([1, 3])
    """
    if world_size() == 1:
        return x
    if x.dtype == torch.bool:
        return gathered(x.to(torch.uint8)).bool()
    if x.dtype == torch.int16:
        return gathered(x.int()).short()
    if not x.requires_grad:
        return _all_gather(x, _row_counts(x))
    rows: Tensor = _Gathered.apply(x)  # type: ignore[no-untyped-call]  # torch does not annotate it
    return rows


def own_rows(everything: Tensor, given: Tensor) -> Tensor:
    """Return this process's rows of a row-by-row function of `gathered(given)`.

    >>> import torch
    >>> from surelabel.core import gathered, own_rows
    >>> loss = torch.tensor([0.2, 0.6])
    >>> everyone = gathered(loss)
    >>> own_rows(everyone > everyone.mean(), loss)  # compared with the rows of all processes
    tensor([False,  True])
    """
    return everything if world_size() == 1 else torch.split(everything, _row_counts(given))[rank()]
