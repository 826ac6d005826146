"""The tables of a run, labels.parquet and samples.parquet: which columns they have, and of what.

A table is checked once, when it is read: who sends a run may have edited it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from surelabel.runs.samples import OPTIONAL_COLUMNS, SOFT_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

ROW = "row"
"""Column with the positions of the rows in the user's data, counted from 0."""
LABEL_TEXTS = ("id", "split")
TEXTS = ("id", "split", "verdict")
CLASSES = ("given", "prediction", "suggested")
ORIGINAL = "original"
"""Column of a run on the labels of an export: the label before the export replaced it."""
NUMBERS = (
    "suggested_probability",
    "given_probability",
    "mean_given_probability",
    "mean_margin",
    "first_learned",
    "forgotten",
    "tau",
)
"""Columns of numbers that may be unknown."""
TOLERANCE = 1e-3
"""How far rounding may carry a probability beyond 0 or 1."""
FRACTIONS = ("quality", "p_wrong", "p_wrong_low", "p_wrong_high")
"""Columns of numbers from 0 to 1."""
EVIDENCE = ("opinion_odds", "training_odds", "rival", "duplicate_group", "isolation")
"""Columns of numbers that a run may lack."""


def check_labels(table: "pa.Table", data: Mapping[str, Any]) -> None:
    """Raise ValueError unless labels.parquet has the rows and classes of data.json."""
    _check_rows(table, data)
    for name in LABEL_TEXTS:
        _check_texts(table, name)
    _check_classes(table, "given", len(data["class_names"]))
    if _find(table, "clean").null_count < len(table):
        _check_classes(table, "clean", len(data["class_names"]), may_be_unknown=True)


def check_samples(table: "pa.Table", data: Mapping[str, Any]) -> None:
    """Raise ValueError unless samples.parquet has the rows and classes of data.json."""
    _check_rows(table, data)
    num_classes, names = len(data["class_names"]), set(table.column_names)
    for name in TEXTS:
        _check_texts(table, name)
    for name in (*CLASSES, *({ORIGINAL} & names)):
        _check_classes(table, name, num_classes)
    _check_positions(table)
    for name in FRACTIONS:
        _check_fractions(table, name)
    for name in (*NUMBERS, *(name for name in EVIDENCE if name in names)):
        _check_numbers(table, name)
    if "is_outlier" in names:
        _check_outliers(table)
    for name in (*SOFT_COLUMNS, *(name for name in OPTIONAL_COLUMNS if name in names)):
        _check_soft(table, name, num_classes)


def _check_rows(table: "pa.Table", data: Mapping[str, Any]) -> None:
    expected = data["num_train"] + data["num_validation"]
    if len(table) != expected:
        raise ValueError(f"has {len(table):,} rows; expected {expected:,}, as data.json says")


def _find(table: "pa.Table", name: str, may_be_unknown: bool = True) -> "pa.ChunkedArray":
    if name not in table.column_names:
        raise ValueError(f"the column {name} is missing")
    column = table[name]
    if column.null_count and not may_be_unknown:
        raise ValueError(f"{name}: {column.null_count:,} of {len(column):,} values are missing")
    return column


def _check_texts(table: "pa.Table", name: str) -> None:
    import pyarrow as pa

    kind = _find(table, name, may_be_unknown=False).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise ValueError(f"{name}: expected text, got {kind}")


def _check_positions(table: "pa.Table") -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _find(table, ROW, may_be_unknown=False)
    if not pa.types.is_integer(column.type):
        raise ValueError(f"{ROW}: expected positions, got {column.type}")
    if len(table) and pc.min(column).as_py() < 0:
        raise ValueError(f"{ROW}: expected positions from 0, got {pc.min(column)}")
    if pc.count_distinct(column).as_py() < len(table):
        raise ValueError(f"{ROW}: two rows have the same position")


def _check_numbers(table: "pa.Table", name: str, may_be_unknown: bool = True) -> "pa.ChunkedArray":
    import pyarrow as pa

    column = _find(table, name, may_be_unknown)
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise ValueError(f"{name}: expected numbers, got {column.type}")
    return column


def _check_fractions(table: "pa.Table", name: str) -> None:
    import pyarrow.compute as pc

    column = _check_numbers(table, name, may_be_unknown=False)
    if not pc.all(pc.is_finite(column)).as_py():
        raise ValueError(f"{name}: some values are NaN or infinite")
    low, high = pc.min_max(column).as_py().values()
    if low < -TOLERANCE or high > 1 + TOLERANCE:
        raise ValueError(f"{name}: expected numbers from 0 to 1, got {low if low < 0 else high:g}")


def _check_outliers(table: "pa.Table") -> None:
    import pyarrow as pa

    kind = _find(table, "is_outlier", may_be_unknown=False).type
    if not pa.types.is_boolean(kind):
        raise ValueError(f"is_outlier: expected true or false, got {kind}")
    _find(table, "isolation", may_be_unknown=False)


def _check_classes(table: "pa.Table", name: str, num_classes: int, may_be_unknown: bool = False) -> None:
    import pyarrow as pa

    column = _find(table, name, may_be_unknown)
    if not pa.types.is_integer(column.type):
        raise ValueError(f"{name}: expected numbers of classes, got {column.type}")
    _check_range(column, name, num_classes)


def _check_range(column: Any, name: str, num_classes: int) -> None:
    import pyarrow.compute as pc

    low, high = pc.min_max(column).as_py().values()
    if low is not None and (low < 0 or high >= num_classes):
        found = low if low < 0 else high
        raise ValueError(f"{name}: expected classes from 0 to {num_classes - 1}, got {found}")


def _check_soft(table: "pa.Table", name: str, num_classes: int) -> None:
    """Check a column with a list of values in each row, and that with their classes, if any."""
    import pyarrow as pa

    width, values = _read_lists(table, name)
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        raise ValueError(f"{name}: expected numbers, got {values.type}")
    at = f"{name}_classes"
    if at not in table.column_names:
        if width != num_classes:
            raise ValueError(f"{name}: expected values of {num_classes} classes, got {width}")
        return
    num_kept, classes = _read_lists(table, at)
    if num_kept != width or not pa.types.is_integer(classes.type) or classes.null_count:
        raise ValueError(f"{at}: expected the classes of {width} values, got {num_kept} of {classes.type}")
    _check_range(classes, at, num_classes)


def _read_lists(table: "pa.Table", name: str) -> tuple[int, Any]:
    """Return how many values each row of a column has, and all of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _find(table, name, may_be_unknown=False)
    if not any(
        is_kind(column.type) for is_kind in (pa.types.is_fixed_size_list, pa.types.is_list, pa.types.is_large_list)
    ):
        raise ValueError(f"{name}: expected lists of numbers, got {column.type}")
    widths = pc.min_max(pc.list_value_length(column)).as_py()
    if widths["min"] != widths["max"]:
        raise ValueError(f"{name}: expected lists of equal length, got {widths['min']} to {widths['max']}")
    return widths["min"] or 0, pc.list_flatten(column)
