"""New labels by class: which rows change and into what, from the clean labels alone.

Members of a class are always looked up in the CLEAN labels. Several published codes look in labels that they have changed already: cats that
became dogs turn back then, and 24 % of the cats are wrong instead of 40 %.
"""

from collections.abc import Mapping

import numpy as np


def symmetric(
    clean: np.ndarray, num_classes: int, rate: float, include_true_class: bool, rng: np.random.Generator
) -> np.ndarray:
    """Exactly round(rate N) rows get another class, or with `include_true_class` any class."""
    given = clean.copy()
    rows = rng.choice(len(clean), round(rate * len(clean)), replace=False)
    if include_true_class:
        given[rows] = rng.integers(0, num_classes, len(rows))
    else:
        # One of the K - 1 others: the numbers from the true one on move up by one.
        other = rng.integers(0, num_classes - 1, len(rows))
        given[rows] = other + (other >= clean[rows])
    return given


def flipped(clean: np.ndarray, arrows: Mapping[int, int], rate: float, rng: np.random.Generator) -> np.ndarray:
    """Of each class that has an arrow, exactly round(rate n) rows follow it."""
    given = clean.copy()
    for old in sorted(arrows):
        members = np.flatnonzero(clean == old)
        given[rng.choice(members, round(rate * len(members)), replace=False)] = arrows[old]
    return given


def independent(clean: np.ndarray, matrix: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each row by itself, from its class's row of the transition matrix."""
    cumulated = np.cumsum(matrix, axis=1)
    # The last value is exactly 1 then, so that rounding never gives a class of probability 0.
    cumulated /= cumulated[:, -1:]
    given, uniform = clean.copy(), rng.random(len(clean))
    for old in range(len(matrix)):
        members = np.flatnonzero(clean == old)
        given[members] = np.searchsorted(cumulated[old], uniform[members], side="right")
    return given


def apportioned(clean: np.ndarray, matrix: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Of each class, the counts that the transition matrix says; which rows they fall on is drawn."""
    given = clean.copy()
    for old, row in enumerate(matrix):
        members = rng.permutation(np.flatnonzero(clean == old))
        given[members] = np.repeat(np.arange(len(row)), _shares(len(members), row))
    return given


def _shares(total: int, row: np.ndarray) -> np.ndarray:
    """Whole numbers near `total` times the row that sum to it: rounded down, then up where most was lost."""
    exact = total * row / row.sum()
    counts = np.floor(exact).astype(np.int64)
    lost = np.where(row > 0, exact - counts, -1.0)
    counts[np.argsort(-lost, kind="stable")[: total - counts.sum()]] += 1
    return counts


def symmetric_matrix(num_classes: int, rate: float, include_true_class: bool) -> np.ndarray:
    """(K, K): what symmetric noise does to a class."""
    others = rate / num_classes if include_true_class else rate / (num_classes - 1)
    matrix = np.full((num_classes, num_classes), others)
    np.fill_diagonal(matrix, 1 - rate + (others if include_true_class else 0.0))
    return matrix


def arrow_matrix(num_classes: int, arrows: Mapping[int, int], rate: float) -> np.ndarray:
    """(K, K): what arrows between classes do."""
    matrix = np.eye(num_classes)
    for old, new in arrows.items():
        matrix[old, old] -= rate
        matrix[old, new] += rate
    return matrix
