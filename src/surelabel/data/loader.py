"""Batches of rows: every row once an epoch, on one rank, in an order that depends on the seed."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from surelabel.core.batch import Batch
from surelabel.core.collective import gathered, rank, world_size
from surelabel.core.stages import View, seed_of
from surelabel.data.augment import Augment
from surelabel.data.corpus import Examples
from surelabel.data.images.frames import WindowedImages, centre_crop
from surelabel.data.images.stream import StreamedImages, prefetch
from surelabel.data.images.windows import Request

MOVE_BELOW = 2 * 2**30
"""Bytes up to which the inputs are kept on the training device."""
COLLECTED = 16 * 2**20
"""Bytes of inputs up to which `collect` takes 512 rows at once; it takes fewer of larger inputs."""


def batch_bounds(num_rows: int, batch_size: int) -> list[tuple[int, int]]:
    """Return where batches begin and end: ceil(num_rows / batch_size) of them, equally large.

    Sizes differ by at most one, so that no small batch moves batch norm and weights as far as a
    whole one. No batch has a single row, because batch norm needs two: three rows are one batch,
    even with a batch size of 2.
    """
    if num_rows < 1:
        raise ValueError("a pass needs at least one row")
    count = max(1, min(-(-num_rows // batch_size), num_rows // 2))
    edges = [number * num_rows // count for number in range(count + 1)]
    return list(pairwise(edges))


def own_part(rows: Tensor) -> Tensor:
    """Return this rank's contiguous part of a global batch; sizes differ by at most one.

    A rank without any row gets -1, padding.
    """
    own = rows.tensor_split(world_size())[rank()]
    return own if len(own) else rows.new_full((1,), -1)


def draw_epoch(rows: Tensor, given: Tensor, count: int, balanced: bool, seed: int) -> Tensor:
    """Draw at most `count` of `rows` and sort them; `given` (N,) are the labels of all positions.

    If balanced, each of the K labels among `rows` contributes at most ceil(count / K) rows. A label
    with fewer contributes all of them and is not made up for, as in the protocol of Clothing1M.
    """
    shuffled = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))]
    if balanced:
        label = given[shuffled]
        num_labels = int((label.bincount() > 0).sum())
        most = -(-count // max(1, num_labels))
        shuffled = shuffled[_place_in_class(label) < most]
    return shuffled[:count].sort().values


def _place_in_class(label: Tensor) -> Tensor:
    """Return for each row (n,) how many rows before it have the same label."""
    order = label.argsort(stable=True)
    counts = label.bincount()
    first = (counts.cumsum(0) - counts)[label[order]]
    place = torch.empty_like(order)
    place[order] = torch.arange(len(label)) - first
    return place


class PlannedBatch(NamedTuple):
    """The rows of a batch that is not made yet."""

    rows: Tensor
    """(B,) positions; -1 is padding."""
    seed: int
    """Seed of the augmentation."""
    turn: int = 0
    """How often the rows have been gone through before."""


class Loader:
    """Batches of rows, whose order and augmentation depend on `seed` and the place in the run."""

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
        is_cut = isinstance(self._x, WindowedImages) and examples.crop is not None
        self._augment_seen = replace(augment, crop_padding=0, crop=None) if augment and is_cut else augment

    def rows(self, view: View) -> Tensor:
        """Return the positions (n,) that a view covers."""
        return torch.arange(len(self.examples)) if view.indices is None else view.indices.cpu()

    def bounds(self, view: View) -> list[tuple[int, int]]:
        """Return where the view's batches begin and end."""
        num_rows = len(self.examples) if view.indices is None else len(view.indices)
        return batch_bounds(num_rows, view.batch_size or self.batch_size)

    def passes(self, views: dict[str, View], place: str, start: int = 0, turn: int = 0) -> Iterator[dict[str, Batch]]:
        """Yield one batch per view and step, from step `start`.

        The first view decides the number of steps; the others start over as often as needed.
        `turn` is the number of the epoch.
        """
        num_steps = len(self.bounds(next(iter(views.values())))) - start
        batches = {
            name: self._batches(islice(self._plan_batches(view, f"{place}/{name}", start, turn), num_steps), view)
            for name, view in views.items()
        }
        for _ in range(num_steps):
            yield {name: next(of_view) for name, of_view in batches.items()}

    def _plan_batches(self, view: View, place: str, start: int, turn: int) -> Iterator[PlannedBatch]:
        """Yield this rank's part of each batch, from batch `start`, without end."""
        rows, bounds = self.rows(view), self.bounds(view)
        cycle, step = divmod(start, len(bounds))
        while True:
            seed = seed_of(self.seed, place, cycle)
            order = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))]
            for begin, end in bounds[step:]:
                yield PlannedBatch(own_part(order[begin:end]), seed, turn + cycle)
            cycle, step = cycle + 1, 0

    def _batches(self, planned: Iterable[PlannedBatch], view: View) -> Iterator[Batch]:
        if isinstance(self._x, StreamedImages):
            for plan, images in prefetch(self._x, planned, lambda plan: self._request(plan, view)):
                yield self._augmented_batch(plan, view, images)
        else:
            for plan in planned:
                yield self.batch(plan.rows, view, plan.seed, plan.turn)

    def batch(self, index: Tensor, view: View, seed: int = 0, turn: int = 0) -> Batch:
        """Return the rows at `index`; padding (-1) shows some real row with weight 0."""
        plan, shown = PlannedBatch(index, seed, turn), index.clamp(min=0)
        if isinstance(self._x, WindowedImages):
            return self._augmented_batch(plan, view, self._x.cut(self._request(plan, view)))
        if isinstance(self._x, Tensor):  # index_select copies whole rows, indexing copies element by element
            return self._augmented_batch(plan, view, [self._x.index_select(0, shown.to(self._x.device))])
        return self._augmented_batch(plan, view, [self._x[shown]])

    def _request(self, plan: PlannedBatch, view: View) -> Request:
        """Return what to cut: a random window for each copy of an augmented view."""
        crop, shown = self.examples.crop, plan.rows.cpu().clamp(min=0).numpy()
        if crop is None or self.augment is None or not view.augment:
            return Request(shown, crop)
        places = [self.augment.places(plan.rows.cpu(), plan.seed, copy) for copy in range(view.copies)]
        return Request(shown, crop, torch.stack(places).numpy(), self.augment.crop_padding)

    def _augmented_batch(self, plan: PlannedBatch, view: View, images: Sequence[Tensor] | Tensor) -> Batch:
        """Make a batch from inputs before augmentation: one for all copies, or one for each."""
        index = plan.rows.to(self.device)
        raw = [x.to(self.device) for x in images]
        copies = tuple(self._augment(raw[copy % len(raw)], index, view, plan, copy) for copy in range(view.copies))
        return Batch(index, copies, self._label[index.clamp(min=0)], (index >= 0).to(torch.float32))

    def _augment(self, x: Tensor, index: Tensor, view: View, plan: PlannedBatch, copy: int) -> Tensor:
        if self._augment_seen is None or not view.augment:
            return centre_crop(x, self.examples.crop)
        is_strong = view.augment == "strong" or (view.augment == "strong_copies" and copy > 0)
        return self._augment_seen(x, index, plan.seed, copy, is_strong, plan.turn)

    def collect(self, function: Callable[[Batch], Tensor], view: View, seed: int = 0) -> Tensor:
        """Return `function` of all batches as rows (n, ...), in the view's order and on all ranks.

        `seed` is that of the augmentation.
        """
        rows = self.rows(view)
        bounds = batch_bounds(len(rows), view.batch_size or self._rows_to_collect()) if len(rows) else []
        planned = (PlannedBatch(own_part(rows[begin:end]), seed) for begin, end in bounds)
        parts = []
        for (begin, end), batch in zip(bounds, self._batches(planned, view), strict=True):
            parts.append(gathered(function(batch).contiguous())[: end - begin])
        return torch.cat(parts) if parts else torch.empty(0)

    def _rows_to_collect(self) -> int:
        """Return how many rows to take at once without training: many if they are small."""
        num_bytes = math.prod(self.examples.x.shape[1:]) * self.examples.x.dtype.itemsize
        return max(self.batch_size, min(512, COLLECTED // num_bytes))
