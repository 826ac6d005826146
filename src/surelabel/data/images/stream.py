"""Images decoded each time they are used, by worker processes that run a few batches ahead."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from surelabel.core.collective import world_size
from surelabel.data import cache
from surelabel.data.images.decode import map_positions, num_cores
from surelabel.data.images.encode import Encoded
from surelabel.data.images.pool import Pool, shared_pool
from surelabel.data.images.worker import Job
from surelabel.data.inputs import LazyInputs, Shape

_AHEAD = 2
"""Batches that each worker prepares in advance."""

_Item = TypeVar("_Item")


class Request(NamedTuple):
    """Images to decode together."""

    positions: np.ndarray
    """(B,)"""
    side: int | None = None
    """Side of the window; None is the whole image."""
    places: np.ndarray | None = None
    """(n, B, 2) corners of n windows, in fractions of the free space; None is one in the middle."""


class StreamedImages(LazyInputs):
    """Encoded images, resized to cover (H, W), and cropped about the centre or to windows."""

    dtype = torch.uint8

    def __init__(self, encoded: Encoded, shape: Shape, workers: int | None = None) -> None:
        self.encoded, self.shape, self.workers = encoded, (len(encoded), *shape), workers
        self._pool: Pool | None = None

    def __getitem__(self, index: Tensor) -> Tensor:
        """Decode the whole images at `index` (B,) with threads of this process."""
        return self.decode(Request(index.cpu().numpy()))[0]

    def subset(self, positions: np.ndarray) -> "StreamedImages":
        """Return the images at `positions`."""
        return StreamedImages(self.encoded.subset(positions), self.shape[1:], self.workers)

    def digest(self) -> str:
        """Hash the sizes and times of files, which is fast, or the bytes in memory."""
        return cache.make_key("streamed", self.encoded.stamp(), self.shape)

    def decode(self, request: Request) -> Tensor:
        """Decode windows or whole images to (n, B, C, h, w) uint8 with threads of this process."""
        job = self._job(request)
        rows = map_positions(job.decode, len(job.encoded), "decoding")
        return torch.from_numpy(np.stack(list(rows), axis=1))

    def submit(self, request: Request) -> "Future[np.ndarray]":
        """Let a worker process decode windows or whole images to (n, B, C, h, w) uint8."""
        self._pool = shared_pool(self.num_workers)  # held here, so that it lives from pass to pass
        return self._pool.submit(self._job(request))

    def _job(self, request: Request) -> Job:
        return Job(self.encoded.subset(request.positions), self.shape[1:], request.side, request.places)

    @property
    def num_workers(self) -> int:
        """Worker processes of this process."""
        return max(1, num_cores() // world_size()) if self.workers is None else self.workers


def prefetch(
    x: StreamedImages, items: Iterable[_Item], request_of: Callable[[_Item], Request]
) -> Iterator[tuple[_Item, Tensor]]:
    """Yield each item with its images (n, B, C, h, w) in order, while workers decode the next."""
    if not x.num_workers:
        for item in items:
            yield item, x.decode(request_of(item))
        return
    pending: deque[tuple[_Item, Future[np.ndarray]]] = deque()
    try:
        for item in items:
            pending.append((item, x.submit(request_of(item))))
            if len(pending) > _AHEAD * x.num_workers:
                yield _take(pending)
        while pending:
            yield _take(pending)
    finally:
        for _, future in pending:
            future.cancel()


def _take(pending: "deque[tuple[_Item, Future[np.ndarray]]]") -> tuple[_Item, Tensor]:
    item, future = pending.popleft()
    return item, torch.from_numpy(future.result())
