"""Windows of images, as torchvision's Resize with RandomCrop or CenterCrop would cut them.

An image is resized to cover the stored shape, its frame, and only then is a window cut out of it:
the long side of a frame is as long as the image is, so that windows lie anywhere in it.
"""

import hashlib
from abc import abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from surelabel.data.inputs import Inputs, LazyInputs

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

    def corners(self, row: int, frame: Size, size: Size) -> Iterator[tuple[int, int]]:
        """Yield top and left of the windows of one row, negative in the padding."""
        if self.places is None:
            yield centre_start(frame[0], size[0]), centre_start(frame[1], size[1])
            return
        free = [length + 2 * self.padding - side + 1 for length, side in zip(frame, size, strict=True)]
        # In float32, as images in one tensor are cropped.
        begins = (self.places[:, row] * np.array(free, dtype=np.float32)).astype(np.int64) - self.padding
        yield from map(tuple, begins.tolist())


class WindowedImages(LazyInputs):
    """Images of one stored shape (C, H, W) whose frames may have longer sides than H and W."""

    dtype = torch.uint8

    @abstractmethod
    def cut(self, request: Request) -> Tensor:
        """Cut n windows out of each requested image, (n, B, C, h, w) uint8."""

    def __getitem__(self, index: Tensor) -> Tensor:
        """Cut the middle of the stored shape out of the images at `index` (B,)."""
        return self.cut(Request(index.cpu().numpy()))[0]

    def window_size(self, request: Request) -> Size:
        """Return height and width of the windows."""
        return (self.shape[2], self.shape[3]) if request.side is None else (request.side, request.side)


class FramedImages(WindowedImages):
    """Decoded frames of different sizes, one after the other in an array of pixels.

    `stamp` is a hash of the content of frames that are mapped from a file; others are hashed.
    """

    def __init__(
        self,
        pixels: np.ndarray,
        frames: np.ndarray,
        shape: tuple[int, ...],
        stamp: str | None = None,
        positions: np.ndarray | None = None,
    ) -> None:
        self.pixels, self.frames, self.stamp = pixels, frames, stamp
        self.positions = np.arange(len(frames)) if positions is None else positions
        self.shape = (len(self.positions), *shape)
        self._ends = shape[0] * frames.prod(1, dtype=np.int64).cumsum()

    @property
    def is_in_memory(self) -> bool:
        """Whether the frames are in memory rather than in a file."""
        return self.stamp is None

    @property
    def num_bytes(self) -> int:
        """Bytes of all frames."""
        return self.shape[1] * int(self.frames[self.positions].prod(1, dtype=np.int64).sum())

    def frame(self, position: int) -> np.ndarray:
        """Return a whole frame (C, h, w), without a copy."""
        stored = self.positions[position]
        size = self.shape[1], *self.frames[stored].tolist()
        end = int(self._ends[stored])
        found: np.ndarray = self.pixels[end - size[0] * size[1] * size[2] : end].reshape(size)
        return found

    def cut(self, request: Request) -> Tensor:
        """Copy the windows."""
        size = self.window_size(request)
        rows = enumerate(request.positions.tolist())
        windows = [cut_windows(self.frame(position), request, row, size) for row, position in rows]
        return torch.from_numpy(np.stack(windows, axis=1))

    def subset(self, positions: np.ndarray) -> "FramedImages":
        """Return the images at `positions`; the frames are shared."""
        return FramedImages(self.pixels, self.frames, self.shape[1:], self.stamp, self.positions[positions])

    def digest(self) -> str:
        """Hash sizes and pixels, or the stamp and the positions of frames in a file."""
        digest = hashlib.sha256(repr((self.stamp, self.shape)).encode())
        digest.update((self.frames[self.positions] if self.is_in_memory else self.positions).astype("<i8").tobytes())
        for position in range(len(self) if self.is_in_memory else 0):
            digest.update(self.frame(position).data)
        return digest.hexdigest()


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


class CentreCropped(LazyInputs):
    """The centre crops of images that are not in one tensor."""

    def __init__(self, whole: LazyInputs, side: int) -> None:
        self.whole, self.side = whole, side
        self.shape, self.dtype = (*whole.shape[:2], side, side), whole.dtype

    def __getitem__(self, index: Tensor) -> Tensor:
        if isinstance(self.whole, WindowedImages):
            return self.whole.cut(Request(index.cpu().numpy(), self.side))[0]
        return centre_crop(self.whole[index], self.side)

    def subset(self, positions: np.ndarray) -> "CentreCropped":
        """Return the crops at `positions`."""
        return CentreCropped(self.whole.subset(positions), self.side)

    def digest(self) -> str:
        """Hash the images and the side."""
        return hashlib.sha256(f"{self.whole.digest()} {self.side}".encode()).hexdigest()


def centre_start(length: int, side: int) -> int:
    """Return where the middle window begins, rounded as torchvision's CenterCrop rounds it."""
    return round((length - side) / 2)


def centre_crop(x: Tensor, side: int | None) -> Tensor:
    """Crop images (B, C, H, W) about their centre; None, or features, leave `x` as it is."""
    if side is None or x.dim() != 4:
        return x
    top, left = (centre_start(length, side) for length in x.shape[2:])
    return x[:, :, top : top + side, left : left + side]


def centre_crop_inputs(x: Inputs, side: int | None) -> Inputs:
    """Crop images about their centre, whether they are in memory or not."""
    if isinstance(x, Tensor):
        return centre_crop(x, side)
    return x if side is None else CentreCropped(x, side)
