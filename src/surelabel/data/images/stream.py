"""Images decoded each time they are used, by worker processes that run a few batches ahead."""

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
from surelabel.data.images.decode import Unreadable, decode, decode_windows, map_positions, num_cores
from surelabel.data.images.encode import Encoded
from surelabel.data.inputs import LazyInputs, Shape
from surelabel.errors import DataError

_AHEAD = 2
"""Batches that each worker prepares in advance."""
_CENTRE = 0.5
"""Corner of the middle window, as a fraction of the free space."""

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

    def __getitem__(self, index: Tensor) -> Tensor:
        """Decode the whole images at `index` (B,) with threads of this process."""
        return self.decode(Request(index.cpu().numpy()))[0]

    def subset(self, positions: np.ndarray) -> "StreamedImages":
        """Return the images at `positions`."""
        return StreamedImages(self.encoded.subset(positions), self.shape[1:], self.workers)

    def digest(self) -> str:
        """Hash the sizes and times of files, which is fast, or the bytes in memory."""
        return cache.make_key("streamed", self.encoded.stamp(), self.shape)

    def decode(self, request: Request, is_worker: bool = False) -> Tensor:
        """Decode windows or whole images to (n, B, C, h, w) uint8; workers use no threads."""
        positions = request.positions.tolist()

        def decode_row(row: int) -> np.ndarray:
            return self._decode_row(positions[row], row, request)

        count = len(positions)
        rows = map(decode_row, range(count)) if is_worker else map_positions(decode_row, count, "decoding")
        return torch.from_numpy(np.stack(list(rows), axis=1))

    def _decode_row(self, position: int, row: int, request: Request) -> np.ndarray:
        try:
            if request.side is None:
                return decode(self.encoded, position, self.shape[1:])[None]
            middle = np.full((1, 2), _CENTRE)
            places = middle if request.places is None else request.places[:, row]
            return decode_windows(self.encoded, position, self.shape[1:], request.side, places)
        except Unreadable as error:
            raise DataError(f"{self.encoded.name(position)}: {error}") from None

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
    pending: deque[_Item] = deque()

    def requests() -> Iterator[Request]:
        for item in items:
            pending.append(item)
            yield request_of(item)

    for images in _run_workers(x, requests()):
        if isinstance(images, str):
            raise DataError(images)
        yield pending.popleft(), images


def _run_workers(x: StreamedImages, requests: Iterator[Request]) -> Iterator[Tensor | str]:
    loader: DataLoader[Any] = DataLoader(
        _Decoder(x),
        batch_size=None,
        sampler=requests,
        num_workers=x.num_workers,
        prefetch_factor=_AHEAD,
        collate_fn=_identity,
        worker_init_fn=_ignore_interrupts,
        generator=torch.Generator(),  # a separate one, so that workers do not advance the run's
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
    """The work of a worker; errors return as text, because a traceback would not help the user."""

    def __init__(self, x: StreamedImages) -> None:
        self.x = x

    def __getitem__(self, request: Any) -> Tensor | str:
        try:
            return self.x.decode(request, is_worker=True)
        except DataError as error:
            return str(error)


def _identity(images: Any) -> Any:
    return images


def _ignore_interrupts(_worker: int) -> None:
    """Leave interrupts to the parent process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
