"""Images that a table names or holds: a column of paths, of bytes, or of {bytes, path}."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surelabel.data.images.load import ArrowBytes, Blobs, Encoded, Files
from surelabel.data.sources.checks import download_stores, resolve_inside
from surelabel.data.sources.tables.columns import holds_bytes
from surelabel.data.sources.tables.table import Fault, Table
from surelabel.errors import DataError


@dataclass(frozen=True)
class TableImages:
    """The images of a table's rows: either paths (N,) str as written, or a column of bytes."""

    table: Table
    column: str
    root: Path
    """What paths are relative to, and must not lead out of."""
    paths: np.ndarray | None
    blobs: Any = None

    @classmethod
    def of(cls, table: Table, column: str, root: str | None = None) -> "TableImages":
        """Tell paths from bytes by the column's type; a struct without any bytes means paths.

        `root` is that of the settings; None is the folder of the table.
        """
        values, folder = table[column], table.folder if root is None else Path(root)
        if not holds_bytes(values.type):
            return cls(table, column, folder, table.cells(column))
        if not pa.types.is_struct(values.type):
            return cls(table, column, folder, None, values)
        blobs = pc.struct_field(values, "bytes")
        if blobs.null_count < len(blobs) or values.type.get_field_index("path") < 0:
            return cls(table, column, folder, None, blobs)
        inner = pa.table({column: pc.struct_field(values, "path")})
        return cls(table, column, folder, Table(inner, table.where).cells(column))

    def missing(self) -> Fault:
        """Find the rows whose cell is blank or whose file does not exist."""
        if self.paths is None:
            return self.blobs.is_null().to_numpy(), lambda _: f"{self.column} is blank; expected an image"
        is_missing = [not (path and file.is_file()) for path, file in zip(self.paths, self.files, strict=True)]
        return np.array(is_missing, dtype=bool), self._complaint

    def _complaint(self, row: int) -> str:
        assert self.paths is not None
        named = self.paths[row]
        return f"no image {self.files[row]}, which {self.column} names" if named else f"{self.column} is blank"

    def encoded(self) -> Encoded:
        """Return the images, ready to be decoded."""
        if self.paths is None:
            return Blobs(ArrowBytes(self.blobs), RowNames(self.table))
        return Files(self.files, self.root)

    @functools.cached_property
    def files(self) -> list[Path]:
        """The files that the paths name; a path that leads out of the root is refused."""
        assert self.paths is not None
        if not self.root.is_dir():
            raise DataError(f"{self.root}: no such folder, which data.image_root names")
        stores = download_stores(self.root)
        check = functools.cache(lambda path: resolve_inside(path, self.root, stores))
        files = [self.root / str(path) for path in self.paths]
        for row, file in enumerate(files):
            try:
                # Most files share few folders; only links and .. need a look of their own.
                if self.paths[row] and "\0" not in file.name:
                    check(file if file.name == ".." or file.is_symlink() else file.parent)
            except DataError:
                raise DataError(
                    f"{self.table.row(row)}: {self.column} names {self.paths[row]}, which leads out of {self.root}, or "
                    "nowhere; data.image_root names the folder that pictures may come from"
                ) from None
        return files


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
