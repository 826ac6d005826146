"""Find the nearest neighbours of every row by its features, in chunks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

NUM_NEIGHBOURS = 10
MOST_ROWS = 50_000
"""With more rows, neighbours are not looked for: that would take minutes."""
MAX_WORK = 4e11
"""Multiplications beyond which wide features are first projected at random to fewer columns."""
CHUNK_VALUES = 2**24
"""Largest number of values held in memory at once."""
MOST_SPREADS = 5.0
"""Values further than this from the mean of their column, in standard deviations, are moved there:
otherwise rare words or pixels that are nearly always dark decide over all distances."""


@dataclass(frozen=True)
class Neighbours:
    """The k nearest other rows of each of N rows, the nearest first."""

    index: NDArray[np.int64]
    """(N, k)."""
    distance: Array
    """(N, k) float32; 0 for rows with equal features."""


def find_neighbours(features: Array, seed: int = 0) -> Neighbours | None:
    """Return the neighbours of (N, D) features; None if there are too few or too many rows."""
    num_rows = len(features)
    if not 2 * NUM_NEIGHBOURS < num_rows <= MOST_ROWS:
        return None
    x = _project(_standardise(features), seed)
    norms = np.einsum("nd,nd->n", x, x)
    index = np.empty((num_rows, NUM_NEIGHBOURS), dtype=np.int64)
    distance = np.empty((num_rows, NUM_NEIGHBOURS), dtype=np.float32)
    size = max(1, CHUNK_VALUES // max(num_rows, NUM_NEIGHBOURS * x.shape[1]))
    for start in range(0, num_rows, size):
        rows = np.arange(start, min(start + size, num_rows))
        squared = norms - 2 * (x[rows] @ x.T)  # without the rows' own norms, which do not change the order
        squared[np.arange(len(rows)), rows] = np.inf
        found = np.argpartition(squared, NUM_NEIGHBOURS, axis=1)[:, :NUM_NEIGHBOURS]
        # The formula above rounds; by differences, equal rows are at distance 0.
        apart = np.linalg.norm(x[found] - x[rows, None], axis=2)
        order = np.argsort(apart, axis=1, kind="stable")
        index[rows] = np.take_along_axis(found, order, 1)
        distance[rows] = np.take_along_axis(apart, order, 1)
    return Neighbours(index, distance)


def measure_distances(reference: Array, new: Array, seed: int = 0) -> tuple[Array, Array] | None:
    """Return (N, k) distances between reference rows, and (M, k) of new rows to these.

    Both are distances to reference rows other than the row itself, so new rows of the same kind
    have the same ones. None if there are too few or too many reference rows.
    """
    if not 2 * NUM_NEIGHBOURS < len(reference) <= MOST_ROWS:
        return None
    both = np.concatenate([part.reshape(len(part), -1) for part in (reference, new)])
    x = _project(_standardise(both, len(reference)), seed)
    known, others = x[: len(reference)], x[len(reference) :]
    norms = np.einsum("nd,nd->n", known, known)
    found = np.empty((len(x), NUM_NEIGHBOURS), dtype=np.float32)
    size = max(1, CHUNK_VALUES // max(len(known), NUM_NEIGHBOURS * x.shape[1]))
    for start in range(0, len(x), size):
        rows = np.arange(start, min(start + size, len(x)))
        squared = norms - 2 * (x[rows] @ known.T)
        own = rows < len(known)
        squared[np.flatnonzero(own), rows[own]] = np.inf
        nearest = np.argpartition(squared, NUM_NEIGHBOURS, axis=1)[:, :NUM_NEIGHBOURS]
        found[rows] = np.sort(np.linalg.norm(known[nearest] - x[rows, None], axis=2), axis=1)
    return found[: len(known)], found[len(known) : len(known) + len(others)]


def _standardise(features: Array, num_known: int | None = None) -> Array:
    """Return float32 columns of mean 0 and deviation 1 in the first rows, without outer values.

    All rows are the first ones by default. Of others, a column that does not vary in those counts
    like the mean of the others, because any other value in it is new.
    """
    x = np.asarray(features, dtype=np.float32).reshape(len(features), -1)
    mean, deviation = x[:num_known].mean(0, dtype=np.float64), x[:num_known].std(0, dtype=np.float64)
    if num_known is not None:
        is_flat = (deviation <= 1e-6 * np.maximum(np.abs(mean), 1e-6)) & (np.ptp(x, axis=0) > 0)
        deviation = np.where(is_flat, deviation[~is_flat].mean() if not is_flat.all() else 1.0, deviation)
    varies = deviation > 1e-6 * np.maximum(np.abs(mean), 1e-6)
    scaled = (x[:, varies] - mean[varies].astype(np.float32)) / deviation[varies].astype(np.float32)
    inner: Array = np.clip(scaled, -MOST_SPREADS, MOST_SPREADS)
    return inner


def _project(x: Array, seed: int) -> Array:
    """Return as few columns as the work allows; distances then change by about 5 percent."""
    most = int(MAX_WORK / len(x) ** 2)
    if x.shape[1] <= most:
        return x
    directions = np.random.default_rng(seed).normal(size=(x.shape[1], most)) / np.sqrt(most)
    projected: Array = x @ directions.astype(np.float32)
    return projected
