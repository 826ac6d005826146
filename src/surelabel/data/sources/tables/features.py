"""Convert columns of numbers, or of lists of numbers, to features (N, D)."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surelabel.data.sources.tables.table import Table

_JUDGED_CELLS = 1000
"""Cells at the beginning of a CSV column that decide whether it is numbers or text."""
_MISSING = ("", "na", "n/a", "nan", "null", "none", "?", "-")
"""Cells that say that a value is missing, in lower case."""


def is_missing(cell: Any) -> bool:
    """Return whether a cell is blank or says that its value is missing."""
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in _MISSING)


def is_numeric(table: Table, name: str) -> bool:
    """Return whether a column has a numeric type.

    In a CSV file, at least half of the first cells that are not blank must be numbers.
    """
    kind = table[name].type
    if table.is_typed:
        return _is_number(kind.value_type if _is_list(kind) else kind)
    cells = [cell.strip() for cell in table[name].slice(0, _JUDGED_CELLS).to_pylist()]
    filled = [_parse(cell) for cell in cells if cell]
    return 0 < len(filled) <= 2 * int((~np.isnan(filled)).sum())


def read_features(table: Table, names: tuple[str, ...]) -> np.ndarray:
    """Return the columns side by side as (N, D) float32; every cell must be a finite number."""
    with np.errstate(over="ignore"):
        columns = ((_read_lists if _is_list(table[name].type) else _read_numbers)(table, name) for name in names)
        return np.concatenate([column.astype(np.float32) for column in columns], axis=1)


def feature_names(table: Table, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the D names of the features: their column, and their index in a column of lists."""
    found: list[str] = []
    for name in names:
        is_list = _is_list(table[name].type)
        found += [f"{name}[{index}]" for index in range(_lengths(table[name]).max())] if is_list else [name]
    return tuple(found)


def _read_numbers(table: Table, name: str) -> np.ndarray:
    """Return a column as (N, 1) float64."""
    column = table[name]
    if is_text(column.type):
        values = _parse_column(column)
    elif _is_number(column.type):
        values = column.cast(pa.float64()).to_numpy()
    else:
        raise table.error(f"the column {name!r} has the type {column.type}; expected numbers")
    table.refuse(~np.isfinite(values), lambda row: f"{name} {_complaint(column[row].as_py())}")
    return values[:, None]


def _read_lists(table: Table, name: str) -> np.ndarray:
    """Return a column of lists, which must all have D numbers, as (N, D) float64."""
    lists = table[name].combine_chunks()
    lengths = _lengths(lists)
    width = int(lengths.max(initial=0))
    table.refuse(lengths != width, lambda row: f"{name} has {lengths[row]} numbers, where others have {width}")
    numbers: np.ndarray = pc.list_flatten(lists).cast(pa.float64()).to_numpy(zero_copy_only=False)
    numbers = numbers.reshape(len(lengths), width)
    table.refuse(~np.isfinite(numbers).all(1), f"{name} holds values that are missing or not finite")
    return numbers


def _lengths(lists: Any) -> np.ndarray:
    """Return the lengths (N,) of lists; a missing list counts as empty."""
    return np.asarray(pc.fill_null(pc.list_value_length(lists), 0))


def _parse_column(column: Any) -> np.ndarray:
    """Return a column of text as (N,) float64, NaN where a cell is not a number."""
    try:
        return np.asarray(column.cast(pa.float64()).to_numpy())
    except pa.ArrowInvalid:
        return np.array([_parse(cell) for cell in column.to_pylist()])


def _parse(cell: str | None) -> float:
    """Return a cell as a number, NaN if it is none; spaces around it are allowed."""
    try:
        return float(cell or "nan")
    except ValueError:
        return np.nan


def _complaint(cell: Any) -> str:
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return "is blank; expected a number"
    return f"is {cell!r}; expected a finite number"


def _is_number(kind: Any) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


def is_text(kind: Any) -> bool:
    """Return whether a type is text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
