"""Recalibrate P(wrong) by answers to random labels: a posterior over curves from rank to P(wrong).

Rows are ordered by P(wrong) and cut into bins. A curve gives every bin a P(wrong). Two families
compete. In the first the verdict holds: its curves lie between the bounds of P(wrong), at t = 0
where it says, at t = -1.96 and 1.96 on the bounds, with t standard normal. In the second only its
ranking holds: log odds are a straight line over the score of a row, with any slope from flat to
steep and any rate of wrong labels. Both are written out on a grid, so the posterior is exact: no
sampling and no approximation. Where mistakes may follow the inputs, only the second takes part.

Answers choose among the curves. The number of wrong labels is then a mixture over curves, and its
interval narrows as fast as the ranking is good. docs/decisions/0014 has the measurements.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, logsumexp, ndtr, ndtri

Array = NDArray[Any]
Mask = NDArray[np.bool_]
Rows = tuple[Array, Array, Array]
"""P(wrong), its lower and its upper bound, each (N,)."""

QUANTILE = 1.959963984540054
"""Bounds are for 95 %: this many standard deviations of t."""
LEAST = 1e-9
"""No P(wrong) of an open row is closer to 0 or 1."""
NUM_BINS = 200
MOST_ODDS = 4.0
"""Log odds of P(wrong) beyond which only the rank of a row tells its score from others."""
SHIFTS = np.linspace(-4, 4, 81)
"""Values of t."""
RATES = np.append(0.0005, np.sin(np.linspace(0.03, np.pi / 2 - 0.03, 60)) ** 2)
"""Rates of wrong labels, even on the scale of Jeffreys' prior."""
SLOPES = np.append([0.0, 0.15, 0.3, 0.45], np.linspace(0.65, 4, 14))
"""Slopes of the log odds over the standardised score."""
MEAN_SLOPE = 2.0
LEAST_ODDS, LEAST_RATE = 0.05, 0.0005
"""Log odds, and probability, by which t moves a bin even where bounds allow nothing."""
ONLY_RANKED = 0.02
"""Prior probability that only the ranking holds, where nothing raises doubt."""
CONTRADICTED = 0.5
"""Posterior probability from which the answers contradict the verdict."""
COUNTS_AS = 0.5
"""What an answer counts as for a curve between bounds: rows of a bin differ in other ways, too."""
WIDER = 0.7
"""Tails are cut by this factor, because no curve of either family is quite right."""
NUM_STEPS = 40
NEGLIGIBLE = 1e-6
"""Curves with smaller weights are left out of the number of wrong labels."""
NUM_POINTS = 501
"""Numbers of wrong labels at which their distribution is computed, at most."""


class Curves:
    """Both families of curves over the open rows of a verdict, with their prior."""

    def __init__(self, rows: Rows, in_doubt: bool) -> None:
        self.before, self.is_open, self.in_doubt = rows, rows[2] > 0, in_doubt
        p_wrong, low, high = (values[self.is_open].astype(np.float64).clip(LEAST, 1 - LEAST) for values in rows)
        score = score_of(p_wrong)
        parts = np.array_split(np.argsort(score, kind="stable"), min(NUM_BINS, len(score)))
        self.size = np.array([len(part) for part in parts], dtype=np.float64)
        self.bin = np.full(len(self.is_open), -1)
        number = np.empty(len(score), dtype=np.int64)
        for place, part in enumerate(parts):
            number[part] = place
        self.bin[self.is_open] = number
        self.score = score
        self.centre = np.array([score[part].mean() for part in parts])
        self.start = np.stack([[values[part].mean() for part in parts] for values in (p_wrong, low, high)])
        first, second = self._between_bounds(), self._by_rank()
        self.num_first = len(first[0])
        self.p_wrong = np.concatenate([first[0], second[0]]).clip(LEAST, 1 - LEAST)
        """(G, B) what each curve says of each bin."""
        self.log_wrong, self.log_right = np.log(self.p_wrong), np.log1p(-self.p_wrong)
        self.order = self.p_wrong.argsort(0)
        """(G, B) the curves by rising P(wrong), for each bin."""
        weights = (0.0, 1.0) if in_doubt else (1 - ONLY_RANKED, ONLY_RANKED)
        with np.errstate(divide="ignore"):
            self.prior = np.concatenate(
                [
                    np.log(weight) + _normalised(prior)
                    for weight, (_, prior) in zip(weights, (first, second), strict=True)
                ]
            )

    def _between_bounds(self) -> tuple[Array, Array]:
        """Return (81, B) curves between the bounds of P(wrong), and their log prior."""
        start, low, high = self.start
        down = np.log(start / np.minimum(low, start)) / QUANTILE
        up = np.log((1 - start) / (1 - np.maximum(high, start))) / QUANTILE
        down = np.maximum(down, LEAST_ODDS * (1 - start) + LEAST_RATE)
        up = np.maximum(up, LEAST_ODDS * start + LEAST_RATE)
        t = SHIFTS[:, None]
        fewer = start * np.exp(down * np.minimum(t, 0))
        more = 1 - (1 - start) * np.exp(-up * np.maximum(t, 0))
        return np.where(t < 0, fewer, more), -0.5 * SHIFTS**2

    def _by_rank(self) -> tuple[Array, Array]:
        """Return (18 x 61, B) curves by rank alone, and their log prior."""
        scale = float(np.sqrt(np.average((self.centre - self._mean_score) ** 2, weights=self.size)))
        score = (self.centre - self._mean_score) / max(scale, LEAST)
        curves = [expit(self._intercepts(slope * score)[:, None] + slope * score) for slope in SLOPES]
        prior = np.log(np.gradient(SLOPES)) - SLOPES / MEAN_SLOPE
        return np.concatenate(curves), np.repeat(prior, len(RATES))

    @property
    def _mean_score(self) -> float:
        return float(np.average(self.centre, weights=self.size))

    def _intercepts(self, odds: Array) -> Array:
        """Return what to add to (B,) log odds for each of the RATES."""
        low, high = np.full(len(RATES), -60.0), np.full(len(RATES), 60.0)
        for _ in range(NUM_STEPS):
            middle = (low + high) / 2
            is_low = expit(middle[:, None] + odds) @ self.size < RATES * self.size.sum()
            low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
        found: Array = (low + high) / 2
        return found

    def after(self, rows: NDArray[np.integer[Any]], wrong: Mask, known: Mask) -> "Posterior":
        """Return the posterior after answers on `rows`; the (N,) labels `known` are not left."""
        likelihood = self.log_wrong @ self._count(rows[wrong]) + self.log_right @ self._count(rows[~wrong])
        weights, first = _normalised(self.prior + likelihood), slice(self.num_first)
        if not self.in_doubt:
            total = logsumexp(weights[first])
            weights[first] = total + _normalised(self.prior[first] + COUNTS_AS * likelihood[first])
        left = self._count(np.flatnonzero(self.is_open & ~known))
        return Posterior(self, np.exp(weights), left)

    def _count(self, rows: NDArray[np.integer[Any]]) -> Array:
        counts: Array = np.bincount(self.bin[rows] + 1, minlength=len(self.size) + 1)[1:].astype(np.float64)
        return counts


