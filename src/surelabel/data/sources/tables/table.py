"""A table in memory, from a file or an object, and the errors about its rows."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surelabel.data.sources.checks import and_more
from surelabel.data.sources.labels import name_labels
from surelabel.errors import DataError

Fault = tuple[np.ndarray, Callable[[int], str]]
"""Which rows (N,) are bad, and what is wrong with one of them."""


@dataclass(frozen=True)
class Table:
    """Named columns of equal length."""

    arrow: pa.Table
    where: str
    """The file, or the placeholder for a Python object."""
    folder: Path = field(default_factory=Path)
    """What paths of images are relative to."""
    name_row: Callable[[int], str] | None = None
    """What to call row i of the whole table in messages; None counts from 0."""
    class_names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The classes that the whole numbers of a column stand for."""
    ids: np.ndarray | None = None
    """(N,) str: names of the rows that are in no column."""
    is_typed: bool = True
    """Whether columns have types; in a CSV file all are text."""
    positions: np.ndarray | None = None
    """(N,) positions of the rows in the whole table; None if these are all its rows."""

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    @property
    def names(self) -> list[str]:
        """The names of the columns, in their order."""
        return list(self.arrow.column_names)

    def __getitem__(self, column: str) -> Any:
        """Return a column as a chunked arrow array."""
        return self.arrow.column(column)

    def cells(self, column: str, strip: bool = True) -> np.ndarray:
        """Return a column (N,) of text, numbers or dates as str; missing cells are blank."""
        values = self.text(column)
        values = pc.utf8_trim_whitespace(values) if strip else values
        return np.asarray(values.to_numpy().astype(np.str_))

    def labels(self, column: str, class_names: tuple[str, ...] | None = None) -> np.ndarray:
        """Return a column (N,) of labels as class names; missing ones are blank."""

        def fail(row: int, text: str) -> DataError:
            return DataError(f"{self.row(row)}: {column} {text}")

        return name_labels(self[column], fail, class_names, may_be_missing=True)

    def text(self, column: str) -> Any:
        """Return a column of text, numbers or dates as an arrow array of text, "" if missing."""
        values = self[column]
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        try:
            return pc.fill_null(values.cast(pa.large_string()), "")
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise self.error(
                f"the column {column!r} has the type {values.type}; expected text or whole numbers"
            ) from None

    def filter(self, mask: np.ndarray) -> "Table":
        """Return the rows that `mask` (N,) marks; they keep their names."""
        if mask.all():
            return self
        return replace(
            self,
            arrow=self.arrow.filter(pa.array(mask)),
            ids=None if self.ids is None else self.ids[mask],
            positions=self.original_positions[mask],
        )

    @property
    def original_positions(self) -> np.ndarray:
        """The positions (N,) of the rows in the whole table."""
        return np.arange(len(self)) if self.positions is None else self.positions

    def row(self, position: int) -> str:
        """Return what to call a row in messages, with the table it is in."""
        original = position if self.positions is None else int(self.positions[position])
        return f"{self.where}, row {original}" if self.name_row is None else self.name_row(original)

    def short_row(self, position: int) -> str:
        """Return what to call a row in messages that already name the table."""
        return self.row(position).removeprefix(f"{self.where}, ")

    def error(self, text: str) -> DataError:
        """Return an error about the whole table."""
        return DataError(f"{self.where}: {text}")

    def refuse(self, is_bad: np.ndarray, complaint: str | Callable[[int], str], hint: str = "") -> None:
        """Raise if a row is bad; the error names the first one and counts the others."""
        bad = np.flatnonzero(is_bad)
        if len(bad):
            text = complaint if isinstance(complaint, str) else complaint(int(bad[0]))
            raise DataError(f"{self.row(bad[0])}: {text}{and_more(len(bad))}{hint}")
