"""P(wrong) by training alone, where no second opinion is possible; docs/decisions/0007.

Right labels are learned early and keep a high quality. Wrong labels are learned late or never and
have a low quality, or they are memorised: late, with a quality in between. So a mixture of groups
is fitted to both numbers of every row; held-out rows have no history, only a quality. The group
with the highest quality is right. A group is wrong if it is separate from that one, by its quality
alone too; every other group is right. P(wrong) at a quality is the share of the wrong groups
there, constrained to fall with quality and averaged over resampled rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from surelabel.verdicts.calibration import MIN_ROWS, Calibration
from surelabel.verdicts.evidence import HELD_OUT, TRAINED
from surelabel.verdicts.mixture import Cells, Mixture, completed_likelihood, fit, memberships, refine

MAX_GROUPS = 4
LEAST_QUALITY = 1e-3
"""Quality is clipped to [this, 1 - this]: how saturated a score is says nothing about a label."""
NUM_QUALITY_BINS, NUM_EPOCH_BINS = 120, 40
EARLY_EPOCHS = 3.0
"""Epochs are compared by log(epoch + this), because the order of the first few says little."""
SEPARATE = 2.0
"""Ashman's D above which two groups are separate (Ashman, Bird and Zepf, 1994)."""
SEPARATE_BY_QUALITY = 1.0
"""The same for quality alone: stages of a method can make a group of right labels learned late."""
DOUBT = 1.0, 0.5
"""By how much these two limits move, up and down, for the ends of intervals."""
NUM_RESAMPLES = 40
TAIL = 0.025
"""Bounds are for 95 %."""
GOLDEN_SECTION = 0.6180339887498949
MISPLACED = 0.02
"""Fraction of labels in the wrong group, which resampling cannot detect: docs/decisions/0007."""
BELIEVED = 0.95
"""Quality from which a label may be right, however late it was learned."""


@dataclass(frozen=True)
class Curve:
    """P(wrong) as a falling function of quality, given at (B,) knots on the scale of `log_odds`."""

    knots: np.ndarray
    values: np.ndarray
    """(3, B) P(wrong), its lower and its upper bound."""
    is_separated: bool
    """Whether right and wrong labels form separate groups; if not, P(wrong) is near 1 - quality."""

    def at(self, quality: np.ndarray) -> np.ndarray:
        """Return (3, N) P(wrong) at these qualities, with its bounds."""
        place = log_odds(quality)
        return np.stack([np.interp(place, self.knots, values) for values in self.values])


def calibrate(columns: Mapping[str, np.ndarray], seed: int = 0) -> Calibration:
    """Fit a curve to each kind of row and evaluate it; `columns` are those of samples.parquet.

    Rows of other kinds, such as labels that a person confirmed, are certainly right.
    """
    quality, verdict = columns["quality"], columns["verdict"]
    values, separated = np.zeros((3, len(quality))), {}
    for kind in (TRAINED, HELD_OUT):
        rows = np.flatnonzero(verdict == kind)
        if len(rows):
            curve = fit_curve(quality[rows], columns["first_learned"][rows] if kind == TRAINED else None, seed)
            values[:, rows], separated[kind] = curve.at(quality[rows]), curve.is_separated
    return Calibration(values[0], values[1], values[2], separated)


def curve_through(quality: np.ndarray, known: Calibration) -> Curve:
    """Return the falling curve that is nearest to what is known of rows of these qualities."""
    knots, knot_of_row, counts = np.unique(log_odds(quality), return_inverse=True, return_counts=True)
    means = (np.bincount(knot_of_row, values) / counts for values in (known.p_wrong, known.low, known.high))
    return Curve(knots, np.stack([fit_falling(values, counts) for values in means]), known.is_separated)


def log_odds(quality: np.ndarray) -> np.ndarray:
    """Return quality on a scale where groups are round; an unknown quality is in the middle."""
    known = np.nan_to_num(np.asarray(quality, dtype=np.float64), nan=0.5)
    inside = known.clip(LEAST_QUALITY, 1 - LEAST_QUALITY)
    score: np.ndarray = np.log(inside / (1 - inside))
    return score


@dataclass(frozen=True)
class Grid:
    """Rows counted by quality and epoch: the points that a mixture is fitted to."""

    cells: Cells
    bin_of_cell: np.ndarray
    """(M,) the bin of quality of each point."""
    centres: np.ndarray
    """(B,) the centres of the bins."""

    @property
    def rows_per_bin(self) -> np.ndarray:
        """(B,) the number of rows in each bin of quality."""
        return np.bincount(self.bin_of_cell, self.cells.counts, len(self.centres))

    def mean_per_bin(self, values: np.ndarray | None, otherwise: np.ndarray) -> np.ndarray:
        """Return the (B,) mean of (M,) values in each bin, or `otherwise` without values."""
        if values is None:
            return otherwise
        total = np.bincount(self.bin_of_cell, self.cells.counts * values, len(self.centres))
        means: np.ndarray = total / np.maximum(self.rows_per_bin, 1)
        return means


def fit_curve(quality: np.ndarray, first_learned: np.ndarray | None = None, seed: int = 0) -> Curve:
    """Fit P(wrong) over quality to these rows; `first_learned` is 0 for rows that never were."""
    score = log_odds(quality)
    if len(score) < MIN_ROWS or np.ptp(score) < 1e-6:
        return _unfitted()
    grid = _count(score, None if first_learned is None else _log_epochs(first_learned))
    return _average(grid, _resample(grid.cells, seed))


