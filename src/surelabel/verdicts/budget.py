"""What looking at the first so many labels brings."""

from dataclasses import asdict, dataclass

import numpy as np

from surelabel.verdicts.calibration import Calibration

ROUND_BUDGETS = tuple(factor * 10**power for power in range(1, 9) for factor in (1, 2, 5))


@dataclass(frozen=True)
class Expected:
    """Among the first `budget` labels about `num_wrong` are wrong, at least `low` and at most `high`."""

    budget: int
    num_wrong: float
    low: float
    high: float
    precision: float
    recall: float

    def to_dict(self) -> dict[str, float]:
        """For JSON."""
        return asdict(self)


def expected(calibration: Calibration, budget: int, confidence: float) -> Expected:
    """For a calibration whose rows are ranked."""
    num_rows = min(budget, len(calibration.p_wrong))
    num_wrong, total = float(calibration.p_wrong[:num_rows].sum()), float(calibration.p_wrong.sum())
    low, high = calibration.interval(slice(0, num_rows), confidence)
    recall = num_wrong / total if total > 0 else 1.0
    return Expected(num_rows, num_wrong, low, high, num_wrong / num_rows if num_rows else 0.0, recall)


def round_budgets(num_rows: int, num_suspicious: int) -> list[int]:
    """Sizes to show: round numbers up to twice the number of suspects, and the suspects themselves."""
    sizes = {size for size in ROUND_BUDGETS if size <= min(num_rows, max(20, 2 * num_suspicious))}
    return sorted(sizes | ({num_suspicious} if num_suspicious else set()))


def handy_budget(num_rows: int, p_wrong: np.ndarray) -> int:
    """One round size for a sentence: the largest that most of the time still hits a wrong label."""
    hits = int((p_wrong >= 0.5).sum())
    return max((size for size in ROUND_BUDGETS if size <= max(hits, 10) and size <= num_rows), default=num_rows)
