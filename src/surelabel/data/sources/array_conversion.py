"""Convert arrays: inputs to tensors, labels to class names.

Inputs are features (N, D) or images in any usual layout, as pixels or as floats in [0, 1].
Errors name the first bad row.
"""

import warnings

import numpy as np
import torch
from torch import Tensor

from surelabel.data.sources.checks import and_more
from surelabel.data.sources.labels import name_labels
from surelabel.errors import DataError

_CHANNELS = (1, 3)
_IMAGES = "images are (N, H, W), (N, H, W, C) or (N, C, H, W) with C 1 or 3"
TEXT_KINDS = "UST"
"""Kinds of arrays that hold text: str, bytes, and strings of variable length."""


def input_tensor(x: np.ndarray, where: str) -> Tensor:
    """Return features as (N, D) float32 and images as (N, C, H, W) uint8."""
    check_inputs(x, where)
    if x.ndim == 2:
        return as_tensor(_as_float32(x))
    return as_tensor(np.ascontiguousarray(as_pixels(channels_first(x, where), where)))


def check_inputs(x: np.ndarray, where: str) -> None:
    """Raise if the type or the shape of `x` is neither that of features nor that of images."""
    if x.dtype.kind not in "biuf":
        raise DataError(f"{where} has the type {x.dtype}; expected whole numbers or floats")
    if x.ndim not in (2, 3, 4) or not all(x.shape[1:]):
        raise DataError(f"{where} has the shape {x.shape}; features are (N, D), {_IMAGES}")


def channels_first(x: np.ndarray, where: str) -> np.ndarray:
    """Return a view of the images as (N, C, H, W)."""
    if x.ndim == 3:
        return x[:, None]
    if x.shape[3] in _CHANNELS:
        return np.moveaxis(x, 3, 1)
    if x.shape[1] in _CHANNELS:
        return x
    raise DataError(f"{where} has the shape {x.shape}; {_IMAGES}")


def as_pixels(x: np.ndarray, where: str) -> np.ndarray:
    """Return whole numbers in 0..255, or floats in [0, 1], as uint8."""
    if x.dtype == np.uint8 or not x.size:
        return x.astype(np.uint8, copy=False)
    largest = 1 if x.dtype.kind in "bf" else 255
    low, high = x.min(), x.max()
    # Written so that NaN, for which every comparison is false, is refused.
    if not (low >= 0 and high <= largest):
        raise DataError(
            f"{where} holds images with values from {low:g} to {high:g}; expected whole numbers in 0..255 or "
            "floats in [0, 1]; pass other values as features (N, D)"
        )
    return np.rint(x * np.float32(255)).astype(np.uint8) if largest == 1 else x.astype(np.uint8)


def as_tensor(x: np.ndarray) -> Tensor:
    """Return a tensor that shares memory with `x`, which may be read-only: inputs never change."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(x)


def tensor_to_array(x: Tensor) -> np.ndarray:
    """Return the tensor as an array; NumPy has no bfloat16, which becomes float32."""
    x = x.detach().cpu()
    array: np.ndarray = (x.float() if x.dtype == torch.bfloat16 else x).numpy()
    return array


def _as_float32(x: np.ndarray) -> np.ndarray:
    # Values too large for float32 become infinite; Corpus.validate reports them with their row.
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(x, dtype=np.float32)


def label_names(y: np.ndarray, class_names: tuple[str, ...] | None, where: str, may_be_missing: bool) -> np.ndarray:
    """Return the class names (N,) of the rows; whole numbers are positions in `class_names`."""
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise DataError(f"{where} is {y.dtype} of shape {y.shape}; labels are (N,) whole numbers or text")
    return name_labels(y, lambda row, text: DataError(f"{where}: row {row} {text}"), class_names, may_be_missing)


def as_text(values: np.ndarray, where: str) -> np.ndarray:
    """Return any values (N,) as str; bytes are UTF-8."""
    if values.dtype.kind == "V":  # bytes without a type, or records
        raise DataError(f"{where} has the type {values.dtype}; expected text or numbers")
    # Bytes that are not UTF-8 become code points that no text has, so that the check finds the row.
    is_bytes = values.dtype.kind == "S"
    text = np.char.decode(values, "utf-8", "surrogateescape") if is_bytes else values.astype(np.str_)
    codes = np.ascontiguousarray(text).view(np.uint32).reshape(len(text), text.itemsize // 4)
    bad = np.flatnonzero((((codes >= 0xD800) & (codes <= 0xDFFF)) | (codes > 0x10FFFF)).any(1))
    if len(bad):
        fault = "is not UTF-8" if is_bytes else "has a lone surrogate, which is not a character"
        raise DataError(f"{where}: row {bad[0]} {fault}{and_more(len(bad))}; expected text")
    return text
