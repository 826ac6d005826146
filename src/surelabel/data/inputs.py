"""Inputs that can be indexed: a tensor, an array mapped from a file, or images to be decoded."""

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
        """Read the inputs at positions `index` (B,) into memory."""

    @abstractmethod
    def subset(self, positions: np.ndarray) -> "LazyInputs":
        """Return the inputs at `positions`, in that order, without reading them."""

    @abstractmethod
    def digest(self) -> str:
        """Return a hash that changes when the inputs change."""


Inputs = Tensor | LazyInputs


class MappedInputs(LazyInputs):
    """The array of an .npy file, of which the system reads only the rows that are asked for.

    `stamp` is a hash of the content, if known: writing the same file again is then not a change.
    """

    def __init__(
        self, path: Path, array: np.ndarray, positions: np.ndarray | None = None, stamp: str | None = None
    ) -> None:
        self.path, self.array, self.positions, self.stamp = path, array, positions, stamp
        self.shape = (len(array) if positions is None else len(positions), *array.shape[1:])
        self.dtype = torch.uint8 if array.dtype == np.uint8 else torch.float32

    def __getitem__(self, index: Tensor) -> Tensor:
        return torch.from_numpy(self.read_rows(index)).to(self.dtype)

    def read_rows(self, index: Tensor) -> np.ndarray:
        """Read the rows at `index` as they are in the file."""
        rows: np.ndarray = self.array[self.positions_in_file(index.cpu().numpy())]
        return rows

    def positions_in_file(self, positions: np.ndarray) -> np.ndarray:
        """Return where in the file the rows at `positions` are."""
        found: np.ndarray = positions if self.positions is None else self.positions[positions]
        return found

    def subset(self, positions: np.ndarray) -> "MappedInputs":
        """Return the rows at `positions`."""
        return MappedInputs(self.path, self.array, self.positions_in_file(positions), self.stamp)

    def digest(self) -> str:
        """Hash the positions and the file's name, size and time: reading it would take minutes."""
        status = None if self.stamp else self.path.stat()
        known = self.stamp if status is None else f"{self.path.name} {status.st_size} {status.st_mtime_ns}"
        digest = hashlib.sha256(str(known).encode())
        digest.update(b"" if self.positions is None else np.ascontiguousarray(self.positions, dtype="<i8").data)
        return digest.hexdigest()

    def __reduce__(self) -> Any:
        """Send worker processes the file's name instead of its content."""
        return _map_again, (self.path, self.positions, self.stamp)


def _map_again(path: Path, positions: np.ndarray | None, stamp: str | None) -> MappedInputs:
    return MappedInputs(path, np.load(path, mmap_mode="r", allow_pickle=False), positions, stamp)


class CentreCropped(LazyInputs):
    """The centre crops of images that are not in memory."""

    def __init__(self, whole: LazyInputs, side: int) -> None:
        self.whole, self.side = whole, side
        self.shape, self.dtype = (*whole.shape[:2], side, side), whole.dtype

    def __getitem__(self, index: Tensor) -> Tensor:
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
    top, left = ((length - side + 1) // 2 for length in x.shape[2:])
    return x[:, :, top : top + side, left : left + side]


def centre_crop_inputs(x: Inputs, side: int | None) -> Inputs:
    """Crop images about their centre, whether they are in memory or not."""
    if isinstance(x, Tensor):
        return centre_crop(x, side)
    return x if side is None else CentreCropped(x, side)


def available_memory() -> int:
    """Return the bytes that are free, or a quarter of all memory if the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4


def select_rows(x: Inputs, positions: np.ndarray) -> Inputs:
    """Return the inputs at `positions`, in that order."""
    return x[torch.from_numpy(np.asarray(positions, dtype=np.int64))] if isinstance(x, Tensor) else x.subset(positions)


def digest_inputs(x: Inputs) -> str:
    """Return a hash of all inputs."""
    if isinstance(x, LazyInputs):
        return x.digest()
    digest = hashlib.sha256()
    rows_at_once = max(1, _CHUNK // max(1, x[:1].numel() * x.element_size()))
    for start in range(0, len(x), rows_at_once):
        digest.update(x[start : start + rows_at_once].contiguous().numpy().data)
    return digest.hexdigest()
