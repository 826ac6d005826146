"""Columns of labels to class names; a label that is missing becomes blank."""

from typing import Any

import numpy as np
import pyarrow as pa

from surelabel.data.sources.tables.columns import Roles
from surelabel.data.sources.tables.table import Table

_UNLABELLED = -1
"""How the hub marks rows without a label."""


def class_names_of(table: Table, roles: Roles) -> tuple[str, ...] | None:
    """What the label's whole numbers stand for; names of the true label serve both columns."""
    for column in (roles.label, roles.clean):
        if column is not None and column in table.class_names:
            return table.class_names[column]
    return None


def names_in(table: Table, column: str, shared: tuple[str, ...] | None) -> np.ndarray:
    """(N,) str; whole numbers count the column's own class names, or else those that it shares with another column."""
    kind = table[column].type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return table.cells(column)
    numbers, is_missing = _whole_numbers(table, column)
    class_names = table.class_names.get(column, shared)
    if class_names is None:
        names = numbers.astype(np.str_)
    else:
        is_missing |= numbers == _UNLABELLED
        is_beyond = ~is_missing & ((numbers < 0) | (numbers >= len(class_names)))
        table.refuse(
            is_beyond, lambda row: f"{column} is {numbers[row]}; there are {len(class_names)} classes, counted from 0"
        )
        names = np.array(class_names)[np.where(is_missing, 0, numbers)]
    return np.where(is_missing, "", names)


def _whole_numbers(table: Table, column: str) -> tuple[np.ndarray, np.ndarray]:
    """(N,) int64, and whether each is missing; pandas turns whole numbers into floats where some are."""
    values: Any = table[column]
    is_missing = values.is_null(nan_is_null=True).to_numpy().copy()
    exact = values.fill_null(0).to_numpy()
    exact = np.where(is_missing, 0, exact)
    table.refuse(exact != np.floor(exact), lambda row: f"{column} is {exact[row]}; labels are whole numbers or text")
    return exact.astype(np.int64), is_missing
