"""Turn the evidence about labels into P(wrong); docs/decisions/0007 has the reasons.

Right labels are learned early and keep a high quality. Wrong labels are learned late or never and
have a low quality, or they are memorised: late, with a quality in between. So a mixture of groups
is fitted to both numbers of every row; held-out rows have no history, only a quality. The group
with the highest quality is right. A group is wrong if it is separate from that one, by its quality
alone too; every other group is right. P(wrong) at a quality is the share of the wrong groups
there, constrained to fall with quality and averaged over resampled rows.

Fitting happens once, when training ends. The run directory stores P(wrong) of every row in
samples.parquet and the curves behind its intervals in calibration.parquet.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from surelabel.errors import RunError
from surelabel.runs.run_dir import CALIBRATION_FILE, RunDir
from surelabel.verdicts.evidence import HELD_OUT, TRAINED
from surelabel.verdicts.mixture import Cells, Mixture, completed_likelihood, fit, memberships, refine

MIN_ROWS = 50
"""With fewer rows no groups are fitted, and P(wrong) is 1 - quality."""
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
GOLDEN_SECTION = 0.6180339887498949
LEAST_COUNT = 0.5
"""A lower end of fewer wrong labels is none."""
MISPLACED = 0.02
"""Fraction of labels in the wrong group, which resampling cannot detect: docs/decisions/0007."""


@dataclass(frozen=True)
class Curve:
    """P(wrong) as a falling function of quality, given at (B,) knots on the scale of `log_odds`."""

    knots: np.ndarray
    p_wrong: np.ndarray
    lower: np.ndarray
    """(R, B) resampled curves that count fewer groups as wrong."""
    upper: np.ndarray
    """(R, B) resampled curves that count more groups as wrong."""
    is_separated: bool
    """Whether right and wrong labels form separate groups; if not, P(wrong) is near 1 - quality."""

    def at(self, quality: np.ndarray) -> np.ndarray:
        """Return (N,) P(wrong) at these qualities."""
        values: np.ndarray = np.interp(log_odds(quality), self.knots, self.p_wrong)
        return values

    def counts(self, quality: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (R,) numbers of wrong labels among these rows, by the lower and upper curves."""
        place = np.interp(log_odds(quality), self.knots, np.arange(len(self.knots)))
        left = place.astype(int)
        right, size = np.minimum(left + 1, len(self.knots) - 1), len(self.knots)
        weight = np.bincount(left, 1 - (place - left), size) + np.bincount(right, place - left, size)
        return self.lower @ weight, self.upper @ weight


class Calibration(ABC):
    """P(wrong) of every row, and intervals for the number of wrong labels among any rows."""

    p_wrong: np.ndarray
    """(N,) the probability that each label is wrong."""

    @property
    @abstractmethod
    def is_separated(self) -> bool:
        """Whether right and wrong labels can be told apart at all."""

    @abstractmethod
    def is_separated_for(self, verdict: str) -> bool:
        """Return whether they can among rows with this kind of verdict."""

    @abstractmethod
    def interval(self, rows: np.ndarray | slice, confidence: float) -> tuple[float, float]:
        """Return the least and the largest plausible number of wrong labels among these rows."""

    @abstractmethod
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the (N,) bounds of P(wrong) of every row, for 95 %."""

    @abstractmethod
    def reorder(self, order: np.ndarray) -> "Calibration":
        """Return the same for rows in another order."""


def read_calibration(run: RunDir, columns: Mapping[str, np.ndarray]) -> Calibration:
    """Return a finished run's calibration: by rows with a second opinion, by curves without."""
    if "p_wrong_low" in columns:
        return RowCalibration(columns["p_wrong"], columns["p_wrong_low"], columns["p_wrong_high"])
    return CurveCalibration.read(run, columns)


