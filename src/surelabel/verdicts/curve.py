"""P(label is wrong) over quality, from what a run says about its own labels; docs/decisions/0007 has the reasons.

Right labels are learned early and keep a high quality. Wrong ones are learned late or never and have a low one, or they are memorised:
late, with a quality in between. So groups are fitted to both numbers of every row (the second one only where there is a history).
The group of the highest quality is right. A group that lies apart from it, by its quality too, is wrong; any other one is right.
P(wrong) at a quality is the share of the wrong groups there, made to fall with quality: a mean over resampled rows.
"""

from dataclasses import dataclass

import numpy as np

from surelabel.verdicts.mixture import Cells, Groups, completed_likelihood, fitted, memberships, refined

MIN_ROWS = 50
"""With fewer, groups cannot be told, and P(wrong) is 1 - quality."""
MAX_GROUPS = 4
LEAST_QUALITY = 1e-3
"""Quality counts between this and 1 minus this: how far a score is saturated says nothing about the label."""
NUM_QUALITY_BINS, NUM_EPOCH_BINS = 120, 40
EARLY_EPOCHS = 3.0
"""Epochs are compared by log(epoch + this): which of the first few it was says little."""
APART = 2.0
"""Ashman's D of two groups above which they are apart (Ashman, Bird and Zepf, 1994)."""
APART_BY_QUALITY = 1.0
"""How far they must also be apart by quality alone: stages of a method can make a group of right labels that were learned late."""
DOUBT = 1.0, 0.5
"""How far these two limits are moved, up and down, for the ends of intervals."""
NUM_RESAMPLES = 40
GOLDEN_SECTION = 0.6180339887498949


