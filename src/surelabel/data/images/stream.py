"""Images that are decoded whenever they are looked at, by worker processes that are some batches ahead."""

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from surelabel.core.collective import world_size
from surelabel.data import cache
from surelabel.data.images.decode import Unreadable, decoded, windows
from surelabel.data.images.encode import Encoded
from surelabel.data.images.threads import each, num_cores
from surelabel.data.inputs import LazyInputs, Shape
from surelabel.errors import DataError

_AHEAD = 2
"""Batches that each worker prepares before they are asked for."""
CENTRE = 0.5
"""Where in the free space the middle window begins."""

_Order = TypeVar("_Order")


class Request(NamedTuple):
    """Images to decode together."""

    positions: np.ndarray
    """(B,)"""
    side: int | None = None
    """Of the window; None is the whole image."""
    places: np.ndarray | None = None
    """(n, B, 2) where each of n windows begins, in shares of the free space; None is one, in the middle."""


class StreamedImages(LazyInputs):
    """Images as files or bytes; resized until they cover (H, W), and cropped about the centre or to windows."""

    dtype = torch.uint8

    def __init__(self, encoded: Encoded, shape: Shape, workers: int | None = None) -> None:
        self.encoded, self.shape, self.workers = encoded, (len(encoded), *shape), workers

    def __getitem__(self, index: Tensor) -> Tensor:
        """The images at `index` (B,), whole, decoded by threads of this process."""
        return self.looks(Request(index.cpu().numpy()))[0]

    def subset(self, positions: np.ndarray) -> "StreamedImages":
        """The images at `positions`."""
        return StreamedImages(self.encoded.subset(positions), self.shape[1:], self.workers)

    def digest(self) -> str:
        """By the sizes and times of files, because reading all of them would take minutes; by the bytes of others."""
        return cache.make_key("streamed", self.encoded.stamp(), self.shape)

    def looks(self, request: Request, is_worker: bool = False) -> Tensor:
        """(n, B, C, h, w) uint8: windows, or one whole image each; by threads where this is not a worker process."""
        positions = request.positions.tolist()

        def look(row: int) -> np.ndarray:
            return self._looked_at(positions[row], row, request)

        rows = map(look, range(len(positions))) if is_worker else each(look, len(positions), "decoding")
        return torch.from_numpy(np.stack(list(rows), axis=1))

    def _looked_at(self, position: int, row: int, request: Request) -> np.ndarray:
        try:
            if request.side is None:
                return decoded(self.encoded, position, self.shape[1:])[None]
            middle = np.full((1, 2), CENTRE)
            places = middle if request.places is None else request.places[:, row]
            return windows(self.encoded, position, self.shape[1:], request.side, places)
        except Unreadable as error:
            raise DataError(f"{self.encoded.name(position)}: {error}") from None

    @property
    def num_workers(self) -> int:
        """Processes that decode for this one."""
        return max(1, num_cores() // world_size()) if self.workers is None else self.workers


def prefetched(
    x: StreamedImages, orders: Iterable[_Order], request_of: Callable[[_Order], Request]
) -> Iterator[tuple[_Order, Tensor]]:
    """Each order with its looks (n, B, C, h, w), in order; workers are ahead of the one that was asked for last."""
    if not x.num_workers:
        for order in orders:
            yield order, x.looks(request_of(order))
        return
    under_way: deque[_Order] = deque()

    def requests() -> Iterator[Request]:
        for order in orders:
            under_way.append(order)
            yield request_of(order)

    for looks in _workers(x, requests()):
        if isinstance(looks, str):
            raise DataError(looks)
        yield under_way.popleft(), looks


def _workers(x: StreamedImages, requests: Iterator[Request]) -> Iterator[Tensor | str]:
    loader: DataLoader[Any] = DataLoader(
        _Decoder(x),
        batch_size=None,
        sampler=requests,
        num_workers=x.num_workers,
        prefetch_factor=_AHEAD,
        collate_fn=_as_it_is,
        worker_init_fn=_leave_interrupts_to_the_parent,
        generator=torch.Generator(),  # of its own, so that workers do not move the run's
    )
    try:
        yield from loader
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        raise DataError(
            f"a process that decodes images has died ({' '.join(str(error).split())}); data.workers sets their number"
        ) from None


class _Decoder(Dataset[Any]):
    """What a worker does; an error goes back as its text, for a traceback says nothing to the user."""

    def __init__(self, x: StreamedImages) -> None:
        self.x = x

    def __getitem__(self, request: Any) -> Tensor | str:
        try:
            return self.x.looks(request, is_worker=True)
        except DataError as error:
            return str(error)


def _as_it_is(looks: Any) -> Any:
    return looks


def _leave_interrupts_to_the_parent(_worker: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
