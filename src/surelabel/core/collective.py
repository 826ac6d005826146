"""Sums and gathers over processes: the identity in one process, differentiable across ranks.

Every rank computes the same objective, so a rank's gradient through `total` or `gathered` is the
sum over all ranks' objectives. Data-parallel training takes the mean over ranks, and the two
factors cancel. A step that uses these functions therefore has the same loss and the same gradient
on any number of processes.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def world_size() -> int:
    """Return the number of processes that train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return the number of this process, counted from 0."""
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
        ctx.num_rows = len(x)
        return torch.cat(_all_gather(x))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        grad = grads[0].clone()
        dist.all_reduce(grad)
        return grad[rank() * ctx.num_rows :][: ctx.num_rows]


def _all_gather(x: Tensor) -> list[Tensor]:
    parts = [torch.empty_like(x) for _ in range(world_size())]
    dist.all_gather(parts, x.contiguous())
    return parts


def total(x: Tensor) -> Tensor:
    """Return the sum of `x` over all processes."""
    if world_size() == 1:
        return x
    summed: Tensor = _Total.apply(x)  # type: ignore[no-untyped-call]  # torch does not annotate it
    return summed


def gathered(x: Tensor) -> Tensor:
    """Return the rows of `x` from all processes, in rank order; all ranks have equally many."""
    if world_size() == 1:
        return x
    if x.dtype == torch.bool:
        return gathered(x.to(torch.uint8)).bool()
    if not x.requires_grad:
        return torch.cat(_all_gather(x))
    rows: Tensor = _Gathered.apply(x)  # type: ignore[no-untyped-call]  # torch does not annotate it
    return rows


def own_rows(everything: Tensor) -> Tensor:
    """Return this process's rows of a result of `gathered`, or of a row-by-row function of one."""
    num_rows = len(everything) // world_size()
    return everything[rank() * num_rows :][:num_rows]
