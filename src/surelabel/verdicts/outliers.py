"""Find outliers: rows far from their neighbours whose class is unclear.

A row's distance is the mean distance to its nearest neighbours, on a logarithmic scale. It is
compared with the distances of all rows, and with those of its neighbours, whose region may be
sparse. Both comparisons are in spreads of this data, from the median and an upper quantile, so
that no unit and no constant of other data enters; the larger one is the row's isolation.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.data.neighbours import Neighbours

Array = NDArray[Any]

FAR = 4.0
"""Isolation from which a row without a confident class is an outlier."""
VERY_FAR = 8.0
"""Isolation from which a row is an outlier whatever is predicted: no model knows that region."""
CONFIDENT = 0.8
"""Probability from which a class is confident."""
QUANTILES = ((0.75, 0.674), (0.9, 1.282), (0.95, 1.645), (0.99, 2.326))
"""Quantiles that measure the spread, with their place in a normal distribution. The first that
differs from the median is taken; distances of categorical data take few different values."""
LEAST_SPREAD = 1e-3
DENSEST = 0.1
"""Distances below this fraction of the median count as this fraction."""


def measure_isolation(neighbours: Neighbours) -> Array:
    """Return (N,) how much further rows are from their neighbours than usual, in spreads."""
    distance = neighbours.distance.mean(1, dtype=np.float64)
    if not (distance > 0).any():
        return np.zeros(len(distance))
    usual = np.median(distance[distance > 0])
    log_distance = np.log(np.maximum(distance / usual, DENSEST))
    around = np.median(log_distance[neighbours.index], axis=1)
    # Beside a cluster of copies every row looks isolated, so an isolated row must be far from most.
    beside = np.where(log_distance > 0, _in_spreads(log_distance - around), 0)
    isolation: Array = np.maximum(_in_spreads(log_distance), beside)
    return isolation


def isolation_beside(distance: Array, reference: Array) -> Array:
    """Return (M,) isolation of new rows, by their distance to rows that have (N,) `reference`."""
    if not (reference > 0).any():
        return np.zeros(len(distance))
    usual = np.median(reference[reference > 0])
    logs = (np.log(np.maximum(values / usual, DENSEST)) for values in (distance, reference))
    return _in_spreads(*logs)


def _in_spreads(values: Array, reference: Array | None = None) -> Array:
    """Return the distance from the median of the reference, by default of the values themselves."""
    among = values if reference is None else reference
    middle = np.median(among)
    for share, place in QUANTILES:
        spread = (np.quantile(among, share) - middle) / place
        if spread > LEAST_SPREAD:
            scaled: Array = (values - middle) / spread
            return scaled
    return np.zeros(len(values))


def find_outliers(isolation: Array, by_input: Array) -> NDArray[np.bool_]:
    """Return (N,) which rows are outliers, with (N, K) class probabilities from their inputs."""
    is_unclear = by_input.max(1) < CONFIDENT
    found: NDArray[np.bool_] = (isolation >= VERY_FAR) | ((isolation >= FAR) & is_unclear)
    return found
