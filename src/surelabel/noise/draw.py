"""Draw noisy labels from clean ones, by class map or transition matrix.

Members of a class are always looked up in the CLEAN labels. Several published implementations look
in labels that they have already changed: cats that became dogs then turn back, and 24 % of the cats
are wrong instead of 40 %.

Rows of a transition matrix are made when their class is drawn, so that many classes take no K x K.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

TransitionRow = Callable[[int], np.ndarray]
"""Maps a clean class to the probabilities (K,) of the labels that its rows are given."""


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
    given, members_of = clean.copy(), dict(_members_by_class(clean))
    for old in sorted(class_map):
        members = members_of.get(old, np.empty(0, dtype=np.int64))
        given[rng.choice(members, round(rate * len(members)), replace=False)] = class_map[old]
    return given


def draw_independent(clean: np.ndarray, row: TransitionRow, rng: np.random.Generator) -> np.ndarray:
    """Draw the label of each row independently, from the transition probabilities of its class."""
    given, uniform = clean.copy(), rng.random(len(clean))
    for old, members in _members_by_class(clean):
        cumulated = np.cumsum(row(old))
        # The last value is then exactly 1, so that rounding never selects a class of probability 0.
        cumulated /= cumulated[-1]
        given[members] = np.searchsorted(cumulated, uniform[members], side="right")
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


def symmetric_row(num_classes: int, rate: float, include_true_class: bool) -> TransitionRow:
    """Return the transition probabilities of symmetric noise."""
    others = rate / num_classes if include_true_class else rate / (num_classes - 1)

    def row(old: int) -> np.ndarray:
        found = np.full(num_classes, others)
        found[old] = 1 - rate + (others if include_true_class else 0.0)
        return found

    return row


def class_map_row(num_classes: int, class_map: Mapping[int, int], rate: float) -> TransitionRow:
    """Return the transition probabilities of noise that follows a class map."""

    def row(old: int) -> np.ndarray:
        found = np.zeros(num_classes)
        found[old] = 1.0
        if old in class_map:
            found[old] -= rate
            found[class_map[old]] += rate
        return found

    return row


def expected_rate(clean: np.ndarray, row: TransitionRow) -> float:
    """Return the fraction of labels that transition probabilities make wrong on average."""
    classes, counts = np.unique(clean, return_counts=True)
    wrong = np.array([1 - row(old)[old] for old in classes.tolist()])
    return float(counts @ wrong) / max(1, len(clean))


def _members_by_class(clean: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the classes that occur, in order, each with its ascending row numbers."""
    order = np.argsort(clean, kind="stable")
    classes, starts = np.unique(clean[order], return_index=True)
    yield from zip(classes.tolist(), np.split(order, starts[1:]), strict=False)
