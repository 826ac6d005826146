"""Data sets of the package `datasets`, which is never imported: their arrow table is read.

Image columns are {bytes, path}, and ClassLabel columns have the names of their classes. A
DatasetDict is a mapping with train and test, which `objects` takes apart.
"""

from typing import Any

import pyarrow as pa

from surelabel.config import DataConfig
from surelabel.data.inputs import Shape
from surelabel.data.sources.interface import Parts
from surelabel.data.sources.labels import name_classes
from surelabel.data.sources.tables.columns import find_roles
from surelabel.data.sources.tables.rows import TablePart, make_parts
from surelabel.data.sources.tables.table import Table
from surelabel.errors import DataError

KIND = "a data set of the `datasets` package"


def accepts(data: Any) -> bool:
    """Return whether `data` has the attributes of a Dataset: the package may not be installed."""
    return hasattr(data, "features") and hasattr(data, "data") and hasattr(data, "with_format")


def describe(data: Any) -> str:
    """Return the placeholder for the data in a configuration."""
    name = getattr(getattr(data, "info", None), "dataset_name", None)
    return f"<dataset {name or type(data).__name__}>"


def read(data: Any, config: DataConfig, shape: Shape | None = None) -> Parts:
    """Read the rows of the table; a column `split` divides them."""
    table = Table(_to_arrow(data), describe(data), class_names=_class_names(data))
    return make_parts(TablePart(table, find_roles(table, config, is_test=shape is not None)), config, shape)


def _to_arrow(data: Any) -> pa.Table:
    """Return all rows in the order of the object: selecting and shuffling have been applied."""
    table = data.with_format("arrow")[:]
    if not isinstance(table, pa.Table):
        raise DataError(
            f"{describe(data)}: expected an arrow table, got {type(table).__name__}; "
            "try surelabel.fit(dataset.to_pandas())"
        )
    return table


def _class_names(data: Any) -> dict[str, tuple[str, ...]]:
    features = dict(data.features or {})
    named = {column: getattr(feature, "names", None) for column, feature in features.items()}
    return {column: name_classes(names, f"{describe(data)}: {column}") for column, names in named.items() if names}
