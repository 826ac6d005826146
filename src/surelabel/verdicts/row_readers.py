"""Tables whose rows are computed when they are read, where all of them would fill the memory."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

WHOLE_VALUES = 2**26
"""Tables of up to this many values are computed at once and kept."""
CHUNK_VALUES = 2**22
"""Values of a larger one that are looked at together."""


class RowReader(Protocol):
    """Gives (n, K) values for n rows: an array does, and what computes rows when they are read."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows and of columns."""

    def __getitem__(self, rows: Any, /) -> Array:
        """Return the rows of a slice, or at (n,) positions."""


def row_slices(num_rows: int, num_columns: int, whole: int | None = None) -> Iterator[slice]:
    """Yield slices that cover all rows: a single one if there are at most `whole` values."""
    whole = WHOLE_VALUES if whole is None else whole
    size = max(1, num_rows if num_rows * num_columns <= whole else CHUNK_VALUES // num_columns)
    return (slice(start, min(start + size, num_rows)) for start in range(0, num_rows, size))


def to_array(table: RowReader, width: int = 0, whole: int | None = None) -> RowReader:
    """Return a table as an array if it is small, and else as it is.

    Its rows are computed in chunks if what they come from, with `width` columns, is not small.
    """
    num_rows, num_columns = table.shape
    if num_rows * num_columns > WHOLE_VALUES:
        return table
    first, *others = row_slices(num_rows, max(width, num_columns), whole)
    if not others:
        return table[:]
    found = np.empty(table.shape, dtype=np.float32)
    for rows in (first, *others):
        found[rows] = table[rows]
    return found
