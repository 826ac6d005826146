"""Update P(wrong) with what people decided; docs/decisions/0014 has the reasons.

Answers to random labels recalibrate P(wrong) over its whole range (`recalibration`) and give the
number of wrong labels. Answers to suspects speak for suspects: the looks at them are cut into
groups of neighbouring ranks, and in each group the answers are added to what the verdict had
expected there. Below the last suspect that was looked at, their influence soon ends. Decided rows
are certain.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, betaln, expit, logit

from surelabel.verdicts.calibration import Calibration
from surelabel.verdicts.random_sample import LEVEL, Combined, Sample
from surelabel.verdicts.recalibration import CONTRADICTED, LEAST, QUANTILE, Curves, Rows, score_of

Mask = NDArray[np.bool_]
Array = NDArray[Any]
Positions = NDArray[np.integer[Any]]

LOOKS_AT_ONCE = 10
"""Looks at suspects that are counted together."""
REACH = 1.5
"""Distance in score over which the influence of the last suspect ends."""
CONTRADICTION = np.log(10.0)
"""Log odds of the answers to suspects from which they contradict the verdict."""
LEAST_LOOKS, MOST_LOOKS = 2.0, 100.0
"""What the verdict counts as, in looks: at least, and at most."""


@dataclass(frozen=True)
class Answers:
    """What people know of N labels, in the order of the data."""

    is_decided: Mask
    """(N,) whether a person looked and decided; decisions made in bulk are no looks."""
    is_wrong: Mask
    """(N,) whether the decision was another label; False where nothing is decided."""
    sample: Sample | None = None
    """The answers to a random sample, if one was drawn."""


class ReviewedCalibration(Calibration):
    """P(wrong) after a review; a random sample, if any, says how many are wrong in all."""

    def __init__(self, rows: Rows, before: Calibration, vouched: Mask, combined: Combined | None = None) -> None:
        super().__init__(*rows)
        self.before, self.combined = before, combined
        self.vouched = vouched
        """(N,) the rows that rank no lower than the last suspect that somebody looked at."""
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
        return ReviewedCalibration(rows, self.before, self.vouched[order], self.combined)


class Updater:
    """Updates a calibration again and again, as decisions are made."""

    def __init__(self, before: Calibration, in_doubt: bool = False) -> None:
        """`in_doubt` says that mistakes may follow the inputs: then only the ranking counts."""
        self.before, self.in_doubt = before, in_doubt
        self.rows: Rows = (before.p_wrong, *before.bounds())

    @cached_property
    def curves(self) -> Curves:
        """What P(wrong) may be, before any answer."""
        return Curves(self.rows, self.in_doubt)

    def update(self, answers: Answers) -> Calibration:
        """Return the calibration after these answers; the same object if there are none."""
        sample = answers.sample
        if sample is None or not sample.is_own.any():
            if not answers.is_decided.any():
                return self.before
            settled = self._settle(self.rows, answers, answers.is_decided)
            return ReviewedCalibration(settled, self.before, self._vouched(answers.is_decided))
        outside = answers.is_decided.copy()
        outside[sample.rows[sample.is_own]] = False
        rows, combined = self._after_sample(answers, sample, outside)
        rows = _move_to(self._settle(rows, answers, outside), answers.is_decided, combined.num_wrong)
        return ReviewedCalibration(self._make_certain(rows, answers), self.before, self._vouched(outside), combined)

    def _vouched(self, looked: Mask) -> Mask:
        """Return (N,) the rows that rank no lower than the last of those `looked` at."""
        rows = looked & (self.rows[2] > 0)
        lowest = self.rows[0][rows].min() if rows.any() else np.inf
        return self.rows[0] >= lowest

    def _settle(self, rows: Rows, answers: Answers, looked: Mask) -> Rows:
        """Let the answers on the rows `looked` at speak for suspects; make these rows certain."""
        suspects = np.flatnonzero(looked & (self.rows[2] > 0))
        return self._make_certain(_follow_suspects(rows, suspects, answers.is_wrong[suspects]), answers, looked)

    def _make_certain(self, rows: Rows, answers: Answers, decided: Mask | None = None) -> Rows:
        decided, is_trusted = answers.is_decided if decided is None else decided, self.rows[2] <= 0
        certain = answers.is_wrong.astype(np.float64)
        p_wrong, low, high = (np.where(decided, certain, np.where(is_trusted, 0.0, values)) for values in rows)
        return p_wrong, np.minimum(low, p_wrong), np.maximum(high, p_wrong)

    def _after_sample(self, answers: Answers, sample: Sample, outside: Mask) -> tuple[Rows, Combined]:
        """Return P(wrong) after the answers to random labels, and the number of wrong labels."""
        rows, own = sample.rows[sample.is_own], sample.is_own
        wrong, skipped = sample.is_wrong[own], sample.is_skipped[own]
        known = answers.is_decided | (self.rows[2] <= 0)
        found = self.curves.after(rows[~skipped], wrong[~skipped], known)
        contradicts = not self.in_doubt and found.only_ranked > CONTRADICTED
        family = None if contradicts or self.in_doubt else found.by_verdict()
        model = Calibration(*self._settle(self.rows, answers, outside)).interval(slice(None), LEVEL)
        # A skipped label may be right or wrong, so both are tried.
        either = (False, True) if skipped.any() else (False,)
        tried = [self.curves.after(rows, wrong | (skipped & as_wrong), known) for as_wrong in either]
        numbers = [(one if family is None else one.by_verdict()).numbers() for one in tried]
        combined = Combined(
            sample,
            model,
            numbers[0][0] + float(answers.is_wrong.sum()),
            (numbers[0][1], numbers[-1][1]),
            contradicts,
            None if family is None else model,
        )
        return (found if family is None else family).rows(), combined


def _follow_suspects(rows: Rows, looked: Positions, wrong: Mask) -> Rows:
    """Return P(wrong) with bounds where answers on suspects are added to what was expected there.

    What the verdict says of a group counts as a number of looks: as many as would leave bounds as
    narrow as its own, but very few where the answers contradict it.
    """
    if not len(looked):
        return rows
    score = score_of(rows[0])
    order = np.argsort(-score[looked], kind="stable")
    groups = np.array_split(order, max(1, len(order) // LOOKS_AT_ONCE))
    start = np.array([[values[looked[group]].mean() for group in groups] for values in rows]).clip(LEAST, 1 - LEAST)
    mean, low, high = start
    spread = np.maximum(high - low, LEAST) / (2 * QUANTILE)
    counts_as = np.clip(mean * (1 - mean) / spread**2 - 1, LEAST_LOOKS, MOST_LOOKS)
    size = np.array([len(group) for group in groups])
    num_wrong = np.array([wrong[group].sum() for group in groups])
    evidence = [_evidence(mean, count, num_wrong, size) for count in (counts_as, LEAST_LOOKS)]
    counts_as = np.where(evidence[1] - evidence[0] > CONTRADICTION, LEAST_LOOKS, counts_as)
    first, second = counts_as * mean + num_wrong, counts_as * (1 - mean) + size - num_wrong
    ends = (betaincinv(first, second, level) for level in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    weights = counts_as + size
    now = [_pool_falling(values, weights).clip(LEAST, 1 - LEAST) for values in (first / (first + second), *ends)]
    last = score[looked].min()
    places = np.concatenate([[last - REACH, last], [score[looked[group]].mean() for group in reversed(groups)]])
    moved = []
    for values, before, after in zip(rows, start, now, strict=True):
        shift = (logit(after) - logit(before))[::-1]
        shifts = np.interp(score, places, np.concatenate([[0.0, shift[0]], shift]))
        moved.append(expit(logit(values.astype(np.float64).clip(LEAST, 1 - LEAST)) + shifts))
    return moved[0], moved[1], moved[2]


def _pool_falling(values: Array, weights: Array) -> Array:
    """Return the nearest values (G,) that never rise.

    scikit-learn's function changes the filters of warnings, which belong to the whole process.
    """
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] < pools[-1][0]:
            (first, one, count), (second, other, more) = pools[-2:]
            pools[-2:] = [((first * one + second * other) / (one + other), one + other, count + more)]
    return np.concatenate([np.full(count, value) for value, _, count in pools])


def _evidence(mean: Array, counts_as: Array | float, num_wrong: Array, size: Array) -> Array:
    """Return how likely the answers are if the verdict counts as so many looks, as a logarithm."""
    first, second = counts_as * mean, counts_as * (1 - mean)
    found: Array = betaln(first + num_wrong, second + size - num_wrong) - betaln(first, second)
    return found


def _move_to(rows: Rows, is_decided: Mask, num_wrong: float) -> Rows:
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