class RowCalibration(Calibration):
    """Bounds for the P(wrong) of every single row, from `judgement`."""

    is_separated = True

    def __init__(self, p_wrong: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        self.p_wrong, self.low, self.high = p_wrong, low, high

    def is_separated_for(self, verdict: str) -> bool:  # noqa: ARG002 - all kinds of rows are alike here
        """Return True: the second opinion judges all kinds of rows alike."""
        return True

    def interval(self, rows: np.ndarray | slice, confidence: float) -> tuple[float, float]:
        """Add up the bounds of these rows, widened by chance.

        Bounds are stored for 95 % and move with the quantile of the normal distribution. More rows
        of a ranked table never hold fewer wrong labels, so the lower end never falls.
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

    def reorder(self, order: np.ndarray) -> "RowCalibration":
        """Return the same for rows in another order."""
        return RowCalibration(self.p_wrong[order], self.low[order], self.high[order])


class CurveCalibration(Calibration):
    """P(wrong) as a function of label quality, for runs that know nothing but their training.

    Each kind of verdict has its own curve. Rows whose verdict has none, such as labels that a
    person confirmed, are certainly right.
    """

    def __init__(
        self,
        quality: np.ndarray,
        verdict: np.ndarray,
        curves: Mapping[str, Curve],
        p_wrong: np.ndarray | None = None,
    ) -> None:
        """Take P(wrong) from the curves unless it is known already."""
        self.quality, self.verdict, self.curves = quality, verdict, dict(curves)
        rows = {kind: np.flatnonzero(verdict == kind) for kind in self.curves}
        self.is_open = np.zeros(len(quality), dtype=bool)
        """(N,) the rows that have a curve."""
        self.p_wrong = np.zeros(len(quality)) if p_wrong is None else p_wrong
        for kind, curve in self.curves.items():
            self.is_open[rows[kind]] = True
            if p_wrong is None:
                self.p_wrong[rows[kind]] = curve.at(quality[rows[kind]])

    @classmethod
    def unfitted(cls, quality: np.ndarray) -> "CurveCalibration":
        """Return the calibration of rows without a run: P(wrong) is 1 - quality."""
        return cls(quality, np.full(len(quality), TRAINED), {TRAINED: unfitted_curve(highest=1.0)})

    @classmethod
    def fit(cls, columns: Mapping[str, np.ndarray], seed: int = 0) -> "CurveCalibration":
        """Fit a curve to each kind of row; `columns` are those of samples.parquet."""
        quality, verdict = columns["quality"], columns["verdict"]
        curves = {}
        for kind in (TRAINED, HELD_OUT):
            rows = np.flatnonzero(verdict == kind)
            if len(rows):
                history = columns["first_learned"][rows] if kind == TRAINED else None
                curves[kind] = fit_curve(quality[rows], history, seed)
        return cls(quality, verdict, curves)

    @classmethod
    def read(cls, run: RunDir, columns: Mapping[str, np.ndarray]) -> "CurveCalibration":
        """Read the calibration of a finished run."""
        curves = cls.read_curves(run)
        missing = {TRAINED, HELD_OUT} & set(columns["verdict"].tolist()) - set(curves)
        if missing:
            raise RunError(f"{run.path / CALIBRATION_FILE}: holds no curve for {', '.join(sorted(missing))}")
        return cls(columns["quality"], columns["verdict"], curves, columns["p_wrong"])

    @staticmethod
    def read_curves(run: RunDir) -> dict[str, Curve]:
        """Read the curves of a finished run by kind of verdict."""
        try:
            return dict(map(_curve_of, run.calibration().to_pylist()))
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{run.path / CALIBRATION_FILE}: not readable: {type(error).__name__} {error}") from None

    def to_columns(self) -> dict[str, Any]:
        """Return the curves as columns of calibration.parquet, one row per kind of verdict."""
        import pyarrow as pa

        def lists(name: str) -> Any:
            values = [getattr(curve, name).reshape(-1) for curve in self.curves.values()]
            return pa.array(values, pa.list_(pa.float64()))

        return {
            "verdict": pa.array(list(self.curves), pa.string()),
            "is_separated": pa.array([curve.is_separated for curve in self.curves.values()], pa.bool_()),
            **{name: lists(name) for name in ("knots", "p_wrong", "lower", "upper")},
        }

    def reorder(self, order: np.ndarray) -> "CurveCalibration":
        """Return the same for rows in another order."""
        return CurveCalibration(self.quality[order], self.verdict[order], self.curves, self.p_wrong[order])

    @property
    def is_separated(self) -> bool:
        """Whether right and wrong labels form separate groups among all kinds of rows."""
        return all(curve.is_separated for curve in self.curves.values())

    def is_separated_for(self, verdict: str) -> bool:
        """Return whether they do among rows with this kind of verdict."""
        return verdict in self.curves and self.curves[verdict].is_separated

    def interval(self, rows: np.ndarray | slice, confidence: float) -> tuple[float, float]:
        """Return the least and the largest plausible number of wrong labels among these rows.

        Resampling shows how far the groups move, and the lower and upper curves show which groups
        may count as wrong. Some labels are in the wrong group anyway, so both ends are widened.
        """
        p_wrong, tail = self.p_wrong[rows], (1 - confidence) / 2
        low, high = self._resampled_counts(rows)
        num_open = float(self.is_open[rows].sum())
        expected, slack = float(p_wrong.sum()), _slack(p_wrong, tail) + MISPLACED * num_open
        lower = min(expected, float(np.quantile(low, tail))) - slack
        upper = max(expected, float(np.quantile(high, 1 - tail))) + slack
        return max(0.0, lower), min(num_open, upper)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the (N,) bounds of P(wrong) of every row, for 95 %."""
        low, high = self.p_wrong.copy(), self.p_wrong.copy()
        for kind, curve in self.curves.items():
            rows = self.verdict == kind
            ends = (
                np.quantile(curve.lower, 0.025, axis=0) - MISPLACED,
                np.quantile(curve.upper, 0.975, axis=0) + MISPLACED,
            )
            least, most = (np.interp(log_odds(self.quality[rows]), curve.knots, end.clip(0, 1)) for end in ends)
            low[rows], high[rows] = np.minimum(low[rows], least), np.maximum(high[rows], most)
        return low, high

    def _resampled_counts(self, rows: np.ndarray | slice) -> tuple[np.ndarray, np.ndarray]:
        """Return (R,) numbers of wrong labels by the lower and by the upper curves."""
        low, high = np.zeros(1), np.zeros(1)
        quality, verdict = self.quality[rows], self.verdict[rows]
        for kind, curve in self.curves.items():
            fewer, more = curve.counts(quality[verdict == kind])
            low, high = low + fewer, high + more
        return low, high


def _slack(p_wrong: np.ndarray, tail: float) -> float:
    """Return the labels expected on the wrong side of 1/2 where groups overlap, at least chance."""
    chance = -NormalDist().inv_cdf(tail) * float(np.sqrt((p_wrong * (1 - p_wrong)).sum()))
    return max(float(np.minimum(p_wrong, 1 - p_wrong).sum()), chance)


def _curve_of(row: dict[str, Any]) -> tuple[str, Curve]:
    """Read a row of calibration.parquet."""
    knots, p_wrong, lower, upper = (np.array(row[name], np.float64) for name in ("knots", "p_wrong", "lower", "upper"))
    if len(p_wrong) != len(knots) or not len(knots) or len(lower) != len(upper):
        raise ValueError(f"{len(knots)} knots with {len(p_wrong)}, {len(lower)} and {len(upper)} values")
    shape = (-1, len(knots))
    return row["verdict"], Curve(knots, p_wrong, lower.reshape(shape), upper.reshape(shape), bool(row["is_separated"]))


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


def log_odds(quality: np.ndarray) -> np.ndarray:
    """Return quality on a scale where groups are round; an unknown quality is in the middle."""
    known = np.nan_to_num(np.asarray(quality, dtype=np.float64), nan=0.5)
    inside = known.clip(LEAST_QUALITY, 1 - LEAST_QUALITY)
    score: np.ndarray = np.log(inside / (1 - inside))
    return score


def fit_curve(quality: np.ndarray, first_learned: np.ndarray | None = None, seed: int = 0) -> Curve:
    """Fit P(wrong) over quality to these rows; `first_learned` is 0 for rows that never were."""
    score = log_odds(quality)
    if len(score) < MIN_ROWS:
        return unfitted_curve(highest=1.0)
    if np.ptp(score) < 1e-6:
        return unfitted_curve()
    grid = _count(score, None if first_learned is None else _log_epochs(first_learned))
    return _average(grid, _resample(grid.cells, seed))


def unfitted_curve(highest: float | None = None) -> Curve:
    """Return 1 - quality, for rows without groups; `highest` is the upper end of its intervals."""
    top = float(log_odds(np.array([1.0]))[0])
    knots = np.linspace(-top, top, NUM_QUALITY_BINS)
    doubt = 1 / (1 + np.exp(knots))
    most = doubt if highest is None else np.full_like(knots, highest)
    lower, upper = (np.tile(curve, (NUM_RESAMPLES, 1)) for curve in (0 * doubt, most))
    return Curve(knots, doubt, lower, upper, is_separated=False)


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
    return Curve(
        grid.centres[known],
        fit_falling(middle[known], counts[known]).clip(edge, 1 - edge),
        # In the memory layout in which they are read again, so that sums agree to the last bit.
        np.ascontiguousarray(np.array(fewer)[:, known]),
        np.ascontiguousarray(np.array(more)[:, known]),
        is_separated=2 * sum(p_wrong is not None for p_wrong in chosen) > len(chosen),
    )


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
