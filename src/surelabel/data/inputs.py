"""Inputs that can be indexed: a tensor in memory, an array mapped from a file, or images that are decoded when asked for."""

import hashlib
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

Shape = tuple[int, ...]
"""Of one input: (C, H, W) for images, (D,) for features."""

_CHUNK = 2**24
"""Bytes that are hashed at once."""


class LazyInputs(ABC):
    """N inputs of one shape that are not in memory."""

    shape: tuple[int, ...]
    """(N, C, H, W) for images, (N, D) for features."""
    dtype: torch.dtype
    """uint8 for images, float32 for features."""

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def __getitem__(self, index: Tensor) -> Tensor:
        """The inputs at positions `index` (B,), in memory."""

    @abstractmethod
    def subset(self, positions: np.ndarray) -> "LazyInputs":
        """The inputs at `positions`, in that order, still not in memory."""

    @abstractmethod
    def digest(self) -> str:
        """A hash that changes when what would be read changes."""


Inputs = Tensor | LazyInputs


class MappedInputs(LazyInputs):
    """The array of an .npy file, of which the system reads what is asked for.

    `stamp` is a hash of what is in it, where that is known; the file may then be made anew without being another.
    """

    def __init__(
        self, path: Path, array: np.ndarray, positions: np.ndarray | None = None, stamp: str | None = None
    ) -> None:
        self.path, self.array, self.positions, self.stamp = path, array, positions, stamp
        self.shape = (len(array) if positions is None else len(positions), *array.shape[1:])
        self.dtype = torch.uint8 if array.dtype == np.uint8 else torch.float32

    def __getitem__(self, index: Tensor) -> Tensor:
        rows = index.cpu().numpy() if self.positions is None else self.positions[index.cpu().numpy()]
        return torch.from_numpy(self.array[rows]).to(self.dtype)

    def subset(self, positions: np.ndarray) -> "MappedInputs":
        """The rows at `positions`."""
        own = positions if self.positions is None else self.positions[positions]
        return MappedInputs(self.path, self.array, own, self.stamp)

    def digest(self) -> str:
        """By name, size and time of the file, because reading all of it would take minutes, and by the rows."""
        status = None if self.stamp else self.path.stat()
        known = self.stamp if status is None else f"{self.path.name} {status.st_size} {status.st_mtime_ns}"
        digest = hashlib.sha256(str(known).encode())
        digest.update(b"" if self.positions is None else np.ascontiguousarray(self.positions, dtype="<i8").data)
        return digest.hexdigest()

    def __reduce__(self) -> Any:
        """For worker processes: the file's name instead of its content."""
        return _mapped_again, (self.path, self.positions, self.stamp)


class CentreCropped(LazyInputs):
    """The middle windows of images that are not in memory."""

    def __init__(self, whole: LazyInputs, side: int) -> None:
        self.whole, self.side = whole, side
        self.shape, self.dtype = (*whole.shape[:2], side, side), whole.dtype

    def __getitem__(self, index: Tensor) -> Tensor:
        return centre_crop(self.whole[index], self.side)

    def subset(self, positions: np.ndarray) -> "CentreCropped":
        """The windows at `positions`."""
        return CentreCropped(self.whole.subset(positions), self.side)

    def digest(self) -> str:
        """Of the images and the side."""
        return hashlib.sha256(f"{self.whole.digest()} {self.side}".encode()).hexdigest()


def centre_crop(x: Tensor, side: int | None) -> Tensor:
    """The middle window of images (B, C, H, W); None is the whole image, and features stay what they are."""
    if side is None or x.dim() != 4:
        return x
    top, left = ((length - side + 1) // 2 for length in x.shape[2:])
    return x[:, :, top : top + side, left : left + side]


def centre_crop_inputs(x: Inputs, side: int | None) -> Inputs:
    """The middle windows of images, wherever they are."""
    if isinstance(x, Tensor):
        return centre_crop(x, side)
    return x if side is None else CentreCropped(x, side)


def _mapped_again(path: Path, positions: np.ndarray | None, stamp: str | None) -> MappedInputs:
    return MappedInputs(path, np.load(path, mmap_mode="r", allow_pickle=False), positions, stamp)


def available_memory() -> int:
    """Bytes that could be taken without pushing anything out; a quarter of all where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4


def select_rows(x: Inputs, positions: np.ndarray) -> Inputs:
    """The inputs at `positions`, in that order."""
    return x[torch.from_numpy(np.asarray(positions, dtype=np.int64))] if isinstance(x, Tensor) else x.subset(positions)


def digest_inputs(x: Inputs) -> str:
    """A hash of the inputs."""
    if isinstance(x, LazyInputs):
        return x.digest()
    digest = hashlib.sha256()
    rows_at_once = max(1, _CHUNK // max(1, x[:1].numel() * x.element_size()))
    for part in x.split(rows_at_once) if len(x) else ():
        digest.update(part.contiguous().numpy().data)
    return digest.hexdigest()
