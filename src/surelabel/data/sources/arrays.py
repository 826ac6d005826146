"""Read rows from named arrays, and take arrays in memory as data.

x is text (N,), features (N, D), or images: (N, H, W), (N, H, W, C) or (N, C, H, W) with C 1 or 3,
as whole numbers in 0..255 or floats in [0, 1]. If a shape can be read both ways, as (N, 3, 8, 3)
can, the channels are the last axis. y is (N,) whole numbers or strings; whole numbers are positions
in class_names, if that is given. `clean` holds the true labels, if they are known; `group`, or the
array that `data.group` names, holds the group of each row. x_test, y_test, ids_test and clean_test
are a test set. `array_files` reads the same arrays from files.

In memory, data are (x, y), (x, y, x_test, y_test), or a mapping of names to NumPy arrays, torch
tensors or lists.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from surelabel.config import DataConfig
from surelabel.data.cells import Cells
from surelabel.data.images.load import fit_to_shape, square_shape
from surelabel.data.inputs import Inputs, LazyInputs, Shape
from surelabel.data.sources.array_conversion import (
    TEXT_KINDS,
    as_text,
    input_tensor,
    label_names,
    tensor_to_array,
)
from surelabel.data.sources.interface import Parts, Rows
from surelabel.data.sources.labels import name_classes, name_labels
from surelabel.errors import DataError

KIND = "arrays as (x, y), (x, y, x_test, y_test) or {'x': ..., 'y': ...}"

ARRAY_NAMES = ("x", "y", "ids", "clean", "group", "x_test", "y_test", "ids_test", "clean_test", "class_names")
ALIASES = {"y_clean": "clean", "y_clean_test": "clean_test"}

_TUPLES = {2: ("x", "y"), 4: ("x", "y", "x_test", "y_test")}

Arrays = Mapping[str, np.ndarray | LazyInputs]


def accepts(data: Any) -> bool:
    """Return whether `data` is a tuple, or a mapping with x."""
    return isinstance(data, tuple) or (isinstance(data, Mapping) and "x" in data)


def describe(_data: Any) -> str:
    """Return the placeholder for the data in a configuration."""
    return "<arrays>"


def read(data: Any, config: DataConfig, shape: Shape | None = None) -> Parts:
    """Read the rows of x and y, and of x_test and y_test."""
    named = data if isinstance(data, Mapping) else _name_arrays(data)
    arrays: dict[str, np.ndarray | LazyInputs] = {}
    found: np.ndarray | LazyInputs | None
    for name, value in named.items():
        if name not in (*ARRAY_NAMES, *ALIASES, config.group):
            raise DataError(f"<arrays>: unknown array {name!r}; expected {', '.join(ARRAY_NAMES)}")
        if value is not None:
            found = _to_cells(value, name)
            found = _to_objects(value, name) if found is None else found
            arrays[ALIASES.get(name, name)] = _to_array(value, name) if found is None else found
    return make_parts(arrays, config, shape)


def make_parts(arrays: Arrays, config: DataConfig, shape: Shape | None = None) -> Parts:
    """Return the rows of x and y, and of x_test and y_test."""
    class_names = None
    if "class_names" in arrays:
        names = _get(arrays, "class_names", config.source)
        class_names = name_classes(names.reshape(-1), f"{config.source}: class_names")
    train = _rows(arrays, "", class_names, config, shape)
    tests = {}
    if "x_test" in arrays or "y_test" in arrays:
        tests["test"] = _rows(arrays, "_test", class_names, config, shape or tuple(train.x.shape[1:]))
    return Parts(train, tests, class_names)


def make_inputs(arrays: Arrays, config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """Return the array x and its ids; y may be missing."""
    x = _fit(_inputs(arrays, "", config.source), shape, config.source, config.crop)
    return x, _ids(arrays, "", len(x), config.source)


def _rows(
    arrays: Arrays, suffix: str, class_names: tuple[str, ...] | None, config: DataConfig, shape: Shape | None
) -> Rows:
    source = config.source
    x = _inputs(arrays, suffix, source)
    x = _fit(x, shape or square_shape(x, config.image_size), f"{source}: x{suffix}", config.crop)
    if f"y{suffix}" not in arrays and config.labels is not None:
        names = np.full(len(x), "", dtype=np.str_)
    else:
        names = _label_names(arrays, f"y{suffix}", len(x), class_names, config, config.labels is not None)
    clean = None
    if f"clean{suffix}" in arrays:
        clean = _label_names(arrays, f"clean{suffix}", len(x), class_names, config)
    group = None if suffix or shape is not None else _groups(arrays, len(x), config)
    return Rows(x, names, _ids(arrays, suffix, len(x), source), clean, group)


def _label_names(
    arrays: Arrays,
    name: str,
    num_rows: int,
    class_names: tuple[str, ...] | None,
    config: DataConfig,
    may_be_missing: bool = False,
) -> np.ndarray:
    where = f"{config.source}: {name}"
    names = label_names(_get(arrays, name, config.source), class_names, where, may_be_missing)
    if len(names) != num_rows:
        beside = "x_test" if name.endswith("_test") else "x"
        raise DataError(f"{config.source}: {beside} has {num_rows} rows and {name} has {len(names)}; they must agree")
    return names


def _ids(arrays: Arrays, suffix: str, num_rows: int, source: str) -> np.ndarray:
    if f"ids{suffix}" not in arrays:
        return np.array(
            [f"{suffix.lstrip('_')}/{row}" if suffix else str(row) for row in range(num_rows)], dtype=np.str_
        )
    ids = _get(arrays, f"ids{suffix}", source)
    if ids.shape != (num_rows,):
        raise DataError(f"{source}: ids{suffix} has the shape {ids.shape}; expected one id for each of {num_rows} rows")
    return as_text(ids, f"{source}: ids{suffix}")


def _groups(arrays: Arrays, num_rows: int, config: DataConfig) -> np.ndarray | None:
    """Return the group (N,) str of each row, blank if missing; None if there are no groups."""
    name = config.group or "group"
    if name not in arrays and (config.group is None or config.labels is not None):
        return None
    group, where = _get(arrays, name, config.source), f"{config.source}: {name}"
    if group.shape != (num_rows,):
        raise DataError(f"{where} has the shape {group.shape}; expected one group for each of {num_rows} rows")
    return name_labels(group, lambda row, text: DataError(f"{where}: row {row} {text}"), may_be_missing=True)


def _inputs(arrays: Arrays, suffix: str, source: str) -> Inputs:
    x = arrays.get(f"x{suffix}")
    if isinstance(x, LazyInputs):
        return x
    if isinstance(x, np.ndarray) and x.dtype.kind in TEXT_KINDS and x.ndim == 1:
        return Cells.of_texts(as_text(x, f"{source}: x{suffix}").tolist())
    return input_tensor(_get(arrays, f"x{suffix}", source), f"{source}: x{suffix}")


def _fit(x: Inputs, shape: Shape | None, where: str, crop: int | None) -> Inputs:
    if isinstance(x, LazyInputs) and len(x.shape) == 4 and shape not in (None, tuple(x.shape[1:])):
        size = " x ".join(map(str, x.shape[2:]))
        raise DataError(
            f"{where}: too large for memory, so its images of {size} pixels cannot be resized; save them resized"
        )
    return fit_to_shape(x, shape, where, crop)


def _get(arrays: Arrays, name: str, source: str) -> np.ndarray:
    array = arrays.get(name)
    if not isinstance(array, np.ndarray):
        raise DataError(f"{source}: there is no array {name}; available: {', '.join(arrays) or 'none'}")
    return array


def _name_arrays(data: tuple[Any, ...]) -> dict[str, Any]:
    if len(data) not in _TUPLES:
        raise DataError(f"<arrays>: a tuple of length {len(data)}; expected (x, y) or (x, y, x_test, y_test)")
    return dict(zip(_TUPLES[len(data)], data, strict=True))


def _to_cells(value: Any, name: str) -> Cells | None:
    """Return inputs that are text; None if they are not. As an array, each would be the longest."""
    is_array = isinstance(value, np.ndarray) and value.dtype.kind != "O"
    if name not in ("x", "x_test") or is_array or isinstance(value, Tensor) or not hasattr(value, "__len__"):
        return None
    texts = list(value) if len(value) and isinstance(next(iter(value)), str) else []
    if not texts:
        return None
    _refuse_mixed_types(texts, name)
    try:
        return Cells.of_texts(texts)
    except (UnicodeEncodeError, pa.ArrowException):
        raise DataError(f"<arrays>: {name} has a lone surrogate, which is not a character; expected text") from None


def _to_objects(value: Any, name: str) -> np.ndarray | None:
    """Return labels as they are in a list, or an array of objects; as an array, 1 would be "1"."""
    if name.startswith(("x", "ids")) or isinstance(value, Tensor):
        return None
    # pandas holds text as an array of objects; they are in memory, so nothing is unpickled.
    values = value if isinstance(value, list | tuple) else np.asarray(value)
    if isinstance(values, np.ndarray) and (values.dtype != object or values.ndim != 1):
        return None
    if any(isinstance(one, Tensor | np.ndarray | list | tuple) for one in values):
        return None
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


def _to_array(value: Any, name: str) -> np.ndarray:
    """Return a NumPy array of numbers or text, without a copy if possible."""
    if isinstance(value, list | tuple) and value and isinstance(value[0], Tensor):
        value = _stack(value, name)
    if isinstance(value, Tensor):
        return tensor_to_array(value)
    if not isinstance(value, list | tuple) and not hasattr(value, "__array__"):
        hint = "data sets go in as {'train': ..., 'test': ...}"
        raise DataError(f"<arrays>: {name} is a {type(value).__name__}; expected an array, a tensor or a list; {hint}")
    try:
        array = np.asarray(value)
        # pandas holds text as an array of objects; they are in memory, so nothing is unpickled.
        array = np.array(array.tolist()) if array.dtype == object and array.ndim else array
    except ValueError:
        raise _differing_shapes(name) from None
    if array.dtype == object or not array.ndim:
        raise DataError(
            f"<arrays>: {name} is a {type(value).__name__}{_first_object(array)}; expected numbers, or text"
        )
    if array.dtype.kind == "U" and array.ndim == 1 and (isinstance(value, list | tuple) or value.dtype == object):
        _refuse_mixed_types(value, name)
    return array


def _stack(tensors: Any, name: str) -> Tensor:
    try:
        return torch.stack(tuple(tensors))
    except RuntimeError:
        raise _differing_shapes(name) from None


def _differing_shapes(name: str) -> DataError:
    return DataError(f"<arrays>: {name} has rows of different shapes; all must have the same")


def _first_object(array: np.ndarray) -> str:
    """Return which row is neither a number nor text, in words."""
    odd = (row for row, value in enumerate(array if array.ndim else ()) if not isinstance(value, str | int | float))
    row = next(odd, None)
    return "" if row is None else f" whose row {row} is {array[row]!r}"


def _refuse_mixed_types(values: Any, name: str) -> None:
    """Raise if a number is among text: NaN, a missing label in pandas, would become a class."""
    for row, value in enumerate(values):
        if not isinstance(value, str):
            raise DataError(f"<arrays>: {name}: row {row} is {value!r} among text; expected numbers only, or text only")
