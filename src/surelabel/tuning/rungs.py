"""Successive halving over held-out rows: how many candidates each rung compares, and which stay.

Every rung trains its candidates to the end on all rows but those of one fold, so that candidates
are compared on more rows from rung to rung, and always on the same ones. The accuracy on held-out
given labels is highest for the right classifier, but with a standard error of a few points; how
much better a candidate fits the labels it was trained on is known more precisely, and shows what it
has memorised. So the best of candidates that are equally accurate is the one with the smallest gap.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

NUM_FOLDS = 3
HELD_OUT = 1 / NUM_FOLDS
"""Fraction of the rows that a rung holds out."""
LEAST_KEPT = 2
ROUNDING = 1e-9
"""One row more is exactly one standard error more, and no difference."""


@dataclass(frozen=True)
class Difference:
    """A mean difference on the same rows, and its standard error."""

    mean: float
    standard_error: float


def plan_rungs(num_candidates: int) -> list[int]:
    """Return how many candidates each rung has: all, then half of them, but at least two."""
    sizes = [num_candidates]
    while len(sizes) < NUM_FOLDS:
        sizes.append(min(num_candidates, max(LEAST_KEPT, -(-sizes[-1] // 2))))
    return sizes


def count_runs(num_candidates: int) -> float:
    """Return what a search costs, in trainings on all rows."""
    return (1 - HELD_OUT) * sum(plan_rungs(num_candidates))


def rank(hits: Mapping[str, np.ndarray]) -> list[str]:
    """Return the names by the number of rows (N,) that each predicts as given, most first.

    Of equals the earlier one comes first: a method's default is the first candidate.
    """
    return sorted(hits, key=lambda name: -int(np.sum(hits[name])))


def choose(hits: Mapping[str, np.ndarray], gaps: Mapping[str, float]) -> str | None:
    """Return the candidate with the smallest gap of those within a standard error of the best.

    A gap is the accuracy on labels that were trained on minus that on labels that were held out.
    """
    if not hits:
        return None
    best = hits[rank(hits)[0]]
    behind = {name: compare(best, hits[name]) for name in hits}
    equal = [name for name, lead in behind.items() if lead.mean <= lead.standard_error * (1 + ROUNDING)]
    return min(equal, key=lambda name: gaps[name])


def accuracy_of(hits: np.ndarray) -> Difference:
    """Return the fraction of rows that are predicted as given, and its standard error."""
    return _mean(hits.astype(np.float64))


def compare(hits: np.ndarray, others: np.ndarray) -> Difference:
    """Return the accuracy of one candidate minus that of another on the same rows."""
    return _mean(hits.astype(np.float64) - others)


def _mean(values: np.ndarray) -> Difference:
    return Difference(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))


def join(folds: Sequence[np.ndarray]) -> np.ndarray:
    """Return the rows of several folds as one array."""
    return np.concatenate(folds) if folds else np.zeros(0, dtype=bool)