@dataclass(frozen=True)
class Curve:
    """P(wrong) at (B,) knots of quality, falling, with (R, B) resampled ones that count fewer and more groups as wrong."""

    knots: np.ndarray
    p_wrong: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    is_separated: bool

    def at(self, quality: np.ndarray) -> np.ndarray:
        """(N,) P(wrong) of rows."""
        return np.interp(log_odds(quality), self.knots, self.p_wrong)

    def counts(self, quality: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(R,) numbers of wrong labels among rows of this quality, by the lower and by the upper curves."""
        place = np.interp(log_odds(quality), self.knots, np.arange(len(self.knots)))
        left = place.astype(int)
        right, size = np.minimum(left + 1, len(self.knots) - 1), len(self.knots)
        weight = np.bincount(left, 1 - (place - left), size) + np.bincount(right, place - left, size)
        return self.lower @ weight, self.upper @ weight


@dataclass(frozen=True)
class Grid:
    """Rows counted by quality and epoch: the points that groups are fitted to, and the bin of quality of each."""

    cells: Cells
    bin_of_cell: np.ndarray
    centres: np.ndarray

    @property
    def rows_at(self) -> np.ndarray:
        """(B,) how many rows are in each bin of quality."""
        return np.bincount(self.bin_of_cell, self.cells.counts, len(self.centres))

    def over_quality(self, p_wrong: np.ndarray | None, otherwise: np.ndarray) -> np.ndarray:
        """(B,) the mean over each bin of (M,) values at the points; where there are no values, `otherwise`."""
        if p_wrong is None:
            return otherwise
        total = np.bincount(self.bin_of_cell, self.cells.counts * p_wrong, len(self.centres))
        return total / np.maximum(self.rows_at, 1)


def log_odds(quality: np.ndarray) -> np.ndarray:
    """Quality on the scale on which the groups are round; one that is unknown is in the middle."""
    inside = np.nan_to_num(np.asarray(quality, dtype=np.float64), nan=0.5).clip(LEAST_QUALITY, 1 - LEAST_QUALITY)
    return np.log(inside / (1 - inside))


def calibrated(quality: np.ndarray, first_learned: np.ndarray | None = None, seed: int = 0) -> Curve:
    """P(wrong) over quality for these rows; `first_learned` is 0 for rows that never were."""
    score = log_odds(quality)
    if len(score) < MIN_ROWS:
        return own_word(most=1.0)
    if np.ptp(score) < 1e-6:
        return own_word()
    grid = _grid(score, None if first_learned is None else _when(first_learned))
    return _curve(grid, _resampled(grid.cells, seed))


def _curve(grid: Grid, samples: list[Groups]) -> Curve:
    """The mean over resampled groups. Nothing is surer than one exception in all rows, by the rule of succession."""
    at, doubt = grid.rows_at, 1 / (1 + np.exp(grid.centres))
    chosen = [_wrong_at(grid.cells, groups, 0) for groups in samples]
    middle = np.mean([grid.over_quality(p_wrong, doubt) for p_wrong in chosen], axis=0)
    fewer = [grid.over_quality(_wrong_at(grid.cells, groups, 1), 0 * doubt) for groups in samples]
    more = [grid.over_quality(_wrong_at(grid.cells, groups, -1), doubt) for groups in samples]
    known, edge = at > 0, 1 / (at.sum() + 2)
    return Curve(
        grid.centres[known],
        falling(middle[known], at[known]).clip(edge, 1 - edge),
        np.array(fewer)[:, known],
        np.array(more)[:, known],
        is_separated=2 * sum(p_wrong is not None for p_wrong in chosen) > len(chosen),
    )


def own_word(most: float | None = None) -> Curve:
    """1 - quality, where there is nothing to fit; `most` is the upper end of what may be, if it is not that too."""
    top = float(log_odds(np.array([1.0]))[0])
    knots = np.linspace(-top, top, NUM_QUALITY_BINS)
    doubt = 1 / (1 + np.exp(knots))
    upper = doubt if most is None else np.full_like(knots, most)
    lower, upper = (np.tile(curve, (NUM_RESAMPLES, 1)) for curve in (0 * doubt, upper))
    return Curve(knots, doubt, lower, upper, is_separated=False)


def falling(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The nearest values that never rise, with the same weighted mean: neighbours that do are pooled."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        length = 1
        while blocks and blocks[-1][0] <= value:
            before, heavy, long = blocks.pop()
            value = (before * heavy + value * weight) / (heavy + weight)
            weight, length = heavy + weight, long + length
        blocks.append((value, weight, length))
    return np.repeat([value for value, _, _ in blocks], [length for _, _, length in blocks])


def _when(first_learned: np.ndarray) -> np.ndarray:
    """When rows were learned, on the scale on which the groups are round; never is after the last epoch.

    Rows of one epoch are spread over it: multiples of the golden section fill an interval evenly, the same way each time.
    """
    epoch = np.asarray(first_learned, dtype=np.float64)
    epoch = np.where(epoch <= 0, epoch.max() + 1, epoch)
    return np.log(epoch + EARLY_EPOCHS + np.modf(np.arange(len(epoch)) * GOLDEN_SECTION)[0] - 0.5)


def _grid(score: np.ndarray, when: np.ndarray | None) -> Grid:
    """The rows as counted points on axes of mean 0 and variance 1."""
    column, centres = _binned(score, NUM_QUALITY_BINS)
    scaled = (centres - score.mean()) / score.std()
    if when is None:
        of_cell, counts = np.unique(column, return_counts=True)
        return Grid(Cells(scaled[of_cell, None], counts.astype(float)), of_cell, centres)
    line, epochs = _binned(when, NUM_EPOCH_BINS)
    places, counts = np.unique(column * NUM_EPOCH_BINS + line, return_counts=True)
    of_cell, of_line = np.divmod(places, NUM_EPOCH_BINS)
    points = np.stack([scaled[of_cell], ((epochs - when.mean()) / when.std())[of_line]], 1)
    return Grid(Cells(points, counts.astype(float)), of_cell, centres)


def _binned(values: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The bin of each value, and the centres of the bins."""
    edges = np.linspace(values.min(), values.max(), count + 1)
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, count - 1)
    return place, (edges[1:] + edges[:-1]) / 2


def _resampled(cells: Cells, seed: int) -> list[Groups]:
    """The groups of resampled rows, each time as many as ICL says, out of the two numbers that are likeliest for all rows."""
    of_all = [fitted(cells, number) for number in range(1, MAX_GROUPS + 1)]
    likeliest = sorted(of_all, key=lambda groups: completed_likelihood(cells, groups))[-2:]
    rng, size = np.random.default_rng(seed), int(cells.counts.sum())
    draws = rng.multinomial(size, cells.counts / size, NUM_RESAMPLES).astype(float)
    return [_best(cells.recounted(counts), likeliest) for counts in draws]


def _best(cells: Cells, starts: list[Groups]) -> Groups:
    return max((refined(cells, start) for start in starts), key=lambda groups: completed_likelihood(cells, groups))


def _wrong_at(cells: Cells, groups: Groups, side: int) -> np.ndarray | None:
    """(M,) share of the wrong groups at each point, or None if no group is; `side` 1 asks more of a group, -1 less."""
    apart = groups.separations() > APART + side * DOUBT[0]
    is_wrong = apart & (groups.separations(num_axes=1) > APART_BY_QUALITY + side * DOUBT[1])
    return memberships(cells, groups)[0] @ is_wrong if is_wrong.any() else None
