"""Images decoded each time they are used, by worker processes that run a few batches ahead."""

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from surelabel.core.collective import world_size
from surelabel.data import cache
from surelabel.data.images.decode import Unreadable, decode, decode_frame, map_positions, num_cores
from surelabel.data.images.encode import Encoded
from surelabel.data.images.windows import Request, WindowedImages, cut_windows
from surelabel.data.inputs import Shape
from surelabel.errors import DataError

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

    def subset(self, positions: np.ndarray) -> "StreamedImages":
        """Return the images at `positions`."""
        return StreamedImages(self.encoded.subset(positions), self.shape[1:], self.workers, self.is_framed)

    def digest(self) -> str:
        """Hash the sizes and times of files, which is fast, or the bytes in memory."""
        return cache.make_key("streamed", self.encoded.stamp(), self.shape)

    def cut(self, request: Request, is_worker: bool = False) -> Tensor:
        """Decode windows or whole images to (n, B, C, h, w) uint8; workers use no threads."""
        positions = request.positions.tolist()

        def decode_row(row: int) -> np.ndarray:
            return self._decode_row(positions[row], row, request)

        count = len(positions)
        rows = map(decode_row, range(count)) if is_worker else map_positions(decode_row, count, "decoding")
        return torch.from_numpy(np.stack(list(rows), axis=1))

    def _decode_row(self, position: int, row: int, request: Request) -> np.ndarray:
        try:
            if request.side is None and not self.is_framed:
                return decode(self.encoded, position, self.shape[1:])[None]
            frame = decode_frame(self.encoded, position, self.shape[1:])
            return cut_windows(frame, request, row, self.window_size(request))
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
            yield item, x.cut(request_of(item))
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
            return self.x.cut(request, is_worker=True)
        except DataError as error:
            return str(error)


def _identity(images: Any) -> Any:
    return images


def _ignore_interrupts(_worker: int) -> None:
    """Leave interrupts to the parent process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
