"""Wrong labels by class: rates, the transition matrix, and pairs of confused classes."""

from dataclasses import dataclass

import numpy as np

from surelabel.verdicts.calibration import Calibration


@dataclass(frozen=True)
class Rate:
    """How many of some labels are wrong, with the ends of an interval."""

    num_labels: int
    num_wrong: float
    low: float
    high: float

    @property
    def rate(self) -> float | None:
        """The fraction of wrong labels; None without labels."""
        return self.num_wrong / self.num_labels if self.num_labels else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends as fractions; None without labels."""
        return (self.low / self.num_labels, self.high / self.num_labels) if self.num_labels else None

    def to_dict(self) -> dict[str, object]:
        """Return the figures for JSON."""
        ends = self.interval
        return {
            "labels": self.num_labels,
            "wrong": self.num_wrong,
            "rate": self.rate,
            "interval": None if ends is None else list(ends),
        }


@dataclass(frozen=True)
class Pair:
    """About `num_labels` labels `given` belong to the class `true`."""

    given: str
    true: str
    num_labels: float
    share_of_given: float


def rows_by_name(names: np.ndarray) -> dict[str, np.ndarray]:
    """Return the rising positions of each of the names in (N,) `names`."""
    found, number = np.unique(names, return_inverse=True)
    order = np.argsort(number, kind="stable")
    ends = np.cumsum(np.bincount(number, minlength=len(found)))
    return {name: order[start:end] for name, start, end in zip(found.tolist(), [0, *ends], ends, strict=False)}


def rate_of(calibration: Calibration, rows: np.ndarray, confidence: float) -> Rate:
    """Estimate how many labels of these rows are wrong, in whichever order they come."""
    low, high = (end[rows] for end in calibration.bounds())
    rows = rows[np.lexsort((-high, -low, -calibration.p_wrong[rows]))]
    low, high = calibration.interval(rows, confidence)
    return Rate(len(calibration.p_wrong[rows]), float(calibration.p_wrong[rows].sum()), low, high)


def joint_counts(given: np.ndarray, p_wrong: np.ndarray, alternatives: np.ndarray) -> np.ndarray:
    """Return (K, K) expected numbers of labels by true class (row) and given class (column)."""
    num_classes = alternatives.shape[1]
    counts = np.zeros((num_classes, num_classes))
    for label in range(num_classes):
        rows = given == label
        counts[:, label] = p_wrong[rows] @ alternatives[rows]
        counts[label, label] += (1 - p_wrong[rows]).sum()
    return counts


def transition_matrix(counts: np.ndarray) -> np.ndarray:
    """Return (K, K) P(given | true); a class that no row belongs to keeps its labels."""
    total = counts.sum(1, keepdims=True)
    return np.where(total > 1e-9, counts / np.maximum(total, 1e-9), np.eye(len(counts)))


def confused_pairs(counts: np.ndarray, class_names: tuple[str, ...], most: int) -> list[Pair]:
    """Return the pairs with the most wrong labels, at least half a label each."""
    wrong = counts * (1 - np.eye(len(counts)))
    of_given = np.maximum(counts.sum(0), 1e-9)
    order = np.argsort(-wrong, axis=None, kind="stable")[:most]
    pairs = (divmod(int(place), len(counts)) for place in order)
    return [
        Pair(
            class_names[given],
            class_names[true],
            float(wrong[true, given]),
            float(wrong[true, given] / of_given[given]),
        )
        for true, given in pairs
        if wrong[true, given] >= 0.5
    ]
