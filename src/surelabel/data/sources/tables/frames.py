"""Data frames of pandas, polars and others that can be converted to an arrow table.

Their columns are found like those of a table file. Rows without an id column are named by the
frame's index, if its values are unique.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from surelabel.config import DataConfig, shorten
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.interface import Parts
from surelabel.data.sources.tables.columns import find_roles
from surelabel.data.sources.tables.rows import TablePart, make_inputs, make_parts
from surelabel.data.sources.tables.table import Table
from surelabel.errors import DataError

KIND = "a pandas frame"

_MISSING = ("None", "nan", "<NA>")


def accepts(data: Any) -> bool:
    """Return whether `data` is a pandas frame, or supports the arrow protocol."""
    return not isinstance(data, type) and (hasattr(data, "__arrow_c_stream__") or _is_pandas(data))


def describe(_data: Any) -> str:
    """Return the placeholder for the data in a configuration."""
    return "<frame>"


def read(data: Any, config: DataConfig, shape: Shape | None = None) -> Parts:
    """Read the rows of the frame; a column `split` divides them."""
    table = Table(_to_arrow(data), "<frame>", ids=_index(data))
    return make_parts(TablePart(table, find_roles(table, config, is_test=shape is not None)), config, shape)


def read_inputs(data: Any, config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """Read the inputs of the frame and their ids; a label column is not needed."""
    table = Table(_to_arrow(data), "<frame>", ids=_index(data))
    return make_inputs(TablePart(table, find_roles(table, config, needs_label=False)), config, shape)


def _is_pandas(data: Any) -> bool:
    return all(hasattr(data, name) for name in ("columns", "index", "dtypes", "iloc"))


def _to_arrow(data: Any) -> pa.Table:
    try:
        if _is_pandas(data):
            return pa.Table.from_pandas(data, preserve_index=False)
        return _without_views(pa.table(data))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        fault = f"a column has values that a table cannot hold ({' '.join(str(error).split())})"
        raise DataError(f"<frame>: {_find_misfit(data) or fault}") from None


def _find_misfit(data: Any) -> str | None:
    """Return the first value in a pandas frame that is not like those above it, or is too large."""
    for name in data.columns if _is_pandas(data) and data.columns.is_unique else ():
        filled = [one for one in enumerate(data[name]) if data[name].dtype == object and str(one[1]) not in _MISSING]
        for row, value in filled:
            first = filled[0][1]
            is_large = isinstance(value, int) and abs(value) >= 2**63
            if type(value) is not type(first) or is_large:
                rule = "a column has whole numbers below 2^63" if is_large else f"others are {type(first).__name__}"
                return f"row {row}: {name} is {shorten(repr(value))}; {rule}"
    return None


def _without_views(table: pa.Table) -> pa.Table:
    """Convert the string views and binary views of polars to plain text and bytes."""
    plain = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
    return table.cast(pa.schema([field.with_type(plain.get(str(field.type), field.type)) for field in table.schema]))


def _index(data: Any) -> np.ndarray | None:
    """Return the index (N,) of a pandas frame as str, if its values are unique."""
    if not _is_pandas(data):
        return None
    names = np.array([str(name) for name in data.index], dtype=np.str_)
    return names if len(np.unique(names)) == len(names) else None
