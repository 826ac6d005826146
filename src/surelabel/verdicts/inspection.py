"""Measure what the inputs of a run tell about its rows: copies, outliers and rival classes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.data.neighbours import Neighbours
from surelabel.verdicts.evidence import rival_of
from surelabel.verdicts.outliers import find_outliers, measure_isolation

Array = NDArray[Any]


def join_features(features: Array | Mapping[str, Array]) -> Array:
    """Return several sets of (N, D) features, by name, as one with all their columns."""
    return np.concatenate(list(features.values()), axis=1) if isinstance(features, Mapping) else features


def inspect_inputs(by_input: Array, copies: Array, neighbours: Neighbours | None) -> dict[str, Array]:
    """Return columns for samples.parquet from (N, K) class probabilities and groups of copies (N,).

    With very many rows there are no neighbours: outliers and near-duplicates are not looked for.
    """
    columns: dict[str, Array] = {
        "rival": rival_of(by_input).astype(np.float32),
        "duplicate_group": copies,
    }
    if neighbours is not None:
        isolation = measure_isolation(neighbours)
        columns |= {"isolation": isolation.astype(np.float32), "is_outlier": find_outliers(isolation, by_input)}
    return columns
