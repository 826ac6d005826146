"""Turn tables into rows: images by path or bytes, text, or numbers, each with its label.

Rows are named by the id column; without one by the path of their image as written, else by their
number, counted from 0. A column `split` says train or test; rows of validation are ignored. Test
rows are measured with their true labels, if a column has them. With `data.unreadable` "skip", rows
without a label or without their image or text are left out and listed.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surelabel.config import DataConfig
from surelabel.data.cells import Cells
from surelabel.data.encodable import UNENCODED
from surelabel.data.images.load import Images, fit_to_shape, load_images
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.array_conversion import as_tensor
from surelabel.data.sources.checks import refuse_lost_classes
from surelabel.data.sources.interface import Parts, Rows
from surelabel.data.sources.tables.columns import Roles
from surelabel.data.sources.tables.features import (
    feature_names,
    find_faults,
    has_missing_numbers,
    is_list,
    is_missing,
    read_features,
    read_numbers,
)
from surelabel.data.sources.tables.images import TableImages
from surelabel.data.sources.tables.table import Fault, Table

_log = logging.getLogger("surelabel")

_VALIDATION = ("validation", "valid", "val", "dev")
_MAX_ROWS_SHOWN = 3
_LEAST_LABELS = 10
"""With fewer labels it is not asked whether they look continuous."""
_MOST_FRACTIONS = 20
"""Different labels that may be numbers with decimal places, such as half stars."""


class TablePart(NamedTuple):
    """A table, or some of its rows, and what its columns are for."""

    table: Table
    roles: Roles

    def filter(self, mask: np.ndarray) -> "TablePart":
        """Return the rows that `mask` (N,) marks."""
        return self._replace(table=self.table.filter(mask))


def make_parts(
    part: TablePart, config: DataConfig, shape: Shape | None = None, tests: Mapping[str, TablePart] | None = None
) -> Parts:
    """Return the training rows, and `tests` or the test rows of the table.

    With a `shape`, the table itself is a test set.
    """
    for note in part.roles.notes:
        _log.warning("%s: %s", part.table.where, note)
    part = _mark_encoded(part, config, shape)
    train, own_test = _split(part)
    if shape is not None and not len(train.table):
        train, own_test = own_test, train
    if not len(train.table):
        raise part.table.error("no rows to train on")
    rows = _rows(train, config, shape, is_test=shape is not None)
    train_shape = tuple(rows.x.shape[1:])
    found = {}
    for name, one in (tests or {}).items():
        found[name] = _rows(_mark_encoded(one, config, train_shape), config, train_shape, True, f"{name}/")
    if not found and len(own_test.table):
        found["test"] = _rows(own_test, config, train_shape, is_test=True)
    is_plain = part.roles.features and not part.roles.is_encoded
    names = feature_names(train.table, part.roles.features) if is_plain else None
    return Parts(rows, found, _class_names(part), feature_names=names)


def settings_like(part: TablePart, config: DataConfig) -> dict[str, Any]:
    """Return the settings with which test files are read like these training rows, if encoded."""
    roles = _mark_encoded(part, config, None).roles
    if roles.text is not None:
        return {"text_column": roles.text}
    return {"feature_columns": roles.features, "category_columns": roles.categories} if roles.is_encoded else {}


def make_inputs(part: TablePart, config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """Return all inputs of the table and their ids."""
    if not len(part.table):
        raise part.table.error("no rows below the header")
    part = _mark_encoded(part, config, shape)
    faults = _input_faults(part, config) if part.roles.text is None else []  # a model predicts blank text too
    part = part.filter(_usable(part, faults, config))
    x, kept, _ = _inputs(part, config, shape)
    return x, row_ids(part)[kept]


def row_ids(part: TablePart, prefix: str = "") -> np.ndarray:
    """Return the ids (N,) str of the rows; `prefix` goes before row numbers."""
    table, roles = part
    if roles.id is not None:
        ids = table.cells(roles.id)
        table.refuse(ids == "", f"{roles.id} is blank")
        return ids
    paths = None if roles.image is None else TableImages.of(table, roles.image).paths
    if paths is not None:
        return paths
    ids = table.original_positions if table.ids is None else table.ids
    return np.char.add(prefix, ids.astype(np.str_))


def _split(part: TablePart) -> tuple[TablePart, TablePart]:
    """Return the training rows and the test rows."""
    table, roles = part
    if roles.split is None:
        return part, part.filter(np.zeros(len(table), dtype=bool))
    split = np.char.lower(table.cells(roles.split))
    known = np.isin(split, ("train", "test", *_VALIDATION))
    table.refuse(~known, lambda row: f"{roles.split} is {str(split[row])!r}; expected train, test or validation")
    return part.filter(split == "train"), part.filter(split == "test")


def _rows(part: TablePart, config: DataConfig, shape: Shape | None, is_test: bool, prefix: str = "") -> Rows:
    names, clean = _labels(part, is_test)
    faults = _input_faults(part, config)
    if config.labels is None:
        faults.append((names == "", lambda _: f"{part.roles.label} is blank"))
    if not is_test and config.labels is None:
        _refuse_continuous(part, names[names != ""])
    usable = _usable(part, faults, config)
    part = part.filter(usable)
    x, kept, encoded = _inputs(part, config, shape)
    rows = np.flatnonzero(usable)[kept]
    if not is_test:
        refuse_lost_classes(names, names[rows], part.table.where)
    group = None if part.roles.group is None else _groups(part)[kept]
    positions = part.table.original_positions[kept]
    ids, clean = row_ids(part, prefix)[kept], None if clean is None else clean[rows]
    return Rows(x, names[rows], ids, clean, group, positions, encoded=encoded)


def _groups(part: TablePart) -> np.ndarray:
    """Return the group (N,) str of each row; missing ones are blank."""
    cells = part.table.cells(str(part.roles.group))
    return np.array(["" if is_missing(cell) else cell for cell in cells.tolist()], dtype=np.str_)


def _refuse_continuous(part: TablePart, names: np.ndarray) -> None:
    """Raise if labels (n,) are measurements or ids, such as one for each row."""
    distinct = len(np.unique(names))
    has_fractions = distinct > min(_MOST_FRACTIONS, len(names) / 2) and _are_fractions(names)
    if len(names) >= _LEAST_LABELS and (distinct == len(names) or has_fractions):
        raise part.table.error(
            f"{part.roles.label} has {distinct} different values in {len(names)} rows, so it looks continuous; labels "
            "are classes that rows share: data.label_column names another column"
        )


def _are_fractions(names: np.ndarray) -> bool:
    """Return whether labels are numbers, some of them not whole; missing ones do not count."""
    try:
        numbers = [float(name) for name in set(names.tolist()) if not is_missing(name)]
    except ValueError:
        return False
    return any(not number.is_integer() for number in numbers)


def _inputs(part: TablePart, config: DataConfig, shape: Shape | None) -> Images:
    table, roles = part
    if roles.image is not None:
        return load_images(TableImages.of(table, roles.image, config.image_root).encoded(), config, shape, table.where)
    if roles.text is not None:
        x: Inputs = Cells.of_texts(table.text(roles.text), roles.text)
    elif roles.is_encoded:
        x = _read_cells(table, roles)
    else:
        x = as_tensor(read_features(table, roles.features))
    return Images(fit_to_shape(x, shape, table.where), np.arange(len(table)), None)


def _mark_encoded(part: TablePart, config: DataConfig, shape: Shape | None) -> TablePart:
    """Say whether features have to be encoded: as in training, or as this table needs it."""
    table, roles = part
    if roles.image is not None or roles.text is not None:
        return part
    numbers = tuple(name for name in roles.features if name not in roles.categories and not is_list(table, name))
    if shape is not None:
        is_encoded = shape == UNENCODED
    else:
        is_encoded = bool(roles.categories) or (config.unreadable == "refuse" and has_missing_numbers(table, numbers))
    return TablePart(table, replace(roles, is_encoded=is_encoded))


def _read_cells(table: Table, roles: Roles) -> Cells:
    """Return features as cells: numbers or NaN, and categories as text."""
    columns = {
        name: _category_cells(table, name) if name in roles.categories else pa.array(read_numbers(table, name))
        for name in roles.features
    }
    return Cells(pa.table(columns), roles.categories)


def _category_cells(table: Table, name: str) -> Any:
    return pa.array(["" if is_missing(cell) else cell for cell in table.cells(name).tolist()], pa.large_string())


def _input_faults(part: TablePart, config: DataConfig) -> list[Fault]:
    """Find the rows whose image or text is missing, or whose features are no numbers."""
    table, roles = part
    if roles.image is not None:
        return [TableImages.of(table, roles.image, config.image_root).missing()]
    if roles.text is not None:
        blank = pc.equal(pc.utf8_trim_whitespace(table.text(roles.text)), "").to_numpy()
        return [(blank, lambda _: f"{roles.text} is blank; expected text")]
    numbers = tuple(name for name in roles.features if name not in roles.categories)
    is_filled = roles.is_encoded and config.unreadable == "refuse"
    faults = find_faults(table, numbers, allow_missing=is_filled)
    return faults if is_filled else [*faults, *(_blank_category(table, name) for name in roles.categories)]


def _blank_category(table: Table, name: str) -> Fault:
    is_blank = np.array([is_missing(cell) for cell in table.cells(name).tolist()], dtype=bool)
    return is_blank, lambda _: f"{name} is blank; expected a category"


def _usable(part: TablePart, faults: list[Fault], config: DataConfig) -> np.ndarray:
    """Return which rows (N,) have no fault.

    The others are an error, or are listed if the configuration skips them.
    """
    unusable = np.zeros(len(part.table), dtype=bool)
    for is_bad, _ in faults:
        unusable |= is_bad
    if config.unreadable == "refuse":
        part.table.refuse(unusable, lambda row: _reason(row, faults), "; data.unreadable=skip leaves such rows out")
    if unusable.any():
        _list_skipped(part.table, np.flatnonzero(unusable), faults)
    return ~unusable


def _reason(row: int, faults: list[Fault]) -> str:
    return next(describe(row) for is_bad, describe in faults if is_bad[row])


def _list_skipped(table: Table, rows: np.ndarray, faults: list[Fault]) -> None:
    shown = [f"{table.short_row(row)}: {_reason(row, faults)}" for row in rows[:_MAX_ROWS_SHOWN].tolist()]
    more = f"; and {len(rows) - len(shown)} more" if len(rows) > len(shown) else ""
    _log.warning("%s: %d row(s) are left out: %s%s", table.where, len(rows), "; ".join(shown), more)


def _labels(part: TablePart, is_test: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the given and the true class names (N,), which are the same for test rows if known."""
    table, roles = part
    class_names = _class_names(part)
    clean = None if roles.clean is None else _read_labels(table, roles.clean, class_names)
    if clean is not None:
        table.refuse(clean == "", f"{roles.clean} is blank; true labels are known for all rows or not given")
        if is_test:
            return clean, clean
    blank = np.full(len(table), "", dtype=np.str_)
    return blank if roles.label is None else _read_labels(table, roles.label, class_names), clean


def _class_names(part: TablePart) -> tuple[str, ...] | None:
    """Return the classes that whole numbers stand for; both columns share them."""
    for column in (part.roles.label, part.roles.clean):
        if column is not None and column in part.table.class_names:
            return part.table.class_names[column]
    return None


def _read_labels(table: Table, column: str, class_names: tuple[str, ...] | None) -> np.ndarray:
    """Return a column of labels (N,) as class names; missing labels are blank.

    Whole numbers are positions in the class names of the column, or else in `class_names`.
    """
    return table.labels(column, table.class_names.get(column, class_names))
