"""From tables to rows: images by path or bytes, or numbers, each with its label.

Rows are named by the id column, else by the path of their image as written, else by their number, counted from 0. A
column `split` says train or test; rows of validation are left alone. Test rows are measured with their true labels, where
a column has them. With `data.unreadable` "skip", rows without a label or without their image are left out and listed.
"""

import logging
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from surelabel.config import DataConfig
from surelabel.data.images.load import fitted, load_images
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.array_conversion import as_tensor
from surelabel.data.sources.checks import refuse_lost_classes
from surelabel.data.sources.interface import Parts, Rows
from surelabel.data.sources.tables.columns import Roles
from surelabel.data.sources.tables.features import feature_names, features_of
from surelabel.data.sources.tables.images import Complaint, TableImages
from surelabel.data.sources.tables.labels import class_names_of, names_in
from surelabel.data.sources.tables.table import Table

_log = logging.getLogger("surelabel")

_LEFT_ALONE = ("validation", "valid", "val", "dev")
_MOST_ROWS_SHOWN = 3


class Part(NamedTuple):
    """A table and what its columns are there for."""

    table: Table
    roles: Roles

    def where_true(self, mask: np.ndarray) -> "Part":
        """The rows that `mask` (N,) marks."""
        return self._replace(table=self.table.where_true(mask))


def parts_of(
    part: Part, config: DataConfig, shape: Shape | None = None, tests: Mapping[str, Part] | None = None
) -> Parts:
    """The rows to train on, and `tests` or the table's own test part; with a `shape` everything is there to test."""
    for note in part.roles.notes:
        _log.warning("%s: %s", part.table.where, note)
    train, own_test = _by_split(part)
    if shape is not None and not len(train.table):
        train, own_test = own_test, train
    if not len(train.table):
        raise part.table.error("no rows to train on")
    rows = _rows(train, config, shape, is_test=shape is not None)
    there = tuple(rows.x.shape[1:])
    found = {name: _rows(one, config, there, True, f"{name}/") for name, one in (tests or {}).items()}
    if not found and len(own_test.table):
        found["test"] = _rows(own_test, config, there, is_test=True)
    names = feature_names(part.table, part.roles.features) if part.roles.image is None else None
    return Parts(rows, found, class_names_of(part.table, part.roles), feature_names=names)


def inputs_of(part: Part, config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """All inputs of the table, and their ids."""
    if not len(part.table):
        raise part.table.error("no rows below the header")
    part = part.where_true(_usable(part, _faults(part), config))
    x, kept = _inputs(part, config, shape)
    return x, row_ids(part, "")[kept]


def _rows(part: Part, config: DataConfig, shape: Shape | None, is_test: bool, prefix: str = "") -> Rows:
    names, clean = _names(part, is_test)
    faults = _faults(part)
    if config.labels is None:
        faults.append((names == "", lambda row: f"{part.roles.label} is blank"))
    usable = _usable(part, faults, config)
    part = part.where_true(usable)
    x, kept = _inputs(part, config, shape)
    rows = np.flatnonzero(usable)[kept]
    if not is_test:
        refuse_lost_classes(names, names[rows], part.table.where)
    return Rows(x, names[rows], row_ids(part, prefix)[kept], None if clean is None else clean[rows])


def _names(part: Part, is_test: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """(N,) given and true names; the given ones of test rows are the true ones, where those are known."""
    table, roles = part
    shared = class_names_of(table, roles)
    clean = None if roles.clean is None else names_in(table, roles.clean, shared)
    if clean is not None:
        table.refuse(clean == "", f"{roles.clean} is blank; true labels are known for all rows or not given")
        if is_test:
            return clean, clean
    blank = np.full(len(table), "", dtype=np.str_)
    return blank if roles.label is None else names_in(table, roles.label, shared), clean


def _faults(part: Part) -> list[Complaint]:
    return [] if part.roles.image is None else [TableImages.of(part.table, part.roles.image).missing()]


def _usable(part: Part, faults: list[Complaint], config: DataConfig) -> np.ndarray:
    """(N,) bool: the rows that nothing is wrong with; or an error about the others."""
    unusable = np.zeros(len(part.table), dtype=bool)
    for is_bad, _ in faults:
        unusable |= is_bad
    if config.unreadable == "refuse":
        part.table.refuse(unusable, lambda row: _reason(row, faults), "; data.unreadable=skip leaves such rows out")
    if unusable.any():
        _list_skipped(part.table, np.flatnonzero(unusable), faults)
    return ~unusable


def _reason(row: int, faults: list[Complaint]) -> str:
    return next(complaint(row) for is_bad, complaint in faults if is_bad[row])


def _list_skipped(table: Table, rows: np.ndarray, faults: list[Complaint]) -> None:
    names = [table.row_name(row) for row in rows[:_MOST_ROWS_SHOWN].tolist()]
    shown = [f"{name}: {_reason(row, faults)}" for name, row in zip(names, rows.tolist(), strict=False)]
    more = f"; and {len(rows) - len(shown)} more" if len(rows) > len(shown) else ""
    _log.warning("%s: %d row(s) are left out: %s%s", table.where, len(rows), "; ".join(shown), more)


def _inputs(part: Part, config: DataConfig, shape: Shape | None) -> tuple[Inputs, np.ndarray]:
    table, roles = part
    if roles.image is not None:
        return load_images(TableImages.of(table, roles.image).encoded(), config, shape, table.where)
    x = as_tensor(features_of(table, roles.features))
    return fitted(x, shape, table.where), np.arange(len(table))


def row_ids(part: Part, prefix: str) -> np.ndarray:
    """(N,) str: the names of rows."""
    table, roles = part
    if roles.id is not None:
        ids = table.cells(roles.id)
        table.refuse(ids == "", f"{roles.id} is blank")
        return ids
    paths = None if roles.image is None else TableImages.of(table, roles.image).paths
    if paths is not None:
        return paths
    ids = table.places if table.ids is None else table.ids
    return np.char.add(prefix, ids.astype(np.str_))


def _by_split(part: Part) -> tuple[Part, Part]:
    """Training and test rows."""
    table, roles = part
    if roles.split is None:
        nothing = np.zeros(len(table), dtype=bool)
        return part, part.where_true(nothing)
    split = np.char.lower(table.cells(roles.split))
    known = np.isin(split, ("train", "test", *_LEFT_ALONE))
    table.refuse(~known, lambda row: f"{roles.split} is {str(split[row])!r}; allowed are train, test and validation")
    return part.where_true(split == "train"), part.where_true(split == "test")
