"""Convert columns of numbers, or of lists of numbers, to features (N, D)."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surelabel.data.sources.tables.table import Fault, Table

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
    """Return the columns side by side as (N, D) float32; `find_faults` has found bad cells."""
    with np.errstate(over="ignore"):
        columns = (read_lists(table, name) if is_list(table, name) else read_numbers(table, name) for name in names)
        return np.concatenate([column.astype(np.float32).reshape(len(table), -1) for column in columns], axis=1)


def find_faults(table: Table, names: tuple[str, ...], allow_missing: bool) -> list[Fault]:
    """Find the rows in which a column has no finite number; missing ones may be allowed."""
    faults: list[Fault] = []
    for name in names:
        faults += _list_faults(table, name) if is_list(table, name) else _number_faults(table, name, allow_missing)
    return faults


def has_missing_numbers(table: Table, names: tuple[str, ...]) -> bool:
    """Return whether a cell of these columns is missing."""
    return any(_missing_numbers(table, name, read_numbers(table, name)).any() for name in names)


def feature_names(table: Table, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the D names of the features: their column, and their index in a column of lists."""
    found: list[str] = []
    for name in names:
        lists = is_list(table, name)
        found += [f"{name}[{index}]" for index in range(_lengths(table[name]).max())] if lists else [name]
    return tuple(found)


def read_numbers(table: Table, name: str) -> np.ndarray:
    """Return a column as (N,) float64, NaN where a cell is missing or no number."""
    column = table[name]
    if is_text(column.type):
        return _parse_column(column)
    if not _is_number(column.type):
        raise table.error(f"the column {name!r} has the type {column.type}; expected numbers")
    return np.asarray(_to_floats(column).to_numpy())


def _to_floats(numbers: Any) -> Any:
    """Return numbers as float64: features are rounded, as those that a CSV file has as text."""
    return numbers.cast(pa.float64(), safe=False)


def _number_faults(table: Table, name: str, allow_missing: bool) -> list[Fault]:
    values = read_numbers(table, name)
    with np.errstate(over="ignore"):  # features are float32
        is_bad = ~np.isfinite(values.astype(np.float32))
    if allow_missing:
        is_bad &= ~_missing_numbers(table, name, values)
    return [(is_bad, lambda row: f"{name} {_complaint(table[name][row].as_py())}")]


def _missing_numbers(table: Table, name: str, values: np.ndarray) -> np.ndarray:
    """Return which cells (N,) are missing; `values` are their numbers."""
    missing: np.ndarray = np.isnan(values)
    if is_text(table[name].type):
        for row in np.flatnonzero(missing).tolist():
            missing[row] = is_missing(table[name][row].as_py())
    return missing


def read_lists(table: Table, name: str) -> np.ndarray:
    """Return a column of lists of D numbers as (N, D) float64."""
    lists = table[name].combine_chunks()
    numbers: np.ndarray = _to_floats(pc.list_flatten(lists)).to_numpy(zero_copy_only=False)
    return np.asarray(numbers.reshape(len(lists), -1))


def _list_faults(table: Table, name: str) -> list[Fault]:
    """Find lists that are longer or shorter than most, or have a value that is no finite number."""
    lists = table[name].combine_chunks()
    lengths = _lengths(lists)
    counts = np.bincount(lengths, minlength=1)
    width = int(np.flatnonzero(counts == counts.max())[-1])  # the most frequent one, or the longest of these
    values: np.ndarray = _to_floats(pc.list_flatten(lists)).to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    not_finite = np.bincount(rows[~np.isfinite(values)], minlength=len(lengths)) > 0
    return [
        (lengths != width, lambda row: f"{name} has {lengths[row]} numbers, where others have {width}"),
        (not_finite, lambda _: f"{name} holds values that are missing or not finite"),
    ]


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


def is_list(table: Table, name: str) -> bool:
    """Return whether a column has lists of numbers, such as embeddings."""
    return _is_list(table[name].type)


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
