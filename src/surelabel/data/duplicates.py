"""Find duplicates: among the training rows, and between them and a test set.

Two rows are duplicates if their inputs are equal. They are near-duplicates if their features are
much closer to each other than both are to their other neighbours: so much closer that, in data
without copies, hardly a single pair would be. How close that is depends on the number of rows and
on the dimension of the data, which is estimated (Levina and Bickel, 2004): among m-dimensional rows
the nearest of k neighbours is closer than t times the furthest with probability (k - 1) t^m.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from surelabel.data.corpus import Examples
from surelabel.data.inputs import HASH_BYTES, Inputs
from surelabel.data.neighbours import Neighbours

_ROWS_AT_ONCE = 1024

CHANCE_PAIRS = 0.05
"""Near-duplicates that are expected in data without copies."""
CLOSEST = 0.2
"""Near-duplicates are never further apart than this fraction of the distance to other rows."""


@dataclass(frozen=True)
class DuplicateGroup:
    """Rows that share one input."""

    ids: tuple[str, ...]
    labels: tuple[int, ...]
    """Their given labels, in the order of the ids."""

    @property
    def disagree(self) -> bool:
        """Whether at least one of the labels must be wrong."""
        return len(set(self.labels)) > 1


def hash_rows(x: Inputs) -> list[bytes]:
    """Return a hash of each input."""
    found: list[bytes] = []
    for start in range(0, len(x), _ROWS_AT_ONCE):
        rows = x[torch.arange(start, min(start + _ROWS_AT_ONCE, len(x)))].contiguous().numpy()
        found += [hashlib.blake2b(row, digest_size=HASH_BYTES).digest() for row in rows]
    return found


def find_duplicates(rows: Examples, hashes: list[bytes]) -> list[DuplicateGroup]:
    """Group the rows with equal hashes, in the order of their first row."""
    labels = rows.label.tolist()
    return [
        DuplicateGroup(tuple(str(rows.ids[p]) for p in group), tuple(labels[p] for p in group))
        for group in _equal_rows(hashes)
    ]


def _equal_rows(hashes: list[bytes]) -> list[list[int]]:
    """Return the positions of rows with equal hashes, in the order of their first row."""
    high, low = np.frombuffer(b"".join(hashes), dtype=np.uint64).reshape(-1, 2).T
    order = np.lexsort((low, high))  # stable: equal rows stay in their order
    is_same = (high[order][1:] == high[order][:-1]) & (low[order][1:] == low[order][:-1])
    within = np.concatenate([[False], is_same]) | np.concatenate([is_same, [False]])
    starts = np.flatnonzero(within & ~np.concatenate([[False], is_same]))
    ends = np.flatnonzero(within & ~np.concatenate([is_same, [False]])) + 1
    return sorted(order[start:end].tolist() for start, end in zip(starts, ends, strict=True))


def number_duplicates(features: NDArray[Any], neighbours: Neighbours | None) -> NDArray[np.int32]:
    """Return (N,) the number of each row's group of exact and near-duplicates; 0 if it has none.

    Rows with equal features, whose inputs are equal too for all that a model can see, are exact
    duplicates. Without neighbours, only these are found.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    num_rows = len(features)
    equal = _equal_rows(hash_rows(torch.from_numpy(np.asarray(features, dtype=np.float32))))
    pairs = [(first, other) for first, *others in equal for other in others]
    if neighbours is not None:
        pairs += _near_pairs(neighbours)
    groups = np.zeros(num_rows, dtype=np.int32)
    if pairs:
        one, other = np.array(pairs).T
        graph = coo_array((np.ones(len(pairs)), (one, other)), (num_rows, num_rows))
        component = connected_components(graph, directed=False)[1]
        rows = np.unique(np.concatenate([one, other]))
        groups[rows] = np.unique(component[rows], return_inverse=True)[1] + 1
    return groups


def _near_pairs(neighbours: Neighbours) -> list[tuple[int, int]]:
    """Return pairs of rows that are much closer to each other than to their other neighbours."""
    apart, furthest = neighbours.distance, neighbours.distance[:, -1]
    dimension = _estimate_dimension(apart)
    if dimension is None:
        return []
    chance = CHANCE_PAIRS / apart[:, :-1].size
    limit = min(CLOSEST, chance ** (1 / dimension))
    rows, places = np.nonzero(apart < limit * furthest[:, None])
    others = neighbours.index[rows, places]
    both = apart[rows, places] < limit * furthest[others]
    return list(zip(rows[both].tolist(), others[both].tolist(), strict=True))


def _estimate_dimension(apart: NDArray[Any]) -> float | None:
    """Estimate the dimension of the data from (N, k) distances; None if all rows are equal.

    In m dimensions log(d_k / d_j) is (1/j + ... + 1/(k-1)) / m on average. Only the outer half of
    the neighbours is used: the inner ones may be copies.
    """
    half, last = apart.shape[1] // 2, apart.shape[1]
    usual = apart[:, half - 1] > 0
    if not usual.any():
        return None
    outer = np.log(apart[usual, half - 1 :])
    gaps = (outer[:, -1:] - outer[:, :-1]).mean(1)
    expected = np.mean([sum(1 / i for i in range(j, last)) for j in range(half, last)])
    return float(expected / max(np.median(gaps), 1e-9))


def find_leaked_rows(hashes: list[bytes], test_hashes: list[bytes]) -> np.ndarray:
    """Return the positions of the test rows whose input is also trained on."""
    known = set(hashes)
    return np.flatnonzero([digest in known for digest in test_hashes])