@dataclass(frozen=True)
class Posterior:
    """How likely each curve is after the answers, and how many rows of each bin are left."""

    curves: Curves
    weights: Array
    """(G,) they sum to 1."""
    left: Array
    """(B,) open labels that are not known."""

    @property
    def only_ranked(self) -> float:
        """The probability that only the ranking of the verdict holds."""
        return float(self.weights[self.curves.num_first :].sum())

    def by_verdict(self) -> "Posterior":
        """Return the same if the verdict holds: without the curves that only use its ranking."""
        weights = self.weights.copy()
        weights[self.curves.num_first :] = 0
        return Posterior(self.curves, weights / weights.sum(), self.left)

    def numbers(self) -> tuple[Array, Array]:
        """Return (M,) numbers of wrong labels among those left, and P(at most so many)."""
        kept = self.weights > NEGLIGIBLE
        curves, weights = self.curves.p_wrong[kept], self.weights[kept]
        mean, spread = curves @ self.left, np.sqrt(np.maximum((curves * (1 - curves)) @ self.left, 0.25))
        points = np.unique(np.round(np.linspace(0, self.left.sum(), NUM_POINTS)))
        cumulative = weights @ ndtr((points + 0.5 - mean[:, None]) / spread[:, None])
        return points, cumulative / cumulative[-1]

    def rows(self) -> Rows:
        """Return P(wrong) of all rows with bounds: log odds move as they do in their bins."""
        mean = self.weights @ self.curves.p_wrong
        order = self.curves.order
        reached = np.cumsum(self.weights[order], axis=0)
        ends = []
        for level in (WIDER * 0.025, 1 - WIDER * 0.025):
            place = order[np.minimum((reached < level).sum(0), len(order) - 1), np.arange(len(mean))]
            ends.append(self.curves.p_wrong[place, np.arange(len(mean))])
        found = [values.astype(np.float64).copy() for values in self.curves.before]
        is_open = self.curves.is_open
        order = np.argsort(self.curves.score, kind="stable")
        for values, now, start in zip(found, (mean, *ends), self.curves.start, strict=True):
            shift = np.interp(self.curves.score, self.curves.centre, logit(now) - logit(start))
            moved = expit(logit(values[is_open].clip(LEAST, 1 - LEAST)) + shift)
            if values is found[0]:  # the order of rows stays
                moved[order] = np.maximum.accumulate(moved[order])
            values[is_open] = moved
        p_wrong, low, high = found
        return p_wrong, np.minimum(low, p_wrong), np.maximum(high, p_wrong)


def score_of(p_wrong: Array) -> Array:
    """Return (N,) scores: the rank as a quantile of the normal distribution, plus half log odds."""
    from scipy.stats import rankdata  # takes a second to load

    rank = (rankdata(p_wrong) - 0.5) / len(p_wrong)
    score: Array = ndtri(rank) + 0.5 * np.clip(logit(p_wrong), -MOST_ODDS, MOST_ODDS)
    return score


def _normalised(logs: Array) -> Array:
    """Return log weights whose exponentials sum to 1."""
    found: Array = logs - logsumexp(logs)
    return found
