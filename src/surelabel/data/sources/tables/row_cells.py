"""Read all columns of a table again, to show rows as the user knows them."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from surelabel.config import DataConfig
from surelabel.data.sources.tables import csv_file, parquet_file, parquet_folder, table_file
from surelabel.data.sources.tables.columns import Roles, find_roles, holds_bytes, reveals_label
from surelabel.data.sources.tables.rows import TablePart, row_ids
from surelabel.data.sources.tables.table import Table

MOST_CHARACTERS = 10_000
"""Characters of a cell that are shown."""


@dataclass(frozen=True)
class RowCells:
    """The cells of a table's rows, found by id."""

    table: Table
    columns: tuple[str, ...]
    """Columns to show: that of the text first, and none that tells the label."""
    position: dict[str, int]

    def find(self, row_id: str) -> list[tuple[str, str]]:
        """Return the names and cells of a row; none if the table has no such row."""
        at = self.position.get(row_id)
        return [] if at is None else [(name, _show(self.table[name][at].as_py())) for name in self.columns]


def read_row_cells(config: DataConfig) -> RowCells | None:
    """Read the table that `config` names; None if it names none, or one that holds images."""
    part = _read_table(config)
    if part is None or (part.roles.image is not None and holds_bytes(part.table[part.roles.image].type)):
        return None
    ids = row_ids(part).tolist()
    return RowCells(part.table, part.roles.shown, {str(name): at for at, name in enumerate(ids)})


def read_texts(config: DataConfig) -> dict[str, str] | None:
    """Return the text of each row of a table by id; None if its inputs are not texts."""
    part = _read_table(config)
    if part is None or part.roles.text is None:
        return None
    texts = (str(cell.as_py() or "") for cell in part.table[part.roles.text])
    return {str(name): text for name, text in zip(row_ids(part).tolist(), texts, strict=True)}


def _read_table(config: DataConfig) -> TablePart | None:
    roles = partial(_find_all_columns, config=config)
    if parquet_folder.accepts(config.source):
        return parquet_folder.read_training_files(config, roles)
    if not table_file.accepts(config.source):
        return None
    if Path(config.source).suffix.lower() == parquet_file.SUFFIX:
        return parquet_file.read_parquet([Path(config.source)], config.source, roles)
    table = csv_file.read_csv(config.source)
    return TablePart(table, roles(table))


def _find_all_columns(table: Table, config: DataConfig) -> Roles:
    """Add the columns to show to the others, unless they are bytes or tell the label."""
    roles = find_roles(table, config, needs_label=False)
    hidden = {roles.label, roles.clean, roles.split, roles.id}
    shown = [
        name
        for name in table.names
        if name not in hidden and not holds_bytes(table[name].type) and not reveals_label(name, table, table.names)
    ]
    return replace(roles, shown=tuple(sorted(shown, key=lambda name: name != roles.text)))


def _show(cell: Any) -> str:
    text = "" if cell is None else str(cell)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} ..."
