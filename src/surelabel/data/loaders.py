"""From rows in memory to batches: every row exactly once an epoch, on exactly one rank, in an order that the seed decides."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from surelabel.core.batch import Batch
from surelabel.core.collective import gathered, rank, world_size
from surelabel.core.plan import View, seed_of
from surelabel.data.examples import Examples
from surelabel.data.transforms import Augment

MOVE_BELOW = 2 * 2**30
"""Bytes up to which the inputs are kept on the training device."""


def batch_bounds(num_rows: int, batch_size: int) -> list[tuple[int, int]]:
    """Where batches begin and end; a last batch of one row is merged into the one before, for batch norm needs two."""
    batch_size = min(batch_size, num_rows)
    starts = list(range(0, num_rows, batch_size))
    if len(starts) > 1 and num_rows - starts[-1] == 1:
        starts.pop()
    return list(zip(starts, [*starts[1:], num_rows], strict=True))


def own_part(rows: Tensor) -> Tensor:
    """This rank's contiguous part of a global batch, padded with -1 so that all ranks have equally many, at least two."""
    world = world_size()
    if world == 1:
        return rows
    size = max(-(-len(rows) // world), 2)
    own = rows[rank() * size :][:size]
    return torch.cat([own, own.new_full((size - len(own),), -1)])


class Loader:
    """Batches of one set of rows; `seed` decides order and augmentation, together with the place in the run."""

    def __init__(
        self,
        examples: Examples,
        batch_size: int,
        seed: int = 0,
        augment: Augment | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.examples, self.batch_size, self.seed, self.augment = examples, batch_size, seed, augment
        self.device = device or torch.device("cpu")
        self._x = examples.x
        if isinstance(self._x, Tensor) and self._x.numel() * self._x.element_size() <= MOVE_BELOW:
            self._x = self._x.to(self.device)
        self._label = examples.label.to(self.device)

    def rows(self, view: View) -> Tensor:
        """(n,) positions that a view names."""
        return torch.arange(len(self.examples)) if view.indices is None else view.indices.cpu()

    def bounds(self, view: View) -> list[tuple[int, int]]:
        """Where the view's batches begin and end."""
        num_rows = len(self.examples) if view.indices is None else len(view.indices)
        return batch_bounds(num_rows, view.batch_size or self.batch_size)

    def passes(self, views: dict[str, View], place: str, start: int = 0) -> Iterator[dict[str, Batch]]:
        """One batch per view and step, from step `start`; the first view sets the length and the others cycle."""
        walks = []
        for name, view in views.items():
            walks.append((name, self._walk(view, f"{place}/{name}", start)))
        for _ in range(start, len(self.bounds(next(iter(views.values()))))):
            yield {name: next(walk) for name, walk in walks}

    def _walk(self, view: View, place: str, start: int) -> Iterator[Batch]:
        rows, bounds = self.rows(view), self.bounds(view)
        cycle, step = divmod(start, len(bounds))
        while True:
            seed = seed_of(self.seed, place, cycle)
            order = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))]
            for begin, end in bounds[step:]:
                yield self.batch(own_part(order[begin:end]), view, seed)
            cycle, step = cycle + 1, 0

    def batch(self, index: Tensor, view: View, seed: int = 0) -> Batch:
        """The rows at `index`, -1 being padding that shows some real row with weight 0."""
        index = index.to(self.device)
        shown = index.clamp(min=0)
        x = self._x[shown.to(self._x.device) if isinstance(self._x, Tensor) else shown].to(self.device)
        views = tuple(self._look(x, index, view, seed, copy) for copy in range(view.copies))
        return Batch(index, views, self._label[shown], (index >= 0).to(torch.float32))

    def _look(self, x: Tensor, index: Tensor, view: View, seed: int, copy: int) -> Tensor:
        if self.augment is None or not view.augment:
            return x
        return self.augment(x, index, seed, copy)

    def collect(self, function: Callable[[Batch], Tensor], view: View, seed: int = 0) -> Tensor:
        """`function` of every batch as (n, ...) rows in the view's order, equal on all ranks; `seed` is of augmentation."""
        rows, parts = self.rows(view), []
        for begin, end in batch_bounds(len(rows), view.batch_size or max(self.batch_size, 512)) if len(rows) else []:
            part = gathered(function(self.batch(own_part(rows[begin:end]), view, seed)).contiguous())
            parts.append(part[: end - begin])
        return torch.cat(parts) if parts else torch.empty(0)
