"""What a ridge regression says of rows that it was fitted without: one row, or a group at a time.

With the hat matrix H of the fit, the scores of a group g without the labels of the group are
(I - H_gg)^-1 (f_g - H_gg y_g), and of a row alone (f_i - H_ii y_i) / (1 - H_ii). Both are exact. A
group with more rows than the features have columns is left out by solving for the weights of the
other rows instead, which is the same by Woodbury's identity and cheaper.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.verdicts import row_readers
from surelabel.verdicts.row_readers import RowReader, row_slices, to_array

Array = NDArray[Any]
Labels = NDArray[np.integer[Any]]


class Groups:
    """Rows that are left out together."""

    def __init__(self, group: Labels) -> None:
        """Take the group (N,) of each row; a negative one, or one that holds all rows, is none."""
        _, number, counts = np.unique(group, return_inverse=True, return_counts=True)
        is_left_out = (group >= 0) & (counts[number] > 1) & (counts[number] < len(group))
        rows = np.flatnonzero(is_left_out)
        self.number = np.full(len(group), -1)
        """(N,) the position of each row's group; -1 for rows that are left out alone."""
        _, self.number[rows] = np.unique(number[rows], return_inverse=True)
        self._rows = rows[np.argsort(self.number[rows], kind="stable")]
        self._ends = np.cumsum(np.bincount(self.number[rows]))

    def gather(self, order: Labels, most: int) -> Labels:
        """Return rows with each group together at its first row, and at most so many of a group."""
        number = np.where(self.number[order] < 0, len(order) + order, self.number[order])
        _, first, inverse = np.unique(number, return_index=True, return_inverse=True)
        place = np.argsort(first[inverse], kind="stable")
        begins = first[inverse][place]
        is_kept = np.arange(len(order)) - np.searchsorted(begins, begins) < most
        return order[place[is_kept]]

    def batches(self, groups: Labels, num_columns: int) -> Iterator[Labels]:
        """Yield the rows (n, m) of n groups of m rows each, until all `groups` were read."""
        sizes = np.diff(self._ends, prepend=0)
        for size in np.unique(sizes[groups]).tolist():
            starts = (self._ends - size)[groups[sizes[groups] == size]]
            most = max(1, row_readers.CHUNK_VALUES // (size * max(size, num_columns)))
            for first in range(0, len(starts), most):
                yield self._rows[starts[first : first + most, None] + np.arange(size)]


@dataclass(frozen=True)
class LeftOut:
    """Scores (N, K) of a ridge regression without the row or its group, computed when read."""

    rotated: RowReader
    """(N, r) centred features with a diagonal Gram matrix."""
    gram: Array
    sums: Array
    """(K, r) sums of the features over the rows of each label."""
    labels: Labels
    penalty: float
    groups: Groups | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of classes."""
        return len(self.labels), len(self.sums)

    def __getitem__(self, rows: Any) -> Array:
        """Return the scores of a slice of rows, or at (n,) positions.

        Of a group all rows are read, wherever they are: where tables are computed when they are
        read, this is quick if the rows of a group are near each other.
        """
        scores = self._without_row(rows)
        self._leave_groups_out(scores, np.arange(len(self.labels))[rows])
        return scores

    def read_all(self) -> RowReader:
        """Return the scores of all rows, as an array if they are not too many."""
        scores = to_array(replace(self, groups=None), self.rotated.shape[1])
        if self.groups is None:
            return scores
        if not isinstance(scores, np.ndarray):
            return self
        self._leave_groups_out(scores, np.arange(len(scores)))
        return scores

    def _without_row(self, rows: Any) -> Array:
        num_rows, num_classes = self.shape
        prior, shrunk = self._prior(), self._shrunk()
        features, labels = self.rotated[rows], self.labels[rows]
        scores: Array = features @ (shrunk * self.sums).T.astype(features.dtype)
        leverage = np.minimum((features * features) @ shrunk + 1 / num_rows, 1 - 1e-6)[:, None]
        for some in row_slices(len(scores), num_classes, whole=0):
            left_out = np.zeros((len(scores[some]), num_classes))
            left_out[np.arange(len(left_out)), labels[some]] = 1
            scores[some] = (scores[some] - leverage[some] * (left_out - prior)) / (1 - leverage[some])
        return scores

    def _leave_groups_out(self, scores: Array, positions: Labels) -> None:
        """Replace the scores of rows in groups; `positions` (n,) says which rows these are."""
        if self.groups is None:
            return
        number = self.groups.number[positions]
        order = np.argsort(positions, kind="stable")
        width = max(self.rotated.shape[1], self.shape[1])
        for members in self.groups.batches(np.unique(number[number >= 0]), width):
            is_large = members.shape[1] > self.rotated.shape[1] + 1
            found = np.concatenate(list(map(self._refit_without, members))) if is_large else self._solve_groups(members)
            first, last = (
                np.searchsorted(positions, members.ravel(), side, sorter=order) for side in ("left", "right")
            )
            for place in range(int((last - first).max(initial=0))):  # a row may be read more than once
                is_read = first + place < last
                scores[order[first[is_read] + place]] = found[is_read]

    def _solve_groups(self, members: Labels) -> Array:
        """Return the scores (n m, K) of n groups of m rows, each without its own rows."""
        features = self.rotated[members.ravel()].astype(np.float64).reshape(*members.shape, -1)
        leverage = (features * self._shrunk()) @ features.transpose(0, 2, 1) + 1 / len(self.labels)
        fitted = features @ (self._shrunk() * self.sums).T
        found = np.linalg.solve(np.eye(members.shape[1]) - leverage, fitted - leverage @ self._targets(members))
        return found.reshape(-1, len(self.sums))

    def _refit_without(self, members: Labels) -> Array:
        """Return the scores (m, K) of one group by the weights and the level of all other rows."""
        num_columns = self.rotated.shape[1]
        inner = np.diag(np.append(1 / self._shrunk(), len(self.labels)))
        target = np.append(self.sums, np.zeros((len(self.sums), 1)), axis=1).T
        for rows in row_slices(len(members), num_columns, whole=0):
            design = self._design(members[rows])
            inner -= design.T @ design
            target -= design.T @ self._targets(members[rows])
        weights, found = np.linalg.solve(inner, target), np.empty((len(members), len(self.sums)), dtype=np.float32)
        for rows in row_slices(len(members), num_columns, whole=0):
            found[rows] = self._design(members[rows]) @ weights
        return found

    def _design(self, rows: Labels) -> Array:
        """Return (n, r + 1) features with a column of ones."""
        features = self.rotated[rows].astype(np.float64)
        return np.append(features, np.ones((len(rows), 1)), axis=1)

    def _targets(self, rows: Labels) -> Array:
        """Return one-hot labels (..., K) less their mean over all rows."""
        targets: Array = np.eye(len(self.sums))[self.labels[rows]] - self._prior()
        return targets

    def _prior(self) -> Array:
        return np.bincount(self.labels, minlength=len(self.sums)) / len(self.labels)

    def _shrunk(self) -> Array:
        shrunk: Array = 1 / (self.gram + self.penalty * len(self.labels))
        return shrunk
