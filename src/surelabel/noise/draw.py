"""Draw noisy labels from clean ones, by class map or transition matrix.

Members of a class are always looked up in the CLEAN labels. Several published implementations look
in labels that they have already changed: cats that became dogs then turn back, and 24 % of the cats
are wrong instead of 40 %.
"""

from collections.abc import Mapping

import numpy as np


def draw_symmetric(
    clean: np.ndarray, num_classes: int, rate: float, include_true_class: bool, rng: np.random.Generator
) -> np.ndarray:
    """Give exactly round(rate N) rows another class, or with `include_true_class` any class."""
    given = clean.copy()
    rows = rng.choice(len(clean), round(rate * len(clean)), replace=False)
    if include_true_class:
        given[rows] = rng.integers(0, num_classes, len(rows))
    else:
        # One of the K - 1 others: draw from 0..K-2, then add one from the true class on to skip it.
        other = rng.integers(0, num_classes - 1, len(rows))
        given[rows] = other + (other >= clean[rows])
    return given


def draw_by_class_map(
    clean: np.ndarray, class_map: Mapping[int, int], rate: float, rng: np.random.Generator
) -> np.ndarray:
    """Relabel exactly round(rate n) of the n rows of each class in the map."""
    given = clean.copy()
    for old in sorted(class_map):
        members = np.flatnonzero(clean == old)
        given[rng.choice(members, round(rate * len(members)), replace=False)] = class_map[old]
    return given


def draw_independent(clean: np.ndarray, matrix: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw the label of each row independently, from the transition matrix's row for its class."""
    cumulated = np.cumsum(matrix, axis=1)
    # The last value is then exactly 1, so that rounding never selects a class of probability 0.
    cumulated /= cumulated[:, -1:]
    given, uniform = clean.copy(), rng.random(len(clean))
    for old in range(len(matrix)):
        members = np.flatnonzero(clean == old)
        given[members] = np.searchsorted(cumulated[old], uniform[members], side="right")
    return given


def draw_exact_counts(clean: np.ndarray, matrix: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Give each class the counts of the transition matrix, to rows that are drawn."""
    given = clean.copy()
    for old, row in enumerate(matrix):
        members = rng.permutation(np.flatnonzero(clean == old))
        given[members] = np.repeat(np.arange(len(row)), _round_to_total(len(members), row))
    return given


def _round_to_total(total: int, row: np.ndarray) -> np.ndarray:
    """Return whole numbers close to `total` times the row, with the sum `total`.

    All are rounded down; those with the largest remainders are then raised by one.
    """
    exact = total * row / row.sum()
    counts: np.ndarray = np.floor(exact).astype(np.int64)
    remainder = np.where(row > 0, exact - counts, -1.0)
    counts[np.argsort(-remainder, kind="stable")[: total - counts.sum()]] += 1
    return counts


def symmetric_matrix(num_classes: int, rate: float, include_true_class: bool) -> np.ndarray:
    """Return the (K, K) transition matrix of symmetric noise."""
    others = rate / num_classes if include_true_class else rate / (num_classes - 1)
    matrix = np.full((num_classes, num_classes), others)
    np.fill_diagonal(matrix, 1 - rate + (others if include_true_class else 0.0))
    return matrix


def class_map_matrix(num_classes: int, class_map: Mapping[int, int], rate: float) -> np.ndarray:
    """Return the (K, K) transition matrix of noise that follows a class map."""
    matrix = np.eye(num_classes)
    for old, new in class_map.items():
        matrix[old, old] -= rate
        matrix[old, new] += rate
    return matrix
