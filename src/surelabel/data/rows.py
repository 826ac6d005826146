"""What a source of data is, and what it hands over: inputs with labels as the user spells them."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from surelabel.config import DataConfig

Shape = tuple[int, ...]
"""Of one input: (C, H, W) for images, (D,) for features."""


@dataclass(frozen=True)
class Rows:
    """N inputs whose labels are still names."""

    x: Tensor
    """(N, C, H, W) uint8 images, or (N, D) float32 features."""
    names: np.ndarray
    """(N,) str: the name of each row's class."""
    ids: np.ndarray
    """(N,) str."""
    is_clean: bool = False
    """Whether the labels are known to be right."""

    def subset(self, positions: np.ndarray) -> "Rows":
        """The rows at `positions`, in that order."""
        x = self.x[torch.from_numpy(positions)]
        return Rows(x, self.names[positions], self.ids[positions], self.is_clean)


@dataclass(frozen=True)
class Parts:
    """The rows to train on and the source's own test part, if it has one."""

    train: Rows
    test: Rows | None = None
    class_names: tuple[str, ...] | None = None
    """The order of the classes where the source fixes it; None sorts the names."""


class Source(Protocol):
    """A module that reads one kind of data."""

    KIND: str
    """What it reads, in a few words for error messages."""
    BUNDLED: tuple[str, ...]
    """Names, not paths, that it answers to."""

    def accepts(self, source: str) -> bool:
        """Whether `source` is of this kind; the file need not exist."""

    def read(self, config: DataConfig, shape: Shape | None = None) -> Parts:
        """The labelled rows at `config.source`, made to fit `shape` where that is given."""

    def read_inputs(self, config: DataConfig, shape: Shape) -> tuple[Tensor, np.ndarray]:
        """The inputs at `config.source` and their ids; labels are not needed."""
