"""How many wrong labels a review of the first rows would find, and how far it is worth going."""

from dataclasses import asdict, dataclass

import numpy as np

from surelabel.verdicts.calibration import Calibration

ROUND = tuple(factor * 10**power for power in range(1, 9) for factor in (1, 2, 5))
MOST_LENGTHS = 6
"""Lengths that are shown, with the number of suspects and the list that is worth a look."""
ENOUGH = 0.95
"""Expected recall beyond which no longer list is shown."""
STEEP = 1.5
"""Where the labels added to a list are wrong less often than this many times the mean, it ends."""
MOST_ROWS = 0.5
"""Fraction of all rows that a list holds at most: who looks at more may as well look at all."""


@dataclass(frozen=True)
class Expected:
    """About `num_wrong` of the first `budget` labels are wrong, between `low` and `high`."""

    budget: int
    num_wrong: float
    low: float
    high: float
    precision: float
    """The fraction of these labels that are wrong."""
    precision_low: float
    precision_high: float
    recall: float
    """The fraction of all wrong labels, without those that a person has found, among them."""
    recall_low: float
    recall_high: float

    def to_dict(self) -> dict[str, float]:
        """Return the figures for JSON."""
        return asdict(self)


def expected(calibration: Calibration, budget: int, confidence: float, num_open: int | None = None) -> Expected:
    """Return what to expect of the first `budget` of the `num_open` first rows (default: all).

    Recall is least with the fewest wrong labels in the list and the most in the rest.
    """
    left = calibration.p_wrong[:num_open]
    size = min(budget, len(left))
    num_wrong, total = float(left[:size].sum()), float(left.sum())
    low, high = calibration.interval(slice(0, size), confidence)
    fewest, most = calibration.interval(slice(size, len(left)), confidence)
    return Expected(
        budget=size,
        num_wrong=num_wrong,
        low=low,
        high=high,
        precision=num_wrong / max(size, 1),
        precision_low=low / max(size, 1),
        precision_high=high / max(size, 1),
        recall=_share(num_wrong, total - num_wrong),
        recall_low=_share(low, most),
        recall_high=_share(high, fewest),
    )


def _share(found: float, missed: float) -> float:
    """Return the fraction that is found; all of it if there is nothing to find."""
    return found / (found + missed) if found + missed > 0 else 1.0


def worth_a_look(calibration: Calibration, num_open: int, num_suspicious: int, min_probability: float) -> int:
    """Return the length of the list that is worth a look: the suspects, and those that may be some.

    These are the labels whose upper bound of P(wrong) reaches that of suspects, measured from the
    bound of the surest label, because in doubt even that may be wrong. Where nothing is known it
    may be all rows, so the list ends at half of them (docs/decisions/0029).
    """
    may_be_right = 1 - calibration.bounds()[1][:num_open]
    may_be = may_be_right <= (1 - min_probability) * may_be_right.max(initial=0)
    longest = min(int(may_be.sum()), int(MOST_ROWS * num_open))
    return max(num_suspicious, _two_digits(longest))


def _two_digits(size: int) -> int:
    """Round down to two digits, as in 1,234 to 1,200."""
    unit: int = 10 ** max(0, len(str(size)) - 2)
    return size // unit * unit


def lengths(p_wrong: np.ndarray, *special: int) -> list[int]:
    """Return about six lengths of a list of rows by falling P(wrong), the `special` ones included.

    They go on beyond the special ones, until nearly all wrong labels are expected in the list, or
    until the labels added last are hardly wrong more often than the mean.
    """
    if not len(p_wrong):
        return []
    found = np.concatenate([[0], np.cumsum(p_wrong, dtype=np.float64)])
    sizes: list[int] = []
    for size in (size for size in ROUND if size <= len(p_wrong)):
        last = sizes[-1] if sizes else 0
        sizes.append(size)
        is_flat = found[size] - found[last] < STEEP * (size - last) * found[-1] / len(p_wrong)
        if size > max(special, default=0) and (is_flat or found[size] >= ENOUGH * found[-1]):
            break
    chosen = {size for size in special if size} or {min(ROUND[0], len(p_wrong))}
    places = np.linspace(0, len(sizes) - 1, min(len(sizes), MOST_LENGTHS - len(chosen))).round().astype(int)
    return sorted(chosen | {sizes[place] for place in places.tolist()})
