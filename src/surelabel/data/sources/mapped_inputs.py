"""Arrays in files, in any layout and type that arrays in memory may have, converted when rows are asked for."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surelabel.data.inputs import MappedInputs
from surelabel.data.sources.array_conversion import channels_first, input_tensor


class ConvertedInputs(MappedInputs):
    """The inputs of an .npy file; `array` is as it lies there."""

    def __init__(self, path: Path, array: np.ndarray, positions: np.ndarray | None = None) -> None:
        super().__init__(path, array, positions)
        inner = array.shape[1:] if array.ndim == 2 else channels_first(array, str(path)).shape[1:]
        self.shape = (self.shape[0], *inner)
        self.dtype = torch.float32 if array.ndim == 2 else torch.uint8

    def __getitem__(self, index: Tensor) -> Tensor:
        rows = index.cpu().numpy() if self.positions is None else self.positions[index.cpu().numpy()]
        return input_tensor(self.array[rows], str(self.path))

    def subset(self, positions: np.ndarray) -> "ConvertedInputs":
        """The rows at `positions`."""
        return ConvertedInputs(
            self.path, self.array, positions if self.positions is None else self.positions[positions]
        )

    def __reduce__(self) -> Any:
        """For worker processes: the file's name instead of its content."""
        return _again, (self.path, self.positions)


def _again(path: Path, positions: np.ndarray | None) -> ConvertedInputs:
    return ConvertedInputs(path, np.load(path, mmap_mode="r", allow_pickle=False), positions)
