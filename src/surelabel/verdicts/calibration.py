"""P(wrong) of every label with its bounds, and intervals for the number of wrong ones among any.

Training stores the three columns in samples.parquet: they come from a second opinion (`judgement`)
or, where none is possible, from training alone (`curve`). Nothing is fitted afterwards.
"""

from collections.abc import Mapping
from statistics import NormalDist

import numpy as np

from surelabel.errors import RunError
from surelabel.runs.run_dir import OPINION_FILE, RunDir

MIN_ROWS = 50
"""With fewer rows training alone says nothing, and P(wrong) is 1 - quality."""
LEAST_COUNT = 0.5
"""A lower end of fewer wrong labels is none."""
SEPARATED = "separated"
"""In second_opinion.json: whether right and wrong labels came apart, by kind of verdict."""


class Calibration:
    """P(wrong) of N labels with its bounds for 95 %."""

    def __init__(
        self, p_wrong: np.ndarray, low: np.ndarray, high: np.ndarray, separated: Mapping[str, bool] | None = None
    ) -> None:
        self.p_wrong, self.low, self.high = p_wrong, low, high
        self.separated = dict(separated or {})
        """By kind of verdict: whether right and wrong labels can be told apart; True if missing."""
        self.is_separated = all(self.separated.values())

    def is_separated_for(self, verdict: str) -> bool:
        """Return whether right and wrong labels can be told apart among rows of this kind."""
        return self.separated.get(verdict, True)

    def interval(self, rows: np.ndarray | slice, confidence: float) -> tuple[float, float]:
        """Return the least and the largest plausible number of wrong labels among these rows.

        Their bounds are added up and widened by chance. They are stored for 95 % and move with the
        quantile of the normal distribution. More rows of a ranked table never hold fewer wrong
        labels, so the lower end never falls.
        """
        quantile = NormalDist().inv_cdf((1 + confidence) / 2)
        scale = quantile / NormalDist().inv_cdf(0.975)
        p_wrong, low, high = (values[rows] for values in (self.p_wrong, self.low, self.high))
        low, high = p_wrong - scale * (p_wrong - low), p_wrong + scale * (high - p_wrong)
        chance = quantile * np.sqrt(np.cumsum(p_wrong * (1 - p_wrong)))
        if not len(p_wrong):
            return 0.0, 0.0
        fewest = float(np.max(np.cumsum(low.clip(0)) - chance))
        most = float(high.clip(max=1).sum() + chance[-1])
        num_open = float((self.high[rows] > 0).sum())
        return max(0.0, fewest if fewest >= LEAST_COUNT else 0.0), min(num_open, most)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the (N,) bounds of P(wrong) of every row, for 95 %."""
        return self.low, self.high

    def reorder(self, order: np.ndarray) -> "Calibration":
        """Return the same for some rows, or all of them in another order."""
        return Calibration(self.p_wrong[order], self.low[order], self.high[order], self.separated)


def read_calibration(run: RunDir, columns: Mapping[str, np.ndarray]) -> Calibration:
    """Return the calibration of a finished run, whose samples.parquet has these columns."""
    separated = run.second_opinion().get(SEPARATED, {})
    if not isinstance(separated, dict) or not all(isinstance(value, bool) for value in separated.values()):
        raise RunError(f"{run.path / OPINION_FILE}: {SEPARATED}: expected true or false for each kind of verdict")
    return Calibration(columns["p_wrong"], columns["p_wrong_low"], columns["p_wrong_high"], separated)


def uncalibrated(quality: np.ndarray, verdict: str) -> Calibration:
    """Return 1 - quality for rows of one kind, with bounds that say nothing."""
    doubt = 1 - np.nan_to_num(np.asarray(quality, dtype=np.float64), nan=0.5)
    return Calibration(doubt, np.zeros(len(doubt)), np.ones(len(doubt)), {verdict: False})
