"""Arrays and tensors in memory: (x, y), (x, y, x_test, y_test), or a mapping with x, y and the like.

They are what named.py describes, as NumPy arrays, torch tensors or lists.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surelabel.config import DataConfig
from surelabel.data.inputs import Shape
from surelabel.data.sources.arrays import ALIASES, KNOWN, parts_of
from surelabel.data.sources.interface import Parts
from surelabel.errors import DataError

KIND = "arrays as (x, y), (x, y, x_test, y_test) or {'x': ..., 'y': ...}"

_TUPLES = {2: ("x", "y"), 4: ("x", "y", "x_test", "y_test")}


def accepts(data: Any) -> bool:
    """A tuple, or a mapping with x."""
    return isinstance(data, tuple) or (isinstance(data, Mapping) and "x" in data)


def describe(_data: Any) -> str:
    """What stands for the data in a configuration."""
    return "<arrays>"


def read(data: Any, config: DataConfig, shape: Shape | None = None) -> Parts:
    """The rows of x and y, and of x_test and y_test."""
    named = data if isinstance(data, Mapping) else _by_name(data)
    arrays = {}
    for name, value in named.items():
        if name not in (*KNOWN, *ALIASES):
            raise DataError(f"<arrays>: there is no array {name!r} to give; there are {', '.join(KNOWN)}")
        if value is not None:
            arrays[ALIASES.get(name, name)] = array_of(value, name)
    return parts_of(arrays, config, shape)


def _by_name(data: tuple[Any, ...]) -> dict[str, Any]:
    if len(data) not in _TUPLES:
        raise DataError(f"<arrays>: a tuple of {len(data)}; expected (x, y) or (x, y, x_test, y_test)")
    return dict(zip(_TUPLES[len(data)], data, strict=True))


def array_of(value: Any, name: str) -> np.ndarray:
    """A NumPy array of numbers or text; nothing is copied where that can be helped."""
    if isinstance(value, list | tuple) and value and isinstance(value[0], Tensor):
        value = _stacked(value, name)
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    if not isinstance(value, list | tuple) and not hasattr(value, "__array__"):
        hint = "data sets go in as {'train': ..., 'test': ...}"
        raise DataError(f"<arrays>: {name} is a {type(value).__name__}; expected an array, a tensor or a list; {hint}")
    try:
        array = np.asarray(value)
        # Text that pandas holds is an array of objects; nothing is unpickled here, it is in memory already.
        array = np.array(array.tolist()) if array.dtype == object and array.ndim else array
    except ValueError:
        raise DataError(f"<arrays>: {name} has rows of different shapes; all must have the same") from None
    if array.dtype == object or not array.ndim:
        raise DataError(f"<arrays>: {name} is a {type(value).__name__}{_odd(array)}; allowed are numbers, or text")
    if array.dtype.kind == "U" and array.ndim == 1 and (isinstance(value, list | tuple) or value.dtype == object):
        _refuse_mixed(value, name)
    return array


def _odd(array: np.ndarray) -> str:
    """Which row is no number and no text."""
    odd = (row for row, value in enumerate(array if array.ndim else ()) if not isinstance(value, str | int | float))
    row = next(odd, None)
    return "" if row is None else f" whose row {row} is {array[row]!r}"


def _refuse_mixed(values: Any, name: str) -> None:
    """NaN among text, pandas' mark for a missing label, would become a class called nan."""
    for row, value in enumerate(values):
        if not isinstance(value, str):
            raise DataError(
                f"<arrays>: {name}: row {row} is {value!r} among text; allowed are numbers only, or text only"
            )


def _stacked(tensors: Any, name: str) -> Tensor:
    try:
        return torch.stack(tuple(tensors))
    except RuntimeError:
        raise DataError(f"<arrays>: {name} has rows of different shapes; all must have the same") from None
