"""Windows of images, as torchvision's Resize with RandomCrop or CenterCrop would cut them.

An image is resized to cover the stored shape, its frame, and only then is a window cut out of it:
the long side of a frame is as long as the image is, so that windows lie anywhere in it. This module
needs no PyTorch, because worker processes start without it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

Size = tuple[int, int]
"""Height and width."""


class Request(NamedTuple):
    """Windows to cut out of some images."""

    positions: np.ndarray
    """(B,)"""
    side: int | None = None
    """Side of the window; None is the shape of the inputs."""
    places: np.ndarray | None = None
    """(n, B, 2) float32: where n windows begin, in fractions of the free space; None is the
    middle."""
    padding: int = 0
    """Zeros around the frame, in which random windows may begin."""

    def size(self, shape: tuple[int, ...]) -> Size:
        """Return height and width of the windows of inputs with this shape (C, H, W)."""
        return (shape[1], shape[2]) if self.side is None else (self.side, self.side)

    def corners(self, row: int, frame: Size, size: Size) -> Iterator[tuple[int, int]]:
        """Yield top and left of the windows of one row, negative in the padding."""
        if self.places is None:
            yield centre_start(frame[0], size[0]), centre_start(frame[1], size[1])
            return
        free = [length + 2 * self.padding - side + 1 for length, side in zip(frame, size, strict=True)]
        # In float32, as images in one tensor are cropped.
        begins = (self.places[:, row] * np.array(free, dtype=np.float32)).astype(np.int64) - self.padding
        yield from map(tuple, begins.tolist())


def frame_size(image: Size, min_size: Size) -> Size:
    """Return the size of an image resized to cover `min_size`, rounded as torchvision's Resize."""
    (height, width), (min_height, min_width) = image, min_size
    if min_height * width >= min_width * height:
        return min_height, max(min_width, min_height * width // height)
    return max(min_height, min_width * height // width), min_width


def cut_windows(frame: np.ndarray, request: Request, row: int, size: Size) -> np.ndarray:
    """Cut the windows (n, C, *size) of a row of a request out of its frame (C, H, W)."""
    return np.stack([_cut_window(frame, corner, size) for corner in request.corners(row, frame.shape[1:], size)])


def _cut_window(frame: np.ndarray, corner: tuple[int, int], size: Size) -> np.ndarray:
    """Cut out the window (C, *size) that begins at `corner`; what is outside the frame is 0."""
    (top, left), (height, width) = corner, size
    inside = frame[:, max(top, 0) : max(top + height, 0), max(left, 0) : max(left + width, 0)]
    if inside.shape[1:] == size:
        return inside
    window = np.zeros((len(frame), *size), dtype=np.uint8)
    below, beyond = max(-top, 0), max(-left, 0)
    window[:, below : below + inside.shape[1], beyond : beyond + inside.shape[2]] = inside
    return window


def centre_start(length: int, side: int) -> int:
    """Return where the middle window begins, rounded as torchvision's CenterCrop rounds it."""
    return round((length - side) / 2)
