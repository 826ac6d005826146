"""Frames of pandas, polars and others that can be handed over as an arrow table; their columns are as a table's.

Rows are named as in a table, and without an id column by the frame's index where that is unique.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from surelabel.config import DataConfig
from surelabel.data.inputs import Shape
from surelabel.data.sources.interface import Parts
from surelabel.data.sources.tables.columns import roles_of
from surelabel.data.sources.tables.rows import Part, parts_of
from surelabel.data.sources.tables.table import Table
from surelabel.errors import DataError

KIND = "a pandas frame"


def accepts(data: Any) -> bool:
    """Columns with names, or the arrow protocol."""
    return not isinstance(data, type) and (hasattr(data, "__arrow_c_stream__") or _is_pandas(data))


def describe(_data: Any) -> str:
    """What stands for the data in a configuration."""
    return "<frame>"


def read(data: Any, config: DataConfig, shape: Shape | None = None) -> Parts:
    """The rows of the frame; a column `split` divides them."""
    table = Table(_table(data), "<frame>", ids=_index(data))
    return parts_of(Part(table, roles_of(table, config, is_test=shape is not None)), config, shape)


def _is_pandas(data: Any) -> bool:
    return all(hasattr(data, name) for name in ("columns", "index", "dtypes", "iloc"))


def _table(data: Any) -> pa.Table:
    try:
        if _is_pandas(data):
            return pa.Table.from_pandas(data, preserve_index=False)
        return _without_views(pa.table(data))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"<frame>: a column holds what no table can hold ({' '.join(str(error).split())})") from None


def _without_views(table: pa.Table) -> pa.Table:
    """With the usual kinds of text and bytes, for polars has a newer one."""
    usual = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
    return table.cast(pa.schema([field.with_type(usual.get(str(field.type), field.type)) for field in table.schema]))


def _index(data: Any) -> np.ndarray | None:
    """(N,) str: names of the rows, if no two are equal."""
    if not _is_pandas(data):
        return None
    names = np.array([str(name) for name in data.index], dtype=np.str_)
    return names if len(np.unique(names)) == len(names) else None
