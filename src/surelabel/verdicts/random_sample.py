"""Estimate the number of wrong labels from answers to a simple random sample.

The answers alone give an exact interval (Clopper and Pearson, for draws without replacement). With
P(wrong) they give a narrower one: the sample says how far P(wrong) is off on average, and P(wrong)
of all other rows is known. Its interval is that of Gaffke for the mean of bounded values, which for
P(wrong) = 0 is the one of Clopper and Pearson; it holds whatever P(wrong) is worth.

The model's own interval is combined with it as prior and likelihood. With probability DOUBT the
model's interval means nothing and every number is as likely: if the sample contradicts the model,
the combined interval becomes the one of the sample. docs/decisions/0014 has the reasons.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Array = NDArray[Any]
Mask = NDArray[np.bool_]
Ends = tuple[float, float]

LEVEL = 0.95
"""Level of the intervals that are combined."""
DOUBT = 0.5
"""Prior probability that the model's interval means nothing."""
NUM_POINTS = 4001
"""Numbers of wrong labels at which the combination is computed, at most."""
NUM_DRAWS = 4000


@dataclass(frozen=True)
class Sample:
    """Answers to the first rows of a random order of all labels that may be wrong."""

    rows: NDArray[np.integer[Any]]
    """(n,) the rows, by their position in the data."""
    is_wrong: Mask
    """(n,) whether the label is wrong; False if skipped."""
    is_skipped: Mask
    """(n,) rows that a person looked at without deciding: each may be right or wrong."""
    is_own: Mask
    """(n,) rows that were answered in this sample; others had been decided on before."""
    num_labels: int
    """The labels that the sample was drawn from."""
    num_drawn: int
    """The size of the whole sample; the rest of it is not answered yet."""

    @property
    def size(self) -> int:
        """The number of rows looked at."""
        return len(self.rows)

    @property
    def num_wrong(self) -> int:
        """The number of wrong labels among them."""
        return int(self.is_wrong.sum())

    def interval(self, confidence: float) -> Ends:
        """Return the exact interval for the number of wrong labels; skipped rows may be either."""
        tail = (1 - confidence) / 2
        num_right = int((~self.is_wrong & ~self.is_skipped).sum())
        fewest = _search(self.num_labels, lambda wrong: self._at_least(self.num_wrong, wrong) > tail)
        fewest_right = _search(self.num_labels, lambda right: self._at_least(num_right, right) > tail)
        return float(fewest), float(self.num_labels - fewest_right)

    def _at_least(self, count: int, in_all: int) -> float:
        """Return P(`count` or more such rows are in the sample) if there are `in_all`."""
        from scipy.stats import hypergeom  # takes a second to load

        return float(hypergeom.sf(count - 1, self.num_labels, in_all, self.size))

    def assisted(self, p_wrong: Array, is_known: Mask) -> tuple[float, Ends]:
        """Return the estimate and interval with the help of P(wrong); `is_known` rows are certain.

        P(wrong) of the sampled rows must not depend on their answers.
        """
        rows, wrong, skipped = (values[self.is_own] for values in (self.rows, self.is_wrong, self.is_skipped))
        rest = ~is_known
        rest[rows] = False
        errors = wrong - p_wrong[rows]
        fixed = float(p_wrong[is_known].sum() + wrong.sum() + p_wrong[rest].sum())
        if not rest.any():
            return fixed + skipped.sum() / 2, (fixed, fixed + float(skipped.sum()))
        weights = np.random.default_rng(0).standard_exponential((NUM_DRAWS, len(rows) + 1))
        weights /= weights.sum(1, keepdims=True)
        # One more row than was seen, the worst possible one, stands for all that were not.
        lowest, highest = -p_wrong[rest].max(), 1 - p_wrong[rest].min()
        low = np.quantile(weights[:, 1:] @ errors + weights[:, 0] * lowest, (1 - LEVEL) / 2)
        high = np.quantile(weights[:, 1:] @ (errors + skipped) + weights[:, 0] * highest, (1 + LEVEL) / 2)
        middle = (errors + skipped / 2).mean()
        size = float(rest.sum())
        return fixed + skipped.sum() / 2 + size * middle, (fixed + size * low, fixed + skipped.sum() + size * high)


def _search(largest: int, holds: Callable[[int], bool]) -> int:
    """Return the smallest number at which a condition holds that goes on holding above."""
    low, high = 0, largest
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


@dataclass(frozen=True)
class Combined:
    """The number of wrong labels by the model and a random sample together."""

    sample: Sample
    by_model: Ends
    """The model's interval, as numbers of labels."""
    by_sample: Ends
    """The sample's interval, with the help of P(wrong)."""
    points: Array
    """(G,) numbers of wrong labels."""
    cumulative: Array
    """(G,) probability that at most so many are wrong."""

    @property
    def contradicts(self) -> bool:
        """Whether the two intervals have nothing in common."""
        return self.by_model[1] < self.by_sample[0] or self.by_sample[1] < self.by_model[0]

    @property
    def num_wrong(self) -> float:
        """The median."""
        return self._quantile(0.5)

    def interval(self, confidence: float) -> Ends:
        """Return the least and the largest plausible number of wrong labels."""
        return self._quantile((1 - confidence) / 2), self._quantile((1 + confidence) / 2)

    def _quantile(self, level: float) -> float:
        place = int(np.searchsorted(self.cumulative, level))
        return float(self.points[min(place, len(self.points) - 1)])


def combine(sample: Sample, by_model: tuple[float, Ends], by_sample: tuple[float, Ends], possible: Ends) -> Combined:
    """Combine two estimates with their intervals; `possible` are the numbers that can be true."""
    points = np.unique(np.round(np.linspace(*possible, NUM_POINTS)))
    prior, likelihood = (_split_normal(points, *estimate) for estimate in (by_model, by_sample))
    mass = (1 - DOUBT) * prior * likelihood + DOUBT * likelihood / len(points)
    cumulative = np.cumsum(mass) / mass.sum()
    return Combined(sample, by_model[1], by_sample[1], points, cumulative)


def _split_normal(points: Array, estimate: float, ends: Ends) -> Array:
    """Return (G,) probabilities: half above and half below the estimate, normal each."""
    edges = np.concatenate([[-np.inf], (points[1:] + points[:-1]) / 2, [np.inf]])
    below, above = (max(abs(end - estimate) / ndtri((1 + LEVEL) / 2), 0.5) for end in ends)
    mass: Array = np.diff(ndtr((edges - estimate) / np.where(edges < estimate, below, above)))
    return np.maximum(mass, 1e-300)
