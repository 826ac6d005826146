"""Inputs that can be indexed: a tensor, an array mapped from a file, or images to be decoded."""

import hashlib
import math
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
    """N inputs of one shape that are not in one tensor."""

    shape: tuple[int, ...]
    """(N, C, H, W) for images, (N, D) for features."""
    dtype: torch.dtype
    """uint8 for images, float32 for features."""

    @property
    def is_in_memory(self) -> bool:
        """Whether the inputs are in memory, if not in one tensor."""
        return False

    @property
    def num_bytes(self) -> int:
        """Bytes of all inputs."""
        return math.prod(self.shape) * self.dtype.itemsize

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


def available_memory() -> int:
    """Return the bytes that are free, or a quarter of all memory if the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4


HASH_BYTES = 16
"""Of the hash of a row: even billions of rows hardly ever collide."""
ANY_SIZE: Shape = (0, 0, 0)
"""The shape of images that keep their sizes, because an encoder reads them as they are stored."""


def select_rows(x: Inputs, positions: np.ndarray) -> Inputs:
    """Return the inputs at `positions`, in that order."""
    return x[torch.from_numpy(np.asarray(positions, dtype=np.int64))] if isinstance(x, Tensor) else x.subset(positions)


def read_all(x: Inputs) -> np.ndarray:
    """Return all inputs as one array."""
    found: np.ndarray = (x if isinstance(x, Tensor) else x[torch.arange(len(x))]).numpy()
    return found


def digest_inputs(x: Inputs) -> str:
    """Return a hash of all inputs."""
    if isinstance(x, LazyInputs):
        return x.digest()
    digest = hashlib.sha256()
    rows_at_once = max(1, _CHUNK // max(1, x[:1].numel() * x.element_size()))
    for start in range(0, len(x), rows_at_once):
        digest.update(x[start : start + rows_at_once].contiguous().numpy().data)
    return digest.hexdigest()
