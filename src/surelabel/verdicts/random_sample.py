"""What answers to a simple random sample of labels say of the number of wrong ones.

The answers alone give an exact interval (Clopper and Pearson, for draws without replacement). With
the verdict they give a narrower one: `recalibration` has the posterior over what P(wrong) may be,
and `Combined` the number of wrong labels that follows from it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.verdicts.recalibration import WIDER

Array = NDArray[Any]
Mask = NDArray[np.bool_]
Ends = tuple[float, float]

LEVEL = 0.95
"""Level of the intervals that are compared."""


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


def _search(largest: int, holds: Callable[[int], bool]) -> int:
    """Return the smallest n from which the condition holds."""
    low, high = 0, largest
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


@dataclass(frozen=True)
class Combined:
    """The number of wrong labels by the verdict and a random sample together."""

    sample: Sample
    by_model: Ends
    """The interval of the verdict, as numbers of labels."""
    points: Array
    """(G,) numbers of wrong labels."""
    at_most: tuple[Array, Array]
    """(G,) P(at most so many are wrong), if skipped labels are right, and if they are wrong."""
    contradicts: bool
    """Whether the answers contradict the verdict."""
    limits: Ends | None
    """The interval of the verdict if it holds; answers then never widen it."""

    @property
    def by_sample(self) -> Ends:
        """The interval after the answers."""
        return self.interval(LEVEL)

    @property
    def num_wrong(self) -> float:
        """The median."""
        return sum(self._quantile(0.5, cumulative) for cumulative in self.at_most) / 2

    def interval(self, confidence: float) -> Ends:
        """Return the least and the largest plausible number of wrong labels."""
        tail = WIDER * (1 - confidence) / 2
        low, high = self._quantile(tail, self.at_most[0]), self._quantile(1 - tail, self.at_most[1])
        if self.limits is not None and confidence >= LEVEL:
            low, high = max(low, self.limits[0]), min(high, self.limits[1])
        return min(low, self.num_wrong), max(high, self.num_wrong)

    def _quantile(self, level: float, cumulative: Array) -> float:
        place = int(np.searchsorted(cumulative, level))
        return float(self.points[min(place, len(self.points) - 1)])
