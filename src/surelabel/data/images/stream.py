"""Images decoded each time they are used, by worker processes that run a few batches ahead."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from surelabel.core.collective import world_size
from surelabel.data import cache
from surelabel.data.images.decode import map_positions, num_cores
from surelabel.data.images.encode import Encoded
from surelabel.data.images.frames import WindowedImages
from surelabel.data.images.pool import Pool, shared_pool
from surelabel.data.images.windows import Request
from surelabel.data.images.worker import Job
from surelabel.data.inputs import Shape

_AHEAD = 2
"""Batches that each worker prepares in advance."""

_Item = TypeVar("_Item")


class StreamedImages(WindowedImages):
    """Encoded images, resized to cover (H, W), and cropped about the centre or to windows.

    If they are not framed, whole images are those that are decoded once without windows.
    """

    def __init__(self, encoded: Encoded, shape: Shape, workers: int | None = None, is_framed: bool = False) -> None:
        self.encoded, self.shape, self.workers = encoded, (len(encoded), *shape), workers
        self.is_framed = is_framed
        self._pool: Pool | None = None

    def subset(self, positions: np.ndarray) -> "StreamedImages":
        """Return the images at `positions`."""
        return StreamedImages(self.encoded.subset(positions), self.shape[1:], self.workers, self.is_framed)

    def digest(self) -> str:
        """Hash the sizes and times of files, which is fast, or the bytes in memory."""
        return cache.make_key("streamed", self.encoded.stamp(), self.shape)

    def cut(self, request: Request) -> Tensor:
        """Decode windows or whole images to (n, B, C, h, w) uint8 with threads of this process."""
        job = self._job(request)
        rows = map_positions(job.decode, len(job.encoded), "decoding")
        return torch.from_numpy(np.stack(list(rows), axis=1))

    def submit(self, request: Request) -> "Future[np.ndarray]":
        """Let a worker process decode windows or whole images to (n, B, C, h, w) uint8."""
        self._pool = shared_pool(self.num_workers)  # held here, so that it lives from pass to pass
        return self._pool.submit(self._job(request))

    def _job(self, request: Request) -> Job:
        return Job(self.encoded.subset(request.positions), self.shape[1:], request, self.is_framed)

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
            yield item, x.cut(request_of(item))
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
