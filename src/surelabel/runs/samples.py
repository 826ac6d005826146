"""Class probabilities as samples.parquet stores them.

Rows over few classes are stored whole, as lists in the column NAME. For many classes only the
largest values are stored, in NAME, and the classes they belong to in NAME_classes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from surelabel.errors import RunError

SOFT_COLUMNS = ("target", "probability")
"""Columns with a value for every class."""
MEAN_PROBABILITY = "mean_probability"
"""The mean of `probability` over training, NaN for held-out rows; not in runs whose table of all
rows and classes would be large."""
TRUE_CLASS = "true_class"
"""The class of a row by all evidence, in runs with a second opinion."""
OPTIONAL_COLUMNS = (MEAN_PROBABILITY, TRUE_CLASS)
DENSE_UP_TO = 32
"""Rows over at most this many classes are stored whole."""
NUM_KEPT = 16
"""Classes kept per row beyond that: the given one and the most probable others."""


@dataclass(frozen=True)
class TopK:
    """The k most probable of K classes for N rows; the other classes share the rest equally."""

    classes: np.ndarray
    """(N, k) int32, rising in each row."""
    values: np.ndarray
    """(N, k) float32."""
    num_classes: int

    @classmethod
    def from_dense(cls, rows: np.ndarray, given: np.ndarray, dtype: Any = np.float32) -> "TopK":
        """Keep the (N,) given class and the largest others of (N, K) `rows`; all if K is small."""
        num_rows, num_classes = rows.shape
        if num_classes <= DENSE_UP_TO:
            every = np.broadcast_to(np.arange(num_classes, dtype=np.int32), rows.shape)
            return cls(every, rows.astype(dtype, copy=False), num_classes)
        ranked = np.array(rows, dtype=np.float32)
        ranked[np.arange(num_rows), given] = np.inf
        kept = np.sort(np.argpartition(ranked, -NUM_KEPT, axis=1)[:, -NUM_KEPT:], axis=1).astype(np.int32)
        return cls(kept, np.take_along_axis(rows, kept, axis=1).astype(dtype), num_classes)

    @classmethod
    def from_table(cls, table: Any, name: str, num_classes: int) -> "TopK":
        """Read a column of an arrow table."""
        values, classes = _read_lists(table, name), _read_lists(table, f"{name}_classes")
        if values is None or (classes is None and values.shape[1] != num_classes):
            raise RunError(f"samples.parquet: not readable: it holds no {name} of {num_classes} classes")
        if classes is None:
            classes = np.broadcast_to(np.arange(num_classes, dtype=np.int32), values.shape)
        return cls(classes, values, num_classes)

    @classmethod
    def concatenate(cls, parts: Iterable["TopK"]) -> "TopK":
        """Put the rows of several tables over the same classes below each other."""
        parts = list(parts)
        classes, values = (np.concatenate([getattr(part, name) for part in parts]) for name in ("classes", "values"))
        return cls(classes, values, parts[0].num_classes)

    def for_rows(self, num_rows: int) -> "TopK":
        """Return a table like this one for more rows, to be filled by `set_rows`."""
        classes = self.classes
        if classes.shape[1] == self.num_classes:  # the same in every row
            every = np.broadcast_to(classes[:1], (num_rows, self.num_classes))
        else:
            every = np.empty((num_rows, classes.shape[1]), dtype=classes.dtype)
        return TopK(every, np.empty((num_rows, classes.shape[1]), dtype=self.values.dtype), self.num_classes)

    def set_rows(self, rows: slice, part: "TopK") -> None:
        """Fill rows of a table that `for_rows` made with those of another."""
        if self.classes.flags.writeable:
            self.classes[rows] = part.classes
        self.values[rows] = part.values

    def __len__(self) -> int:
        return len(self.classes)

    def to_columns(self, name: str) -> dict[str, np.ndarray]:
        """Return the columns of samples.parquet that hold these rows."""
        is_whole = self.classes.shape[1] == self.num_classes
        return {name: self.values} if is_whole else {name: self.values, f"{name}_classes": self.classes}

    def argmax(self) -> np.ndarray:
        """Return the (N,) most probable classes."""
        best: np.ndarray = self.classes[np.arange(len(self)), self.values.argmax(1)]
        return best

    def dense(self, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return (n, K) float32 rows; ask for a slice where N x K would not fit into memory."""
        classes, values = self.classes[rows], self.values[rows]
        if classes.shape[1] == self.num_classes:
            return values
        rest = np.maximum(1 - values.sum(1, keepdims=True), 0) / (self.num_classes - classes.shape[1])
        full = np.repeat(rest, self.num_classes, axis=1)
        np.put_along_axis(full, classes, values, axis=1)
        return full


def _read_lists(table: Any, name: str) -> np.ndarray | None:
    """Return a column of lists of equal length as (N, k); None if the table does not have it."""
    if name not in table.column_names:
        return None
    values: np.ndarray = table[name].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(table), -1)
