"""Images that a table names or holds: a column of paths, of bytes, or of {bytes, path}."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surelabel.data.images.load import ArrowBytes, Blobs, Encoded, Files
from surelabel.data.sources.tables.columns import holds_bytes
from surelabel.data.sources.tables.table import Fault, Table


@dataclass(frozen=True)
class TableImages:
    """The images of a table's rows: either paths (N,) str as written, or a column of bytes."""

    table: Table
    column: str
    paths: np.ndarray | None
    blobs: Any = None

    @classmethod
    def of(cls, table: Table, column: str) -> "TableImages":
        """Tell paths from bytes by the column's type; a struct without any bytes means paths."""
        values = table[column]
        if not holds_bytes(values.type):
            return cls(table, column, table.cells(column))
        if not pa.types.is_struct(values.type):
            return cls(table, column, None, values)
        blobs = pc.struct_field(values, "bytes")
        if blobs.null_count < len(blobs) or values.type.get_field_index("path") < 0:
            return cls(table, column, None, blobs)
        inner = pa.table({column: pc.struct_field(values, "path")})
        return cls(table, column, Table(inner, table.where).cells(column))

    def missing(self) -> Fault:
        """Find the rows whose cell is blank or whose file does not exist."""
        if self.paths is None:
            return self.blobs.is_null().to_numpy(), lambda _: f"{self.column} is blank; expected an image"
        is_missing = np.array([not (path and (self.table.folder / path).is_file()) for path in self.paths], dtype=bool)
        return is_missing, self._complaint

    def _complaint(self, row: int) -> str:
        assert self.paths is not None
        return (
            f"no image {self._file(row)}, which {self.column} names" if self.paths[row] else f"{self.column} is blank"
        )

    def encoded(self) -> Encoded:
        """Return the images, ready to be decoded."""
        if self.paths is None:
            return Blobs(ArrowBytes(self.blobs), RowNames(self.table))
        return Files([self._file(row) for row in range(len(self.paths))])

    def _file(self, row: int) -> Path:
        assert self.paths is not None
        return self.table.folder / str(self.paths[row])


class RowNames(Sequence[str]):
    """What to call the rows of a table in messages, made on demand."""

    def __init__(self, table: Table) -> None:
        # Without its columns: worker processes get a copy of this.
        self._length, self._table = len(table), replace(table, arrow=table.arrow.select([]))

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> list[str]: ...
    def __getitem__(self, position: int | slice) -> str | list[str]:
        if isinstance(position, slice):
            return [self[one] for one in range(*position.indices(len(self)))]
        return self._table.row(int(position))
