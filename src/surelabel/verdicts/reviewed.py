"""Update P(wrong) with what people decided; docs/decisions/0014 has the reasons.

The bounds of P(wrong) say how far the verdict may be off at each row. They are read as a prior:
P(wrong) of a row is a function of t, which is 0 at the stored value and +-1.96 at the bounds, and t
has a standard normal distribution. t is a smooth curve over the score of rows (a Gaussian process
on a few knots), so decisions on the first suspects move rows with similar scores and leave others
alone. People choose what to review by its score, and the curve is conditional on the score, so
the order of review does not bias it. Decisions that the bounds hardly allow make them wider.
Decided rows are certain.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri

from surelabel.verdicts.calibration import Calibration
from surelabel.verdicts.random_sample import LEVEL, Combined, Sample, combine

Array = NDArray[Any]
Mask = NDArray[np.bool_]
Rows = tuple[Array, Array, Array]
"""P(wrong), its lower and its upper bound, each (N,)."""

QUANTILE = 1.959963984540054
"""Bounds are for 95 %: this many standard deviations of t."""
LEAST = 1e-9
"""No P(wrong) of an undecided row is closer to 0 or 1."""
MOST_ODDS = 4.0
"""Log odds of P(wrong) beyond which only the rank of a row tells its score from others."""
KNOTS = np.linspace(-5, 5, 26)
"""Scores at which t is fitted."""
REACH = 1.0
"""Distance in score over which a decision influences others."""
LEAST_ODDS, LEAST_RATE = 0.25, 0.002
"""Log odds, and probability, by which t moves a row even where bounds allow nothing."""
SCALES = {1.0: 0.0, 2.0: -2.0, 8.0: -4.0, 32.0: -6.0, 128.0: -8.0, 512.0: -10.0}
"""Factors by which bounds may have to be widened near decisions, with their prior log weights."""
NUM_STEPS = 50
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Answers:
    """What people know of N labels, in the order of the data."""

    is_decided: Mask
    is_wrong: Mask
    """(N,) whether the decision was another label; False where nothing is decided."""
    sample: Sample | None = None
    """The answers to a random sample, if one was drawn."""


class ReviewedCalibration(Calibration):
    """P(wrong) after a review; a random sample, if any, says how many are wrong in all."""

    def __init__(self, rows: Rows, before: Calibration, combined: Combined | None = None) -> None:
        super().__init__(*rows)
        self.before, self.combined = before, combined
        # With a random sample, the width of its interval says whether the rate is known.
        self.is_separated = before.is_separated or combined is not None

    def is_separated_for(self, verdict: str) -> bool:
        """Return whether labels can be told apart among rows with this kind of verdict."""
        return self.before.is_separated_for(verdict) or self.combined is not None

    def interval(self, rows: np.ndarray | slice, confidence: float) -> tuple[float, float]:
        """Add up the bounds of these rows; what is known of all rows limits any part of them."""
        fewest, most = super().interval(rows, confidence)
        if self.combined is None:
            return fewest, most
        others = np.ones(len(self.p_wrong), dtype=bool)
        others[rows] = False
        least, largest = self.combined.interval(confidence)
        if not others.any():
            return least, largest
        fewest = max(fewest, least - super().interval(np.flatnonzero(others), confidence)[1])
        return min(fewest, least), min(most, largest)

    def reorder(self, order: np.ndarray) -> "ReviewedCalibration":
        """Return the same for rows in another order."""
        rows = self.p_wrong[order], self.low[order], self.high[order]
        return ReviewedCalibration(rows, self.before, self.combined)


def update(before: Calibration, answers: Answers) -> Calibration:
    """Return the calibration after these answers; the same object if there are none."""
    sample = answers.sample
    if not answers.is_decided.any() and (sample is None or not sample.is_own.any()):
        return before
    rows = _update_rows(before, answers, answers.is_decided)
    if sample is None or not sample.is_own.any():
        return ReviewedCalibration(rows, before)
    combined = _combine(before, answers, sample)
    return ReviewedCalibration(_shift(rows, answers.is_decided, combined.num_wrong), before, combined)


def _combine(before: Calibration, answers: Answers, sample: Sample) -> Combined:
    """Combine the sample with the model, updated by all decisions outside the sample."""
    outside = answers.is_decided.copy()
    outside[sample.rows[sample.is_own]] = False
    model = Calibration(*_update_rows(before, answers, outside))
    by_model = float(model.p_wrong.sum()), model.interval(slice(None), LEVEL)
    is_known = outside | (before.bounds()[1] <= 0)
    fewest = int(answers.is_wrong.sum())
    most = fewest + int((~answers.is_decided & ~is_known).sum())
    return combine(sample, by_model, sample.assisted(model.p_wrong, is_known), (fewest, most))


def _update_rows(before: Calibration, answers: Answers, used: Mask) -> Rows:
    """Return P(wrong) of every row with its bounds, given the answers on the rows `used`."""
    low, high = before.bounds()
    values = before.p_wrong, low, high
    may_be_wrong = high > 0
    rows = np.flatnonzero(used & may_be_wrong)
    if len(rows):
        model = _Model.of(*values)
        middle, spread = _fit(model, rows, answers.is_wrong[rows])
        least, most = (model.p_wrong(middle + step * spread) for step in (-QUANTILE, QUANTILE))
        values = model.p_wrong(middle), least, most
    certain = answers.is_wrong.astype(np.float64)
    p_wrong, low, high = (np.where(used, certain, np.where(may_be_wrong, one, 0.0)) for one in values)
    return p_wrong, np.minimum(low, p_wrong), np.maximum(high, p_wrong)


@dataclass(frozen=True)
class _Model:
    """P(wrong) of rows as a function of t: their bounds are at t = -QUANTILE and t = QUANTILE.

    Below 0, log P(wrong) is a straight line in t; above 0, log P(right) is. `down` and `up` are
    their slopes, so P(wrong) never leaves (0, 1).
    """

    start: Array
    down: Array
    up: Array
    place: Array
    """(N,) where the score of each row is among the knots, such as 3.2 between knots 3 and 4."""

    @classmethod
    def of(cls, p_wrong: Array, low: Array, high: Array) -> "_Model":
        exact = (values.astype(np.float64) for values in (p_wrong, low, high))  # 1 - LEAST is 1 in single precision
        start, least, most = (values.clip(LEAST, 1 - LEAST) for values in exact)
        down = np.log(start / np.minimum(least, start)) / QUANTILE
        up = np.log((1 - start) / (1 - np.maximum(most, start))) / QUANTILE
        down = np.maximum(down, LEAST_ODDS * (1 - start) + LEAST_RATE)
        up = np.maximum(up, LEAST_ODDS * start + LEAST_RATE)
        return cls(start, down, up, np.interp(_score(start), KNOTS, np.arange(len(KNOTS))))

    def take(self, rows: NDArray[np.integer[Any]]) -> "_Model":
        return _Model(self.start[rows], self.down[rows], self.up[rows], self.place[rows])

    def weights(self) -> Array:
        """Return (N, B): t of a row is this mean of t at the knots."""
        left = self._left()
        rows, weights = np.arange(len(left)), np.zeros((len(left), len(KNOTS)))
        weights[rows, left], weights[rows, left + 1] = 1 - (self.place - left), self.place - left
        return weights

    def moments(self, mode: Array, covariance: Array) -> tuple[Array, Array]:
        """Return (N,) mean and standard deviation of t, without (N, B) weights."""
        left = self._left()
        share = self.place - left
        mean = (1 - share) * mode[left] + share * mode[left + 1]
        variance = (1 - share) ** 2 * covariance[left, left] + share**2 * covariance[left + 1, left + 1]
        variance += 2 * share * (1 - share) * covariance[left, left + 1]
        return mean, np.sqrt(np.maximum(variance, 0))

    def _left(self) -> NDArray[np.int64]:
        return np.minimum(self.place.astype(np.int64), len(KNOTS) - 2)

    def p_wrong(self, t: Array) -> Array:
        fewer = self.start * np.exp(self.down * np.minimum(t, 0))
        more = 1 - (1 - self.start) * np.exp(-self.up * np.maximum(t, 0))
        values: Array = np.where(t < 0, fewer, more).clip(LEAST, 1 - LEAST)
        return values

    def likelihood(self, t: Array, wrong: Mask) -> float:
        """Return the log likelihood of the answers."""
        p_wrong = self.p_wrong(t)
        return float(np.where(wrong, np.log(p_wrong), np.log1p(-p_wrong)).sum())

    def derivatives(self, t: Array, wrong: Mask) -> tuple[Array, Array]:
        """Return (N,) the slope of the log likelihood in t, and its curvature, turned positive."""
        p_wrong = self.p_wrong(t)
        odds = p_wrong / (1 - p_wrong)
        below = np.where(wrong, self.down, -self.down * odds), np.where(wrong, 0, self.down**2 * odds / (1 - p_wrong))
        above = np.where(wrong, self.up / odds, -self.up), np.where(wrong, self.up**2 / (odds * p_wrong), 0)
        return np.where(t < 0, below[0], above[0]), np.where(t < 0, below[1], above[1])


def _score(p_wrong: Array) -> Array:
    """Return (N,) scores: the rank as a quantile of the normal distribution, plus half log odds."""
    from scipy.stats import rankdata  # takes a second to load

    rank = (rankdata(p_wrong) - 0.5) / len(p_wrong)
    score: Array = ndtri(rank) + 0.5 * np.clip(logit(p_wrong), -MOST_ODDS, MOST_ODDS)
    return score


def _fit(model: _Model, rows: NDArray[np.integer[Any]], wrong: Mask) -> tuple[Array, Array]:
    """Return (N,) mean and standard deviation of t, with the likeliest factor of SCALES.

    Far from all decisions the standard deviation stays 1, whatever the factor is.
    """
    smooth = np.exp(-0.5 * ((KNOTS[:, None] - KNOTS) / REACH) ** 2) + 1e-6 * np.eye(len(KNOTS))
    decided = model.take(rows)
    fits = {scale: _approximate(decided, wrong, scale**2 * smooth) for scale in SCALES}
    best = max(fits, key=lambda scale: fits[scale].evidence + SCALES[scale])
    mean, spread = model.moments(fits[best].mode, fits[best].covariance)
    known = 1 - np.minimum(spread / best, 1) ** 2
    return mean, spread / best * (1 + (best - 1) * known)


@dataclass(frozen=True)
class _Fit:
    """t at the knots: its mode, (B, B) covariance, and the log evidence of the answers."""

    mode: Array
    covariance: Array
    evidence: float


def _approximate(model: _Model, wrong: Mask, covariance: Array) -> _Fit:
    """Fit t at the knots by Laplace's approximation."""
    weights, precision = model.weights(), np.linalg.inv(covariance)

    def loss(mode: Array) -> float:
        return float(0.5 * mode @ precision @ mode) - model.likelihood(weights @ mode, wrong)

    mode = np.zeros(len(KNOTS))
    value = loss(mode)
    for _ in range(NUM_STEPS):
        slope, curvature = model.derivatives(weights @ mode, wrong)
        hessian = precision + weights.T @ (weights * curvature[:, None])
        step = np.linalg.solve(hessian, weights.T @ slope - precision @ mode)
        while (trial := loss(mode + step)) > value and np.abs(step).max() > TOLERANCE:
            step = step / 2
        if value - trial < TOLERANCE:
            break
        mode, value = mode + step, trial
    curvature = model.derivatives(weights @ mode, wrong)[1]
    found = weights.T @ (weights * curvature[:, None])
    determinant = float(np.linalg.slogdet(np.eye(len(mode)) + covariance @ found)[1])
    return _Fit(mode, np.linalg.inv(precision + found), -value - 0.5 * determinant)


def _shift(rows: Rows, is_decided: Mask, num_wrong: float) -> Rows:
    """Shift the log odds of undecided rows so that P(wrong) adds up to this number."""
    is_open = ~is_decided & (rows[2] > 0)
    odds = [logit(values[is_open].clip(LEAST, 1 - LEAST)) for values in rows]
    wanted = num_wrong - float(rows[0][~is_open].sum())
    low, high = -20.0, 20.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(odds[0] + middle).sum() < wanted else (low, middle)
    shifted = [values.copy() for values in rows]
    for values, start in zip(shifted, odds, strict=True):
        values[is_open] = expit(start + middle)
    return shifted[0], shifted[1], shifted[2]
