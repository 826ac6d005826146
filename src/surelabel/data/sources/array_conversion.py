"""Arrays of inputs to tensors: features (N, D), or images in any usual layout, as pixels or as floats in [0, 1]."""

import warnings

import numpy as np
import torch
from torch import Tensor

from surelabel.errors import DataError

_CHANNELS = (1, 3)
_IMAGES = "images are (N, H, W), (N, H, W, C) or (N, C, H, W) with C 1 or 3"


def input_tensor(x: np.ndarray, where: str) -> Tensor:
    """(N, D) float32 or (N, C, H, W) uint8."""
    check_inputs(x, where)
    if x.ndim == 2:
        return as_tensor(_as_float32(x))
    return as_tensor(np.ascontiguousarray(as_pixels(channels_first(x, where), where)))


def check_inputs(x: np.ndarray, where: str) -> None:
    """An error for types and shapes that are neither features nor images."""
    if x.dtype.kind not in "biuf":
        raise DataError(f"{where} has the type {x.dtype}; allowed are whole numbers and floats")
    if x.ndim not in (2, 3, 4) or not all(x.shape[1:]):
        raise DataError(f"{where} has the shape {x.shape}; features are (N, D), {_IMAGES}")


def channels_first(x: np.ndarray, where: str) -> np.ndarray:
    """Images as (N, C, H, W), without a copy."""
    if x.ndim == 3:
        return x[:, None]
    if x.shape[3] in _CHANNELS:
        return np.moveaxis(x, 3, 1)
    if x.shape[1] in _CHANNELS:
        return x
    raise DataError(f"{where} has the shape {x.shape}; {_IMAGES}")


def as_pixels(x: np.ndarray, where: str) -> np.ndarray:
    """Whole numbers in 0..255 or floats in [0, 1] as uint8."""
    if x.dtype == np.uint8 or not x.size:
        return x.astype(np.uint8, copy=False)
    largest = 1 if x.dtype.kind in "bf" else 255
    low, high = x.min(), x.max()
    # Written so that NaN, which compares as false, is refused.
    if not (low >= 0 and high <= largest):
        raise DataError(
            f"{where} holds images with values from {low:g} to {high:g}; allowed are whole numbers in 0..255 and "
            "floats in [0, 1]; other values go in as features (N, D)"
        )
    return np.rint(x * np.float32(255)).astype(np.uint8) if largest == 1 else x.astype(np.uint8)


def as_tensor(x: np.ndarray) -> Tensor:
    """The same memory as a tensor; nothing here ever writes into inputs, so it may be memory that nobody may write to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(x)


def _as_float32(x: np.ndarray) -> np.ndarray:
    # What is too large for float32 becomes infinite, and is reported with its row where all inputs are checked.
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(x, dtype=np.float32)
