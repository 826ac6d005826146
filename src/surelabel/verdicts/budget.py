"""How many wrong labels a review of the first rows would find."""

from dataclasses import asdict, dataclass

import numpy as np

from surelabel.verdicts.calibration import Calibration

ROUND_BUDGETS = tuple(factor * 10**power for power in range(1, 9) for factor in (1, 2, 5))


@dataclass(frozen=True)
class Expected:
    """About `num_wrong` of the first `budget` labels are wrong, between `low` and `high`."""

    budget: int
    num_wrong: float
    low: float
    high: float
    precision: float
    """The fraction of these labels that are wrong."""
    recall: float
    """The fraction of all wrong labels, without those that a person has found, among them."""

    def to_dict(self) -> dict[str, float]:
        """Return the figures for JSON."""
        return asdict(self)


def expected(calibration: Calibration, budget: int, confidence: float, num_open: int | None = None) -> Expected:
    """Return what to expect of the first `budget` of the `num_open` first rows (default: all)."""
    left = calibration.p_wrong[:num_open]
    num_rows = min(budget, len(left))
    num_wrong, total = float(left[:num_rows].sum()), float(left.sum())
    low, high = calibration.interval(slice(0, num_rows), confidence)
    recall = num_wrong / total if total > 0 else 1.0
    return Expected(num_rows, num_wrong, low, high, num_wrong / num_rows if num_rows else 0.0, recall)


def round_budgets(num_rows: int, num_suspicious: int) -> list[int]:
    """Return round numbers up to twice the number of suspects, and that number itself."""
    sizes = {size for size in ROUND_BUDGETS if size <= min(num_rows, max(20, 2 * num_suspicious))}
    return sorted(sizes | ({num_suspicious} if num_suspicious else set()))


def handy_budget(num_rows: int, p_wrong: np.ndarray) -> int:
    """Return the largest round number of first rows that are mostly wrong."""
    hits = int((p_wrong >= 0.5).sum())
    return max((size for size in ROUND_BUDGETS if size <= max(hits, 10) and size <= num_rows), default=num_rows)
