"""CSV files with an id and a label, or another value, in each row.

Corrected labels, confirmed labels, noisy labels and the scores of other tools are all read here.
`csv_file` describes the format. Ids are text; they must not be blank and must be unique. Files that
surelabel wrote have a ' before ids that a spreadsheet would run as formulas; it is removed here.

A file of decisions has the columns `decided_at` and `action`. Its rows with the action `remove` are
to leave the data, and those with another action than `keep` and `relabel` say nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from surelabel.data.sources.tables.csv_file import read_csv
from surelabel.data.sources.tables.table import Table
from surelabel.files import is_formula, restore_cell


@dataclass(frozen=True)
class LabelFile:
    """The ids and values of a file, in its order."""

    table: Table
    ids: np.ndarray
    """(N,) str: unique and never blank."""
    values: np.ndarray | None
    """(N,) str: never blank; None if the file has no such column."""
    value_column: str | None
    removed: np.ndarray = field(default_factory=lambda: np.array([], dtype=np.str_))
    """(M,) str: ids of rows that are to leave the data; only files of decisions have them."""

    @property
    def path(self) -> str:
        """The path as the user wrote it."""
        return self.table.where

    def positions(self, ids: Iterable[str]) -> np.ndarray:
        """Return the row (N,) of the file that holds each id, -1 for ids it does not hold."""
        position = {name: row for row, name in enumerate(self.ids.tolist())}
        return np.array([position.get(str(name), -1) for name in ids], dtype=np.int64)


def read_label_file(
    path: str | Path,
    id_columns: Sequence[str] = ("id",),
    value_columns: Sequence[str] = ("label",),
    *,
    needs_values: bool = True,
    strip: bool = True,
    allow_short_rows: bool = True,
    has_decisions: bool = False,
) -> LabelFile:
    """Read the first of `id_columns` and of `value_columns` that the file has, in any case.

    Without `strip`, spaces around ids belong to them. Short rows end in blank cells.
    `has_decisions` says that the file may be one of decisions.
    """
    table = read_csv(str(path), allow_short_rows)
    id_column = _find_column(table, id_columns)
    value_column = _find_column(table, value_columns, is_required=needs_values)
    assert id_column is not None
    ids = _restore_ids(_read_cells(table, id_column, strip))
    _refuse_repeated_ids(table, ids)
    removed = ids[:0]
    if has_decisions and {"decided_at", "action"} <= set(table.names):
        action = table.cells("action")
        removed, is_known = ids[action == "remove"], np.isin(action, ("keep", "relabel"))
        table, ids = table.filter(is_known), ids[is_known]
    values = None if value_column is None else table.labels(value_column)
    if values is not None:
        table.refuse(values == "", f"{value_column} is blank")
    return LabelFile(table, ids, values, value_column, removed)


def _find_column(table: Table, names: Sequence[str], is_required: bool = True) -> str | None:
    by_lower = {name.lower(): name for name in reversed(table.names)} | {name: name for name in table.names}
    found = next((by_lower[name] for name in names if name in by_lower), None)
    if found is None and is_required:
        allowed = ", ".join(repr(name) for name in names if name)
        raise table.error(f"there is no column {allowed}; available: {', '.join(table.names)}")
    return found


def _read_cells(table: Table, column: str, strip: bool) -> np.ndarray:
    cells = table.cells(column, strip)
    table.refuse(np.char.strip(cells) == "", f"{column or 'the id'} is blank")
    return cells


def _restore_ids(ids: np.ndarray) -> np.ndarray:
    """Return ids as they were before `files.replace_csv` neutralised those that are formulas.

    A file in which an id is still a formula was written by something else, and is left as it is.
    """
    cells = ids.tolist()
    if not any(cell.startswith("'") for cell in cells) or any(map(is_formula, cells)):
        return ids
    return np.array([restore_cell(cell) for cell in cells])


def _refuse_repeated_ids(table: Table, ids: np.ndarray) -> None:
    first: dict[str, int] = {}
    is_repeated = [first.setdefault(name, row) != row for row, name in enumerate(ids.tolist())]

    def describe(row: int) -> str:
        name = str(ids[row])
        return f"the id {name!r} is already in {table.short_row(first[name])}; ids must be unique"

    table.refuse(np.array(is_repeated, dtype=bool), describe)
