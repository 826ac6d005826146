"""Images of which windows are cut: decoded frames of different sizes, and centre crops."""

import hashlib
from abc import abstractmethod

import numpy as np
import torch
from torch import Tensor

from surelabel.data.images.windows import Request, centre_start, cut_windows
from surelabel.data.inputs import Inputs, LazyInputs


class WindowedImages(LazyInputs):
    """Images of one stored shape (C, H, W) whose frames may have longer sides than H and W."""

    dtype = torch.uint8

    @abstractmethod
    def cut(self, request: Request) -> Tensor:
        """Cut n windows out of each requested image, (n, B, C, h, w) uint8."""

    def __getitem__(self, index: Tensor) -> Tensor:
        """Cut the middle of the stored shape out of the images at `index` (B,)."""
        return self.cut(Request(index.cpu().numpy()))[0]


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
        size = request.size(self.shape[1:])
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
