"""P(label is wrong) of every row, and intervals for the number of wrong labels among any of them."""

from statistics import NormalDist

import numpy as np

from surelabel.verdicts.curve import NUM_RESAMPLES, Curve, own_word

MISPLACED = 0.02
"""Share of labels on the wrong side of any group, which no resampling can see: docs/decisions/0007."""


class Calibration:
    """Rows by quality, in parts that have a curve each; rows in no part are surely right."""

    def __init__(self, quality: np.ndarray, rows: list[np.ndarray], curves: list[Curve]) -> None:
        self.quality, self.curves = quality, curves
        self.part = np.full(len(quality), -1)
        self.p_wrong = np.zeros(len(quality))
        for number, (where, curve) in enumerate(zip(rows, curves, strict=True)):
            self.part[where] = number
            self.p_wrong[where] = curve.at(quality[where])

    @classmethod
    def unfitted(cls, quality: np.ndarray) -> "Calibration":
        """Without a run behind it: P(wrong) is 1 - quality."""
        return cls(quality, [np.arange(len(quality))], [own_word(most=1.0)])

    def ordered(self, order: np.ndarray) -> "Calibration":
        """The same for the rows in another order."""
        part = self.part[order]
        rows = [np.flatnonzero(part == number) for number in range(len(self.curves))]
        return Calibration(self.quality[order], rows, self.curves)

    @property
    def is_separated(self) -> bool:
        """Whether right and wrong labels come apart, in every part."""
        return all(curve.is_separated for curve in self.curves)

    def is_separated_at(self, row: int) -> bool:
        """Whether they do among rows of this one's kind."""
        return bool(self.part[row] >= 0 and self.curves[self.part[row]].is_separated)

    def interval(self, rows: np.ndarray | slice, confidence: float) -> tuple[float, float]:
        """Between which numbers of wrong labels the truth lies among these rows.

        Resampling says how far the groups may move, the lower and upper curves which of them may count; some labels are misplaced anyway.
        """
        p_wrong, tail = self.p_wrong[rows], (1 - confidence) / 2
        low, high = self._resampled(rows)
        num_open = float((self.part[rows] >= 0).sum())
        expected, slack = float(p_wrong.sum()), _slack(p_wrong, tail) + MISPLACED * num_open
        lower = min(expected, float(np.quantile(low, tail))) - slack
        upper = max(expected, float(np.quantile(high, 1 - tail))) + slack
        return max(0.0, lower), min(num_open, upper)

    def _resampled(self, rows: np.ndarray | slice) -> tuple[np.ndarray, np.ndarray]:
        """(R,) numbers of wrong labels by the lower and by the upper curves."""
        low, high = np.zeros(NUM_RESAMPLES), np.zeros(NUM_RESAMPLES)
        quality, part = self.quality[rows], self.part[rows]
        for number, curve in enumerate(self.curves):
            fewer, more = curve.counts(quality[part == number])
            low, high = low + fewer, high + more
        return low, high


def _slack(p_wrong: np.ndarray, tail: float) -> float:
    """For rows on which the groups overlap: as many as are expected on the wrong side of 1/2, and chance at least."""
    chance = -NormalDist().inv_cdf(tail) * float(np.sqrt((p_wrong * (1 - p_wrong)).sum()))
    return max(float(np.minimum(p_wrong, 1 - p_wrong).sum()), chance)
