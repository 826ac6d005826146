"""Inputs that can be indexed: a tensor in memory, an array mapped from a file, or images that are decoded when asked for."""

import hashlib
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


class Lazy(ABC):
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
    def subset(self, positions: np.ndarray) -> "Lazy":
        """The inputs at `positions`, in that order, still not in memory."""

    @abstractmethod
    def digest(self) -> str:
        """A hash that changes when what would be read changes."""


Inputs = Tensor | Lazy


class Mapped(Lazy):
    """The array of an .npy file, of which the system reads what is asked for."""

    def __init__(self, path: Path, array: np.ndarray, positions: np.ndarray | None = None) -> None:
        self.path, self.array, self.positions = path, array, positions
        self.shape = (len(array) if positions is None else len(positions), *array.shape[1:])
        self.dtype = torch.uint8 if array.dtype == np.uint8 else torch.float32

    def __getitem__(self, index: Tensor) -> Tensor:
        rows = index.cpu().numpy() if self.positions is None else self.positions[index.cpu().numpy()]
        return torch.from_numpy(self.array[rows]).to(self.dtype)

    def subset(self, positions: np.ndarray) -> "Mapped":
        """The rows at `positions`."""
        return Mapped(self.path, self.array, positions if self.positions is None else self.positions[positions])

    def digest(self) -> str:
        """By name, size and time of the file, because reading all of it would take minutes, and by the rows."""
        status = self.path.stat()
        digest = hashlib.sha256(f"{self.path.name} {status.st_size} {status.st_mtime_ns}".encode())
        digest.update(b"" if self.positions is None else np.ascontiguousarray(self.positions, dtype="<i8").data)
        return digest.hexdigest()

    def __reduce__(self) -> Any:
        """For worker processes: the file's name instead of its content."""
        return _mapped_again, (self.path, self.positions)


def _mapped_again(path: Path, positions: np.ndarray | None) -> Mapped:
    return Mapped(path, np.load(path, mmap_mode="r", allow_pickle=False), positions)


def subset(x: Inputs, positions: np.ndarray) -> Inputs:
    """The inputs at `positions`, in that order."""
    return x[torch.from_numpy(np.asarray(positions, dtype=np.int64))] if isinstance(x, Tensor) else x.subset(positions)


def digest_of(x: Inputs) -> str:
    """A hash of the inputs."""
    if isinstance(x, Lazy):
        return x.digest()
    digest = hashlib.sha256()
    rows_at_once = max(1, _CHUNK // max(1, x[:1].numel() * x.element_size()))
    for part in x.split(rows_at_once) if len(x) else ():
        digest.update(part.contiguous().numpy().data)
    return digest.hexdigest()