def _unfitted() -> Curve:
    """Return the curve of 1 - quality, with bounds that say nothing."""
    top = float(log_odds(np.array([1.0]))[0])
    knots = np.linspace(-top, top, NUM_QUALITY_BINS)
    doubt = 1 / (1 + np.exp(knots))
    return Curve(knots, np.stack([doubt, 0 * doubt, 1 + 0 * doubt]), is_separated=False)


def fit_falling(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the nearest values that never rise, with the same weighted mean."""
    from sklearn.isotonic import isotonic_regression

    fitted: np.ndarray = isotonic_regression(values, sample_weight=weights, increasing=False)
    return fitted


def _average(grid: Grid, mixtures: list[Mixture]) -> Curve:
    """Average P(wrong) over mixtures of resampled rows.

    By the rule of succession nothing is more certain than one exception in all rows.
    """
    counts, doubt = grid.rows_per_bin, 1 / (1 + np.exp(grid.centres))
    chosen = [_wrong_at(grid.cells, mixture, 0) for mixture in mixtures]
    middle = np.mean([grid.mean_per_bin(p_wrong, doubt) for p_wrong in chosen], axis=0)
    fewer = [grid.mean_per_bin(_wrong_at(grid.cells, mixture, 1), 0 * doubt) for mixture in mixtures]
    more = [grid.mean_per_bin(_wrong_at(grid.cells, mixture, -1), doubt) for mixture in mixtures]
    known, edge = counts > 0, 1 / (counts.sum() + 2)
    p_wrong = fit_falling(middle[known], counts[known]).clip(edge, 1 - edge)
    fewest, most = np.quantile(fewer, TAIL, axis=0), np.quantile(more, 1 - TAIL, axis=0)
    fewest[grid.centres > log_odds(np.array([BELIEVED]))] = 0
    return Curve(
        grid.centres[known],
        np.stack([p_wrong, *_bound(p_wrong, fewest[known], most[known], counts[known])]),
        is_separated=2 * sum(p_wrong is not None for p_wrong in chosen) > len(chosen),
    )


def _bound(
    p_wrong: np.ndarray, fewest: np.ndarray, most: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return (B,) bounds of P(wrong), from those by resampling; they add up over any rows.

    Where groups overlap, labels may be on the wrong side of 1/2. Beyond that MISPLACED of all
    labels are in the wrong group: right ones among those that look wrong, or the other way round.
    """
    overlap, rate = np.minimum(p_wrong, 1 - p_wrong), float(np.average(p_wrong, weights=counts))
    low = (np.minimum(p_wrong, fewest) - overlap).clip(0)
    right = (1 - np.maximum(p_wrong, most) - overlap).clip(0)
    return low * max(0.0, 1 - MISPLACED / rate), 1 - right * max(0.0, 1 - MISPLACED / (1 - rate))


def _log_epochs(first_learned: np.ndarray) -> np.ndarray:
    """Return when rows were learned, on a scale where groups are round; never is the latest.

    Rows of one epoch are spread evenly over it, the same way each time, by multiples of the golden
    section.
    """
    epoch = np.asarray(first_learned, dtype=np.float64)
    epoch = np.where(epoch <= 0, epoch.max() + 1, epoch)
    spread = np.modf(np.arange(len(epoch)) * GOLDEN_SECTION)[0] - 0.5
    when: np.ndarray = np.log(epoch + EARLY_EPOCHS + spread)
    return when


def _count(score: np.ndarray, epoch: np.ndarray | None) -> Grid:
    """Count rows on a grid whose axes have mean 0 and variance 1."""
    column, centres = _bin(score, NUM_QUALITY_BINS)
    scaled = (centres - score.mean()) / score.std()
    if epoch is None:
        of_cell, counts = np.unique(column, return_counts=True)
        return Grid(Cells(scaled[of_cell, None], counts.astype(float)), of_cell, centres)
    line, epochs = _bin(epoch, NUM_EPOCH_BINS)
    places, counts = np.unique(column * NUM_EPOCH_BINS + line, return_counts=True)
    of_cell, of_line = np.divmod(places, NUM_EPOCH_BINS)
    points = np.stack([scaled[of_cell], ((epochs - epoch.mean()) / epoch.std())[of_line]], 1)
    return Grid(Cells(points, counts.astype(float)), of_cell, centres)


def _bin(values: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the bin of each value, and the centres of the bins."""
    edges = np.linspace(values.min(), values.max(), count + 1)
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, count - 1)
    return place, (edges[1:] + edges[:-1]) / 2


def _resample(cells: Cells, seed: int) -> list[Mixture]:
    """Fit mixtures to resampled rows, with the better of the two likeliest numbers of groups."""
    of_all = [fit(cells, number) for number in range(1, MAX_GROUPS + 1)]
    likeliest = sorted(of_all, key=lambda mixture: completed_likelihood(cells, mixture))[-2:]
    rng, size = np.random.default_rng(seed), int(cells.counts.sum())
    draws = rng.multinomial(size, cells.counts / size, NUM_RESAMPLES).astype(float)
    return [_refine_best(cells.with_counts(counts), likeliest) for counts in draws]


def _refine_best(cells: Cells, starts: list[Mixture]) -> Mixture:
    refined = [refine(cells, start) for start in starts]
    return max(refined, key=lambda mixture: completed_likelihood(cells, mixture))


def _wrong_at(cells: Cells, mixture: Mixture, strictness: int) -> np.ndarray | None:
    """Return the (M,) share of wrong groups at each point, None if no group is wrong.

    `strictness` 1 and -1 move the limits of being separate up and down.
    """
    is_separate = mixture.separations() > SEPARATE + strictness * DOUBT[0]
    is_wrong = is_separate & (mixture.separations(num_axes=1) > SEPARATE_BY_QUALITY + strictness * DOUBT[1])
    return memberships(cells, mixture)[0] @ is_wrong if is_wrong.any() else None
