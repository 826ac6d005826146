"""Gaussian mixtures over points with counts, and a criterion for the number of groups.

The number of groups is chosen by ICL, the integrated completed likelihood (Biernacki, Celeux and
Govaert, 2000): BIC with the entropy of the memberships as a further penalty. A group is
therefore split only where its parts separate, and not to follow a skewed density.

scikit-learn's GaussianMixture takes no counts, and has no ICL.
"""

import copy
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

MIN_VARIANCE = 0.015
"""Added to the variance of every group, on axes of unit variance: no group is narrower than an
eighth of the whole. Epochs are integers and quality ends at 0 and 1, and a narrower group would
collapse onto one such value."""
NUM_STARTS = 4
FIRST_STEPS, MAX_STEPS = 25, 300
"""EM steps from each start, and from the best of them."""
TOLERANCE = 1e-5
"""Fitting ends when a step raises the log likelihood per row by less than this."""


class Mixture(NamedTuple):
    """A mixture of k Gaussians in d dimensions, sorted by their first coordinate."""

    share: np.ndarray
    """(k,) weights that sum to 1."""
    mean: np.ndarray
    """(k, d)."""
    covariance: np.ndarray
    """(k, d, d)."""

    def separations(self, num_axes: int | None = None) -> np.ndarray:
        """Return (k,) Ashman's D between every group and the last, on the first axes or on all."""
        away = (self.mean - self.mean[-1])[:, :num_axes]
        spread = (self.covariance + self.covariance[-1])[:, :num_axes, :num_axes] / 2
        distance: np.ndarray = np.sqrt(np.einsum("ki,kij,kj->k", away, np.linalg.inv(spread), away))
        return distance


class Cells:
    """(M, d) points with (M,) counts: fitting costs the same for any number of rows."""

    def __init__(self, points: np.ndarray, counts: np.ndarray) -> None:
        self.points, self.counts = points, counts
        dim = points.shape[1]
        self._first, self._second = np.triu_indices(dim)
        products = points[:, self._first] * points[:, self._second]
        self._monomials = np.concatenate([np.ones((len(points), 1)), points, products], 1)

    def with_counts(self, counts: np.ndarray) -> "Cells":
        """Return the same points with other counts."""
        cells = copy.copy(self)
        cells.counts = counts
        return cells

    def log_densities(self, mixture: Mixture) -> np.ndarray:
        """Return (M, k) log(share x density).

        The exponent is a quadratic form, so this is one product with the table of monomials.
        """
        precision = np.linalg.inv(mixture.covariance)
        linear = np.einsum("kij,kj->ki", precision, mixture.mean)
        constant = np.log(mixture.share) - 0.5 * np.einsum("ki,ki->k", linear, mixture.mean)
        constant -= 0.5 * np.linalg.slogdet(2 * np.pi * mixture.covariance)[1]
        square = -np.where(self._first == self._second, 0.5, 1.0) * precision[:, self._first, self._second]
        values: np.ndarray = self._monomials @ np.concatenate([constant[:, None], linear, square], 1).T
        return values

    def maximise(self, memberships: np.ndarray) -> Mixture:
        """Return the mixture that maximises the likelihood for (M, k) memberships."""
        dim = self.points.shape[1]
        sums = (memberships * self.counts[:, None]).T @ self._monomials
        total = sums[:, 0] + 1e-9  # a group that has lost all its rows must not divide by zero
        mean = sums[:, 1 : dim + 1] / total[:, None]
        square = np.empty((len(total), dim, dim))
        square[:, self._first, self._second] = square[:, self._second, self._first] = (
            sums[:, dim + 1 :] / total[:, None]
        )
        spread = square - mean[:, :, None] * mean[:, None, :] + MIN_VARIANCE * np.eye(dim)
        order = mean[:, 0].argsort(kind="stable")
        return Mixture((total / total.sum())[order], mean[order], spread[order])


def fit(cells: Cells, num_groups: int) -> Mixture:
    """Fit a mixture from several deterministic starts and return the likeliest."""
    begun = [refine(cells, start, FIRST_STEPS) for start in _starts(cells, num_groups)]
    return refine(cells, max(begun, key=lambda mixture: _log_likelihood(cells, mixture)))


def refine(cells: Cells, mixture: Mixture, max_steps: int = MAX_STEPS) -> Mixture:
    """Alternate expectation and maximisation until the likelihood no longer rises."""
    last = -np.inf
    for _ in range(max_steps):
        member, density = memberships(cells, mixture)
        mixture = cells.maximise(member)
        now = cells.counts @ density / cells.counts.sum()
        if now - last < TOLERANCE:
            break
        last = now
    return mixture


def memberships(cells: Cells, mixture: Mixture) -> tuple[np.ndarray, np.ndarray]:
    """Return (M, k) probabilities of the groups at each point, and (M,) log densities."""
    values = cells.log_densities(mixture)
    top = values.max(1, keepdims=True)
    weight = np.exp(values - top)
    total = weight.sum(1, keepdims=True)
    return weight / total, (top + np.log(total))[:, 0]


def completed_likelihood(cells: Cells, mixture: Mixture) -> float:
    """Return the ICL of a mixture; higher is better."""
    member, density = memberships(cells, mixture)
    num_groups, dim = mixture.mean.shape
    num_parameters = num_groups - 1 + num_groups * (dim + dim * (dim + 1) // 2)
    entropy = -(member * np.log(np.maximum(member, 1e-300))).sum(1)
    return float(cells.counts @ (density - entropy) - 0.5 * num_parameters * np.log(cells.counts.sum()))


def _log_likelihood(cells: Cells, mixture: Mixture) -> float:
    return float(cells.counts @ memberships(cells, mixture)[1])


def _starts(cells: Cells, num_groups: int) -> Iterator[Mixture]:
    """Yield starts with centres of equal counts along each axis, then with scattered ones."""
    rng, dim = np.random.default_rng(num_groups), cells.points.shape[1]
    for number in range(NUM_STARTS):
        rows = _spaced(cells, number, num_groups) if number < dim else _scattered(cells, num_groups, rng)
        yield _around(cells, cells.points[rows])


def _spaced(cells: Cells, axis: int, count: int) -> np.ndarray:
    """Return (count,) points at equal steps of the cumulative counts along an axis."""
    order = cells.points[:, axis].argsort(kind="stable")
    reached = np.cumsum(cells.counts[order]) / cells.counts.sum()
    return order[np.minimum(np.searchsorted(reached, (np.arange(count) + 0.5) / count), len(order) - 1)]


def _scattered(cells: Cells, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw (count,) points by their squared distance to those drawn before (k-means++)."""
    rows = [rng.choice(len(cells.points), p=cells.counts / cells.counts.sum())]
    while len(rows) < count:
        away = ((cells.points[:, None] - cells.points[rows]) ** 2).sum(2).min(1) * cells.counts
        rows.append(rng.choice(len(away), p=away / away.sum()) if away.sum() > 0 else rows[0])
    return np.array(rows)


def _around(cells: Cells, centres: np.ndarray) -> Mixture:
    """Return the groups of points nearest to each centre, after a few rounds of k-means."""
    for _ in range(5):
        nearest = ((cells.points[:, None] - centres) ** 2).sum(2).argmin(1)
        mixture = cells.maximise(np.eye(len(centres))[nearest])
        centres = mixture.mean
    return mixture
