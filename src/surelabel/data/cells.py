"""Inputs that are cells of a table, such as text, until an encoder turns them into features."""

import hashlib
import json
from typing import Any

import numpy as np
import pyarrow as pa

from surelabel.data.encodable import Encodable, Encoder
from surelabel.data.inputs import HASH_BYTES

NO_COLUMN = ""
"""What the column is called if the text comes from no table."""
_ROWS_AT_ONCE = 4096


class Cells(Encodable):
    """N rows of cells, which are encoded when rows are asked for.

    Either a single column of text, or columns of which some are numbers and the others
    `categories`.
    """

    def __init__(
        self,
        arrow: pa.Table,
        categories: tuple[str, ...] = (),
        *,
        is_text: bool = False,
        encoder: Encoder | None = None,
    ) -> None:
        super().__init__(arrow.num_rows, encoder)
        self.arrow, self.categories, self.is_text = arrow, categories, is_text

    @classmethod
    def of_texts(cls, texts: Any, column: str = NO_COLUMN) -> "Cells":
        """Hold N texts, as an arrow array or a sequence of str."""
        known = texts if isinstance(texts, pa.Array | pa.ChunkedArray) else pa.array(texts, pa.large_string())
        return cls(pa.table({column: known}), is_text=True)

    @property
    def is_in_memory(self) -> bool:
        """Cells are in memory, if not as features."""
        return True

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.arrow.column_names)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of data with which another table is read like this one."""
        if self.is_text:
            return {} if self.columns[0] == NO_COLUMN else {"text_column": self.columns[0]}
        return {"feature_columns": self.columns, "category_columns": self.categories}

    def texts(self, positions: np.ndarray) -> list[str]:
        """Return the text of some rows; only for cells that are text."""
        found: list[str] = self.arrow.column(0).take(pa.array(positions)).to_pylist()
        return found

    def content(self, positions: np.ndarray) -> pa.Table:
        """Return the cells of some rows, for an encoder."""
        return self.arrow.take(pa.array(np.asarray(positions, dtype=np.int64)))

    def subset(self, positions: np.ndarray) -> "Cells":
        """Return the rows at `positions`."""
        return Cells(self.content(positions), self.categories, is_text=self.is_text, encoder=self.encoder)

    def with_encoder(self, encoder: Encoder) -> "Cells":
        """Return the same rows with the encoder that makes features of them."""
        return Cells(self.arrow, self.categories, is_text=self.is_text, encoder=encoder)

    def hashes(self) -> list[bytes]:
        """Hash each row."""
        columns = [column.to_pylist() for column in self.arrow.itercolumns()]
        rows = zip(*columns, strict=True)
        return [hashlib.blake2b(json.dumps(row, default=str).encode(), digest_size=HASH_BYTES).digest() for row in rows]

    def digest(self) -> str:
        """Hash the cells: features may differ in their last digits on another machine."""
        digest = hashlib.sha256(json.dumps([self.is_text, self.categories, self.columns]).encode())
        for start in range(0, len(self), _ROWS_AT_ONCE):
            for column in self.arrow.slice(start, _ROWS_AT_ONCE).itercolumns():
                digest.update(json.dumps(column.to_pylist(), default=str).encode())
        return digest.hexdigest()
