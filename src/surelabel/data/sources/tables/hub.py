"""Objects of the `datasets` package, which is never imported here: a Dataset, read through its arrow table.

Image columns are {bytes, path}, and ClassLabel columns have the names of their classes. A DatasetDict is a mapping with
train and test, which objects.py takes apart.
"""

from typing import Any

import pyarrow as pa

from surelabel.config import DataConfig
from surelabel.data.inputs import Shape
from surelabel.data.sources.interface import Parts
from surelabel.data.sources.tables.columns import roles_of
from surelabel.data.sources.tables.rows import Part, parts_of
from surelabel.data.sources.tables.table import Table
from surelabel.errors import DataError

KIND = "a data set of the `datasets` package"


def accepts(data: Any) -> bool:
    """By what it has, since the package need not be there."""
    return hasattr(data, "features") and hasattr(data, "data") and hasattr(data, "with_format")


def describe(data: Any) -> str:
    """What stands for the data in a configuration."""
    return f"<dataset {_name(data)}>"


def read(data: Any, config: DataConfig, shape: Shape | None = None) -> Parts:
    """The rows of the table; a column `split` divides them."""
    table = Table(_table(data), describe(data), class_names=_class_names(data))
    return parts_of(Part(table, roles_of(table, config, is_test=shape is not None)), config, shape)


def _name(data: Any) -> str:
    found = getattr(getattr(data, "info", None), "dataset_name", None)
    return str(found or type(data).__name__)


def _table(data: Any) -> pa.Table:
    """All rows, in the order in which the object has them: a selection or a shuffle is applied."""
    table = data.with_format("arrow")[:]
    if not isinstance(table, pa.Table):
        raise DataError(
            f"{describe(data)}: gives no arrow table but {type(table).__name__}; try surelabel.fit(dataset.to_pandas())"
        )
    return table


def _class_names(data: Any) -> dict[str, tuple[str, ...]]:
    features = dict(data.features or {})
    named = {column: getattr(feature, "names", None) for column, feature in features.items()}
    return {column: tuple(map(str, names)) for column, names in named.items() if names}
