"""A table of named columns, convertible to rows, csv, arrow and pandas."""

import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.errors import missing_package
from surelabel.files import replace_csv


class Table:
    """Columns of equal length, by name."""

    def __init__(self, columns: dict[str, np.ndarray]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns["id"])

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Return a row of the table as plain values, by column."""
        at = operator.index(row)
        return {name: np.asarray(values[at]).item() for name, values in self.columns.items()}

    def head(self, count: int) -> Iterator[dict[str, Any]]:
        """Yield the first `count` rows."""
        return map(self.__getitem__, range(min(count, len(self))))

    def to_csv(self, path: str | Path) -> None:
        """Write the whole table as csv, numbers with six digits and unknown ones empty."""
        replace_csv(Path(path), self.columns, zip(*map(_cells, self.columns.values()), strict=True))

    @property
    def table(self) -> Any:
        """The same as an arrow table; unknown values are null."""
        import pyarrow as pa

        return pa.table({name: pa.array(_plain(values), from_pandas=True) for name, values in self.columns.items()})

    def to_frame(self) -> Any:
        """Return the same as a pandas DataFrame."""
        try:
            import pandas as pd
        except ImportError:
            raise missing_package("to_frame()", "pandas", "interop") from None
        return pd.DataFrame({name: _plain(values) for name, values in self.columns.items()})


def _plain(values: np.ndarray) -> Any:
    return values.tolist() if values.dtype.kind == "U" else values


def _cells(values: np.ndarray) -> list[Any]:
    """Return a column as csv shows it."""
    if values.dtype.kind == "f":
        return ["" if value != value else f"{value:.6g}" for value in values.tolist()]
    return list(values.tolist())
