"""Inputs that are cells of a table, such as text, until an encoder turns them into features."""

import hashlib
import json
import logging
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from surelabel.data import cache
from surelabel.data.inputs import LazyInputs, Shape

_log = logging.getLogger("surelabel")

UNENCODED: Shape = (0,)
"""The shape of a row of cells that has no encoder yet."""
NO_COLUMN = ""
"""What the column is called if the text comes from no table."""
_ROWS_AT_ONCE = 4096


class Encoder(Protocol):
    """Turns cells into features."""

    @property
    def num_features(self) -> int:
        """D."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the D features, if they have any."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""

    @property
    def has_term_weights(self) -> bool:
        """Whether the features are weights of terms, or made of them."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of data with which a table is read for it."""

    @property
    def cache_key(self) -> str | None:
        """What identifies its features in the cache, besides the cells; None if it is fast."""

    def encode(self, cells: pa.Table) -> np.ndarray:
        """Return the features (N, D) float32 of the cells."""

    def describe(self) -> dict[str, Any]:
        """Return what JSON can hold of it."""

    def tensors(self) -> Mapping[str, Tensor]:
        """Return the rest."""


class Cells(LazyInputs):
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
        self.arrow, self.categories, self.is_text, self.encoder = arrow, categories, is_text, encoder
        width = UNENCODED if encoder is None else (encoder.num_features,)
        self.shape, self.dtype = (arrow.num_rows, *width), torch.float32

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

    def __getitem__(self, index: Tensor) -> Tensor:
        if self.encoder is not None and self.encoder.cache_key is not None:
            return self.features()[index.cpu()]
        return torch.from_numpy(self._encode(self.arrow.take(pa.array(index.cpu().numpy()))))

    def _encode(self, arrow: pa.Table) -> np.ndarray:
        assert self.encoder is not None
        return self.encoder.encode(arrow)

    def subset(self, positions: np.ndarray) -> "Cells":
        """Return the rows at `positions`."""
        arrow = self.arrow.take(pa.array(np.asarray(positions, dtype=np.int64)))
        return Cells(arrow, self.categories, is_text=self.is_text, encoder=self.encoder)

    def with_encoder(self, encoder: Encoder) -> "Cells":
        """Return the same rows with the encoder that makes features of them."""
        return Cells(self.arrow, self.categories, is_text=self.is_text, encoder=encoder)

    def features(self) -> Tensor:
        """Encode all rows, some at a time; slow encoders only once, for the cache."""
        assert self.encoder is not None
        key = self.encoder.cache_key
        if key is None:
            out = np.empty(self.shape, dtype=np.float32)
            self._fill(out)
            return torch.from_numpy(out)
        found = cache.load_or_fill(
            cache.make_key("text", key, self.digest()), self.shape, np.float32, self._fill_and_say
        )
        return torch.from_numpy(np.array(found))

    def _fill_and_say(self, out: np.ndarray) -> None:
        _log.info("encoding %d texts, once; their features are kept in %s", len(self), cache.folder())
        self._fill(out)

    def _fill(self, out: np.ndarray) -> None:
        for start in range(0, len(self), _ROWS_AT_ONCE):
            out[start : start + _ROWS_AT_ONCE] = self._encode(self.arrow.slice(start, _ROWS_AT_ONCE))

    def digest(self) -> str:
        """Hash the cells: features may differ in their last digits on another machine."""
        digest = hashlib.sha256(json.dumps([self.is_text, self.categories, self.columns]).encode())
        for start in range(0, len(self), _ROWS_AT_ONCE):
            for column in self.arrow.slice(start, _ROWS_AT_ONCE).itercolumns():
                digest.update(json.dumps(column.to_pylist(), default=str).encode())
        return digest.hexdigest()
