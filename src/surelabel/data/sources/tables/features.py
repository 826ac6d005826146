"""Columns of numbers, or of lists of numbers, to features (N, D)."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surelabel.data.sources.tables.table import Table

_JUDGED_CELLS = 1000
"""Of a CSV's column, the first cells by which it counts as numbers or as text."""


def is_numeric(table: Table, name: str) -> bool:
    """By the column's type; in a CSV where at least half of its first cells that are not blank are numbers."""
    kind = table[name].type
    if table.is_typed:
        return _is_number(kind.value_type if _is_list(kind) else kind)
    cells = [cell.strip() for cell in table[name].slice(0, _JUDGED_CELLS).to_pylist()]
    filled = [_number(cell) for cell in cells if cell]
    return 0 < len(filled) <= 2 * int((~np.isnan(filled)).sum())


def features_of(table: Table, names: tuple[str, ...]) -> np.ndarray:
    """(N, D) float32: the columns side by side; a cell that is no finite number is an error."""
    with np.errstate(over="ignore"):
        columns = ((_lists if _is_list(table[name].type) else _numbers)(table, name) for name in names)
        return np.concatenate([column.astype(np.float32) for column in columns], axis=1)


def feature_names(table: Table, names: tuple[str, ...]) -> tuple[str, ...]:
    """(D,) what the features are called: their column, and in a column of lists their place in it."""
    found: list[str] = []
    for name in names:
        is_list = _is_list(table[name].type)
        found += [f"{name}[{place}]" for place in range(_lengths(table[name]).max())] if is_list else [name]
    return tuple(found)


def _numbers(table: Table, name: str) -> np.ndarray:
    """(N, 1) float64."""
    column = table[name]
    if _is_text(column.type):
        values = _from_text(column)
    elif _is_number(column.type):
        values = column.cast(pa.float64()).to_numpy()
    else:
        raise table.error(f"the column {name!r} has the type {column.type}; expected numbers")
    table.refuse(~np.isfinite(values), lambda row: f"{name} {_complaint(column[row].as_py())}")
    return values[:, None]


def _lists(table: Table, name: str) -> np.ndarray:
    """(N, D) float64 of lists that must all have D numbers."""
    lists = table[name].combine_chunks()
    lengths = _lengths(lists)
    width = int(lengths.max(initial=0))
    table.refuse(lengths != width, lambda row: f"{name} has {lengths[row]} numbers, where others have {width}")
    flat = pc.list_flatten(lists).cast(pa.float64()).to_numpy(zero_copy_only=False).reshape(len(lengths), width)
    table.refuse(~np.isfinite(flat).all(1), f"{name} holds values that are missing or not finite")
    return flat


def _lengths(lists: Any) -> np.ndarray:
    """(N,) int; a list that is missing has none."""
    return np.asarray(pc.fill_null(pc.list_value_length(lists), 0))


def _from_text(column: Any) -> np.ndarray:
    """(N,) float64, NaN where a cell is no number."""
    try:
        return column.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return np.array([_number(cell) for cell in column.to_pylist()])


def _number(cell: str | None) -> float:
    """Spaces around it do no harm."""
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


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
