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


def _standardise(features: Array) -> Array:
    """Return float32 columns of mean 0 and deviation 1, without outer values."""
    x = np.asarray(features, dtype=np.float32).reshape(len(features), -1)
    mean, deviation = x.mean(0, dtype=np.float64), x.std(0, dtype=np.float64)
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
