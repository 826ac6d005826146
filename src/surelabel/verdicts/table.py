"""Columns of equal length, as they are wanted elsewhere: rows, csv, arrow, pandas."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.errors import ConfigError
from surelabel.files import replace_csv


class Table:
    """Named columns."""

    def __init__(self, columns: dict[str, np.ndarray]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns["id"])

    def head(self, count: int) -> Iterator[dict[str, Any]]:
        """The first `count` rows."""
        for row in range(min(count, len(self))):
            yield {name: values[row] for name, values in self.columns.items()}

    def to_csv(self, path: str | Path) -> None:
        """Write the whole table as csv; class names as they are, numbers with six digits."""
        rows = ([_cell(value) for value in row.values()] for row in self.head(len(self)))
        replace_csv(Path(path), self.columns, rows)

    @property
    def table(self) -> Any:
        """As an arrow table; what is unknown is null."""
        import pyarrow as pa

        return pa.table({name: pa.array(_plain(values), from_pandas=True) for name, values in self.columns.items()})

    def to_frame(self) -> Any:
        """As a pandas DataFrame."""
        try:
            import pandas as pd
        except ImportError:
            raise ConfigError("to_frame() needs pandas; install it with: pip install pandas") from None
        return pd.DataFrame({name: _plain(values) for name, values in self.columns.items()})


def _plain(values: np.ndarray) -> Any:
    return values.tolist() if values.dtype.kind == "U" else values


def _cell(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.6g}"
    return value
