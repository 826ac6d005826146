"""A table in memory, whatever it came from, with the words to complain about its rows."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surelabel.errors import DataError


@dataclass(frozen=True)
class Table:
    """Columns of equal length."""

    arrow: pa.Table
    where: str
    """The file, or what stands for a Python object."""
    folder: Path = field(default_factory=Path)
    """What paths of images are relative to."""
    called: Callable[[int], str] | None = None
    """What a person calls the row at a position of the whole table; None counts from 0."""
    class_names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of columns whose whole numbers stand for classes."""
    ids: np.ndarray | None = None
    """(N,) str: names of the rows that are in no column."""
    is_typed: bool = True
    """Whether the types of columns mean something; in a CSV all is text."""
    positions: np.ndarray | None = None
    """(n,) of the rows in the whole table; None is all."""

    def __len__(self) -> int:
        return self.arrow.num_rows

    @property
    def names(self) -> list[str]:
        """Of the columns, in their order."""
        return list(self.arrow.column_names)

    def __getitem__(self, column: str) -> Any:
        """A column, as an arrow array in chunks."""
        return self.arrow.column(column)

    def cells(self, column: str, strip: bool = True) -> np.ndarray:
        """(N,) str: a column of text, numbers or dates as text; missing is blank."""
        values = self[column]
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        try:
            values = pc.fill_null(values.cast(pa.large_string()), "")
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise self.error(
                f"the column {column!r} has the type {values.type}; expected text or whole numbers"
            ) from None
        stripped = pc.utf8_trim_whitespace(values) if strip else values
        return stripped.to_numpy().astype(np.str_)

    def where_true(self, mask: np.ndarray) -> "Table":
        """The rows that `mask` (N,) marks, which keep their numbers."""
        if mask.all():
            return self
        return replace(
            self,
            arrow=self.arrow.filter(pa.array(mask)),
            ids=None if self.ids is None else self.ids[mask],
            positions=self.places[mask],
        )

    @property
    def places(self) -> np.ndarray:
        """(N,) where the rows stand in the whole table."""
        return np.arange(len(self)) if self.positions is None else self.positions

    def row(self, position: int) -> str:
        """What to call a row in messages."""
        place = position if self.positions is None else int(self.positions[position])
        return f"{self.where}, row {place}" if self.called is None else self.called(place)

    def row_name(self, position: int) -> str:
        """Return what to call a row where the table is already named."""
        return self.row(position).removeprefix(f"{self.where}, ")

    def error(self, text: str) -> DataError:
        """An error about the whole table."""
        return DataError(f"{self.where}: {text}")

    def refuse(self, is_bad: np.ndarray, complaint: str | Callable[[int], str], hint: str = "") -> None:
        """An error for the first bad row that says how many more there are."""
        bad = np.flatnonzero(is_bad)
        if len(bad):
            more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
            text = complaint if isinstance(complaint, str) else complaint(int(bad[0]))
            raise DataError(f"{self.row(bad[0])}: {text}{more}{hint}")
