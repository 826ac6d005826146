"""Groups of rows that may share a mistake: frames of one video, slices of one patient, near-copies.

`data.group` names the column that tells the group of a row. Splits, folds and the second opinion
never use a row of a group to judge another one. A row with a blank cell is a group of its own.
Sources without columns, such as folders of images, find the column in the file of `data.labels`.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.config import DataConfig
from surelabel.data.label_file import read_label_file
from surelabel.data.sources.checks import list_some
from surelabel.data.sources.interface import Parts
from surelabel.errors import DataError

_log = logging.getLogger("surelabel")

ALONE = -1
"""The number of rows that are groups of their own."""
MOST_JOINED = 10
"""Copies of one row, or groups with a row in common, of which more are no copies but a chain."""


def attach_groups(parts: Parts, config: DataConfig) -> Parts:
    """Return the parts with the groups of `data.group`, which the source may have read itself."""
    if config.group is None or parts.train.group is not None:
        return parts
    how = f"{config.source} has no columns; expected a column {config.group!r} in data.labels, a CSV with id and label"
    if config.labels is None:
        raise DataError(f"data.group: {how}")
    file = read_label_file(config.labels)
    if config.group not in file.table.names:
        names = ", ".join(file.table.names)
        raise DataError(f"data.group: there is no column {config.group!r} in {config.labels}; available: {names}")
    position, cells = file.positions(parts.train.ids), file.table.cells(config.group)
    group = np.where(position >= 0, np.append(cells, "")[position], "")
    return replace(parts, train=replace(parts.train, group=group))


def number_groups(names: np.ndarray) -> NDArray[np.int64]:
    """Return the number (N,) of each row's group, ALONE for blank names and groups of one row."""
    _, number, counts = np.unique(names, return_inverse=True, return_counts=True)
    return np.where((names == "") | (counts[number] == 1), ALONE, number)


def check_groups(group: NDArray[Any], label: NDArray[Any], class_names: Sequence[str], where: str) -> None:
    """Raise if groups leave nothing to judge any row by, and name the classes of a single group."""
    own = np.where(group == ALONE, group.max() + 1 + np.arange(len(group)), group)
    if len(np.unique(own)) == 1:
        raise DataError(f"{where}: all {len(group)} rows are in one group; expected at least 2 groups (data.group)")
    classes, first, counts = np.unique(label, return_index=True, return_counts=True)
    is_elsewhere = own != own[first][np.searchsorted(classes, label)]
    num_elsewhere = np.bincount(np.searchsorted(classes, label), is_elsewhere)
    single = classes[(counts > 1) & (num_elsewhere == 0)].tolist()
    if single and len(single) == (counts > 1).sum():
        raise DataError(
            f"{where}: every class is in a single group, so that no other row shows what it looks like; expected "
            "groups that are not the labels (data.group)"
        )
    text = "%s: %d groups hold %d of %d rows, and are left out together (data.group)"
    _log.warning(text, where, len(np.unique(group[group != ALONE])), (group != ALONE).sum(), len(group))
    if single:
        text = "%s: all rows of a class are in one group, so its labels will look wrong: %s (data.group)"
        _log.warning(text, where, list_some(class_names[number] for number in single))


def join_copies(group: NDArray[Any] | None, copies: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return groups (N,) that also hold the copies of their rows together; None if there are none.

    `copies` numbers the groups of near-copies that were found, 0 for rows without one. Copies that
    link more than MOST_JOINED rows or groups are a chain, or values that many rows share by nature,
    such as categories: these stay apart, and so do copies that link half of all rows.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    own = np.full(len(copies), ALONE) if group is None else np.asarray(group)
    found = np.flatnonzero(copies)
    if not len(found):
        return None if group is None else own
    # Nodes are groups and rows that are alone; a group of copies links its rows' nodes to itself.
    first = int(own.max(initial=ALONE)) + 1
    node = np.where(own == ALONE, first + np.arange(len(own)), own)
    num_nodes = first + len(own)
    size = num_nodes + int(copies.max()) + 1
    links = (np.ones(len(found)), (node[found], num_nodes + copies[found]))
    component = connected_components(coo_array(links, (size, size)), directed=False)[1][node]
    num_linked = np.bincount(component[np.unique(node, return_index=True)[1]], minlength=component.max() + 1)
    num_rows = np.bincount(component)
    is_joined = (num_linked > 1) & (num_linked <= MOST_JOINED) & (2 * num_rows <= len(own))
    joined: NDArray[np.int64] = np.where(is_joined[component], first + component, own)
    return joined if (joined != ALONE).any() else None
