"""Groups of labels in the evidence: Gaussian mixtures on counted points, how many groups there are, and how far apart they lie.

The number of groups is chosen by ICL, the integrated completed likelihood (Biernacki, Celeux and Govaert, 2000): BIC with the
entropy of the memberships, so that a group is split only where its parts come apart, and not to follow a bent density.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

LEAST_VARIANCE = 0.015
"""Of a group, on axes of unit variance: none is narrower than an eighth of the whole. Epochs are counted in ones and quality
ends at 0 and 1, and a narrower group would sit on such a value alone."""
NUM_STARTS = 4
FIRST_STEPS, MAX_STEPS = 25, 300
TOLERANCE = 1e-5
"""Gain in log likelihood per row at which fitting ends."""


class Groups(NamedTuple):
    """A mixture of k Gaussians in d dimensions, the one with the lowest first coordinate first."""

    share: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray

    def separations(self, num_axes: int | None = None) -> np.ndarray:
        """(k,) distance from the last group in units of the common spread (Ashman's D), on the first axes or on all."""
        away = (self.mean - self.mean[-1])[:, :num_axes]
        spread = (self.covariance + self.covariance[-1])[:, :num_axes, :num_axes] / 2
        return np.sqrt(np.einsum("ki,kij,kj->k", away, np.linalg.inv(spread), away))


class Cells:
    """(M, d) points, each there `counts` times: all that fitting needs of any number of rows."""

    def __init__(self, points: np.ndarray, counts: np.ndarray) -> None:
        self.points, self.counts = points, counts
        size = points.shape[1]
        self._first, self._second = np.triu_indices(size)
        products = points[:, self._first] * points[:, self._second]
        self._terms = np.concatenate([np.ones((len(points), 1)), points, products], 1)

    def recounted(self, counts: np.ndarray) -> "Cells":
        """The same points, there more or less often."""
        cells = object.__new__(Cells)
        cells.__dict__.update(self.__dict__)
        cells.counts = counts
        return cells

    def log_densities(self, groups: Groups) -> np.ndarray:
        """(M, k) log of share times density: a quadratic form, so one product with the table of terms."""
        precision = np.linalg.inv(groups.covariance)
        linear = np.einsum("kij,kj->ki", precision, groups.mean)
        constant = np.log(groups.share) - 0.5 * np.einsum("ki,ki->k", linear, groups.mean)
        constant -= 0.5 * np.linalg.slogdet(2 * np.pi * groups.covariance)[1]
        square = -np.where(self._first == self._second, 0.5, 1.0) * precision[:, self._first, self._second]
        return self._terms @ np.concatenate([constant[:, None], linear, square], 1).T

    def groups_of(self, memberships: np.ndarray) -> Groups:
        """The groups that (M, k) memberships make."""
        size = self.points.shape[1]
        sums = (memberships * self.counts[:, None]).T @ self._terms
        total = sums[:, 0] + 1e-9  # a group that has lost all its rows keeps no weight, and harms nobody
        mean = sums[:, 1 : size + 1] / total[:, None]
        square = np.empty((len(total), size, size))
        square[:, self._first, self._second] = square[:, self._second, self._first] = (
            sums[:, size + 1 :] / total[:, None]
        )
        spread = square - mean[:, :, None] * mean[:, None, :] + LEAST_VARIANCE * np.eye(size)
        order = mean[:, 0].argsort(kind="stable")
        return Groups((total / total.sum())[order], mean[order], spread[order])


def fitted(cells: Cells, num_groups: int) -> Groups:
    """The best of a few fits, from starts that are the same each time."""
    begun = [refined(cells, start, FIRST_STEPS) for start in _starts(cells, num_groups)]
    return refined(cells, max(begun, key=lambda groups: log_likelihood(cells, groups)))


def refined(cells: Cells, groups: Groups, max_steps: int = MAX_STEPS) -> Groups:
    """Expectation and maximisation until it no longer helps."""
    last = -np.inf
    for _ in range(max_steps):
        member, density = memberships(cells, groups)
        groups = cells.groups_of(member)
        now = cells.counts @ density / cells.counts.sum()
        if now - last < TOLERANCE:
            break
        last = now
    return groups


def memberships(cells: Cells, groups: Groups) -> tuple[np.ndarray, np.ndarray]:
    """(M, k) probabilities of the groups at each point, and (M,) log densities of the mixture."""
    values = cells.log_densities(groups)
    top = values.max(1, keepdims=True)
    weight = np.exp(values - top)
    total = weight.sum(1, keepdims=True)
    return weight / total, (top + np.log(total))[:, 0]


def log_likelihood(cells: Cells, groups: Groups) -> float:
    """Of all rows."""
    return float(cells.counts @ memberships(cells, groups)[1])


def completed_likelihood(cells: Cells, groups: Groups) -> float:
    """ICL: high is better."""
    member, density = memberships(cells, groups)
    num_groups, size = groups.mean.shape
    num_free = num_groups - 1 + num_groups * (size + size * (size + 1) // 2)
    certain = (member * np.log(np.maximum(member, 1e-300))).sum(1)
    return float(cells.counts @ (density + certain) - 0.5 * num_free * np.log(cells.counts.sum()))


def _starts(cells: Cells, num_groups: int) -> Iterator[Groups]:
    """Centres of equal counts along each axis, then some that lie far apart; drawn with a fixed seed."""
    rng, size = np.random.default_rng(num_groups), cells.points.shape[1]
    for number in range(NUM_STARTS):
        rows = _spaced(cells, number, num_groups) if number < size else _scattered(cells, num_groups, rng)
        yield _around(cells, cells.points[rows])


def _spaced(cells: Cells, axis: int, count: int) -> np.ndarray:
    order = cells.points[:, axis].argsort(kind="stable")
    reached = np.cumsum(cells.counts[order]) / cells.counts.sum()
    return order[np.minimum(np.searchsorted(reached, (np.arange(count) + 0.5) / count), len(order) - 1)]


def _scattered(cells: Cells, count: int, rng: np.random.Generator) -> np.ndarray:
    """Points drawn one after the other by their squared distance to the nearest of those before (k-means++)."""
    rows = [rng.choice(len(cells.points), p=cells.counts / cells.counts.sum())]
    while len(rows) < count:
        away = ((cells.points[:, None] - cells.points[rows]) ** 2).sum(2).min(1) * cells.counts
        rows.append(rng.choice(len(away), p=away / away.sum()) if away.sum() > 0 else rows[0])
    return np.array(rows)


def _around(cells: Cells, centres: np.ndarray) -> Groups:
    """Groups of the points that are nearest to each centre, after a few rounds of k-means."""
    for _ in range(5):
        nearest = ((cells.points[:, None] - centres) ** 2).sum(2).argmin(1)
        groups = cells.groups_of(np.eye(len(centres))[nearest])
        centres = groups.mean
    return groups
