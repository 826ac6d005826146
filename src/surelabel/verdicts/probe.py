"""A second opinion on every label, from models that were not trained on the label they judge.

Ridge regression on fixed features gives leave-one-out predictions in closed form, and those without
a whole group of rows that may share one mistake (`left_out`). One eigendecomposition serves all
rows and all penalties. Three feature maps of every set of
features take part: the standardised features themselves, and two Gaussian kernels of different
width (Nystrom features). Their scores are pooled into class logits whose weights maximise the
likelihood of the given labels. No clean label, network or gradient takes part; the whole takes
seconds. Scores of other models that have not seen the label they judge may join the pool, such as
networks trained on folds.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from surelabel.verdicts.left_out import Groups, LeftOut
from surelabel.verdicts.row_readers import RowReader, row_slices, to_array

Array = NDArray[Any]
Labels = NDArray[np.integer[Any]]

DECADES = np.arange(-5.0, 2.0)
"""Ridge penalties that compete first, as powers of ten per row and unit of mean squared norm."""
KERNEL_WIDTHS = (0.5, 2.0)
"""Factors of the inverse median squared distance between rows."""
MAX_FEATURES = 2048
"""Wider features are projected at random to this many; the Gram matrix is of this size at most."""
NUM_LANDMARKS = 1000
"""Rows that a Gaussian kernel is approximated with."""
LEAST_LANDMARKS = 100
ROWS_TO_CHOOSE, VALUES_TO_CHOOSE = 20_000, 2_000_000
"""The most rows, and the most rows x classes, on which penalties and weights are compared; the
models themselves see all rows."""
MAX_WORK = 4e12
"""Multiplications beyond which features are left out: minutes on two cores."""
KERNEL_WORK = 5e11
"""Multiplications beyond which a kernel has fewer landmarks."""
MOST_OF_ONE_GROUP = 10
"""A group gives at most one in this many of these rows."""
WEIGHT_PENALTY = 1e-4


class Expert(NamedTuple):
    """One leave-one-out model: features, map, penalty, weight in the pool, loss on given labels.

    Further experts have no features and no penalty.
    """

    features: str
    name: str
    penalty: float
    weight: float
    loss: float


@dataclass(frozen=True)
class SecondOpinion:
    """Leave-one-out class logits for every row, and the experts behind them."""

    logits: RowReader
    """(N, K) logits: their softmax predicts the given label of a row from all other rows. An array,
    or with very many rows what computes those that are read."""
    experts: tuple[Expert, ...]


def second_opinion(
    features: Mapping[str, Array],
    labels: Labels,
    num_classes: int,
    seed: int = 0,
    extra: Mapping[str, Array] | None = None,
    *,
    group: Labels | None = None,
    one_scale: Collection[str] = (),
) -> SecondOpinion | None:
    """Judge (N,) given labels by named sets of (N, D) features; None if that would take minutes.

    `extra` has (N, K) scores of further experts by name, with NaN in rows that they do not judge.
    Rows with the same number in `group` (N,) are left out together; negative ones are alone.
    In the sets of features named in `one_scale`, columns that vary less than others keep doing so.
    """
    rng = np.random.default_rng(seed)
    groups = None if group is None else Groups(group)
    chosen = _sample(len(labels), num_classes, rng, groups)
    scores: list[RowReader] = []
    found = []
    for source, inputs in features.items():
        x = _standardise(_project(inputs, rng), source in one_scale)
        for name, phi in _feature_maps(x, num_classes, rng):
            penalty, loss, best = _best_scores(phi, labels, num_classes, chosen, groups)
            scores.append(best)
            found.append((source, name, penalty, loss))
    chosen = _judged_by_all(extra or {}, chosen)
    for name, further in (extra or {}).items():
        scores.append(_fill(further))
        found.append(("", name, 0.0, _pool([further[chosen]], labels[chosen], num_classes).loss))
    if not scores:
        return None
    pool = _pool([score[chosen] for score in scores], labels[chosen], num_classes)
    experts = tuple(
        Expert(source, name, penalty, float(weight), loss)
        for (source, name, penalty, loss), weight in zip(found, pool.weights, strict=True)
    )
    return SecondOpinion(to_array(PooledScores(scores, pool, (len(labels), num_classes)), whole=0), experts)


class PooledScores:
    """Leave-one-out logits (N, K), computed for the rows that are read."""

    def __init__(self, scores: Sequence[RowReader], pool: "_Pool", shape: tuple[int, int]) -> None:
        self.scores, self.pool, self.shape = scores, pool, shape

    def __getitem__(self, rows: Any) -> Array:
        """Return the logits of a slice of rows, or at (n,) positions."""
        weighted = (weight * score[rows] for weight, score in zip(self.pool.weights, self.scores, strict=True))
        logits: Array = (self.pool.bias + sum(weighted)).astype(np.float32)
        return logits


def held_out_loss(logits: Array, labels: Labels, num_classes: int) -> float:
    """Return the loss of (N, K) logits for labels that they were not fitted to, at the best scale.

    A network that is merely too sure of itself is not punished for it; one that has learned
    nothing has the loss of the class frequencies. Infinite for logits that are not finite.
    """
    return _pool([logits], labels, num_classes).loss if np.isfinite(logits).all() else float("inf")


def _judged_by_all(extra: Mapping[str, Array], rows: Labels) -> Labels:
    """Return those of the rows that every further expert judges: on these it can be weighed."""
    for scores in extra.values():
        rows = rows[np.isfinite(scores[rows]).all(1)]
    return rows


def _fill(scores: Array) -> Array:
    """Replace rows without scores by the mean of the others, which says nothing about the row."""
    known = np.isfinite(scores).all(1, keepdims=True)
    filled: Array = np.where(known, scores, scores.mean(0, where=known))
    return filled


def _project(features: Array, rng: np.random.Generator) -> Array:
    """Return features as (N, D) with D at most MAX_FEATURES, unless rows are fewer than columns."""
    x = np.asarray(features, dtype=np.float32).reshape(len(features), -1)
    if min(x.shape) <= MAX_FEATURES:
        return x
    return x @ rng.normal(size=(x.shape[1], MAX_FEATURES)).astype(np.float32) / np.float32(np.sqrt(MAX_FEATURES))


def _standardise(x: Array, keep_scale: bool = False) -> Array:
    """Centre and scale columns, drop constant ones, and give rows a mean squared norm of one."""
    mean, std = x.mean(0, dtype=np.float64), x.std(0, dtype=np.float64)
    varies = std > 1e-6 * np.maximum(np.abs(mean), 1e-6)
    if not varies.any():
        return np.zeros((len(x), 1), dtype=np.float32)
    if keep_scale:
        std = np.full_like(std, np.sqrt((std[varies] ** 2).mean()))
    scaled: Array = (x[:, varies] - mean[varies]) / (std[varies] * np.sqrt(varies.sum()))
    return scaled.astype(np.float32)


def _sample(num_rows: int, num_classes: int, rng: np.random.Generator, groups: Groups | None = None) -> Labels:
    """Return the rows on which penalties and weights are compared, of groups all if possible."""
    most = min(ROWS_TO_CHOOSE, VALUES_TO_CHOOSE // num_classes)
    order: Labels = rng.permutation(num_rows)
    if groups is not None and most < num_rows:
        order = groups.gather(order, max(1, most // MOST_OF_ONE_GROUP))
    return np.sort(order[:most])


def _feature_maps(x: Array, num_classes: int, rng: np.random.Generator) -> Iterator[tuple[str, RowReader]]:
    """Yield the names and the centred features of all maps that are cheap enough."""
    num_rows, num_columns = x.shape
    if _work(num_rows, min(num_rows, num_columns), num_classes) > MAX_WORK:
        return
    yield "linear", x
    num_landmarks = affordable_landmarks(num_rows, num_classes)
    if num_landmarks < min(LEAST_LANDMARKS, num_rows):
        return
    # A landmark may be a row of the group that is left out: features are made without labels.
    landmarks = x[rng.permutation(num_rows)[:num_landmarks]]
    for width in KERNEL_WIDTHS:
        yield f"gaussian {width:g}", _kernel_features(x, landmarks, width)


def affordable_landmarks(num_rows: int, num_classes: int) -> int:
    """Return how many landmarks KERNEL_WORK allows, NUM_LANDMARKS at most."""
    half = num_classes / 4
    return min(NUM_LANDMARKS, int(np.sqrt(half**2 + KERNEL_WORK / (2 * num_rows)) - half))


def _work(num_rows: int, num_columns: int, num_classes: int) -> float:
    return float(num_rows) * num_columns * (2 * num_columns + num_classes)


@dataclass(frozen=True)
class KernelFeatures:
    """(N, m) Nystrom features of a Gaussian kernel, computed for the rows that are read."""

    x: Array
    landmarks: Array
    scale: float
    root: Array
    centre: Array | float = 0.0

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return len(self.x), self.root.shape[1]

    def __getitem__(self, rows: Any) -> Array:
        """Return the features of a slice of rows, or at (n,) positions."""
        phi = np.exp(-self.scale * _squared_distances(self.x[rows], self.landmarks)) @ self.root
        return phi - self.centre


def _kernel_features(x: Array, landmarks: Array, width: float) -> RowReader:
    """Return (N, m) Nystrom features of a Gaussian kernel, centred."""
    between = _squared_distances(landmarks, landmarks)
    apart = between[between > 1e-9]
    scale = width / float(np.median(apart)) if len(apart) else 1.0
    values, vectors = np.linalg.eigh(np.exp(-scale * between).astype(np.float64))
    kept = values > 1e-6 * values[-1]
    root = (vectors[:, kept] / np.sqrt(values[kept])).astype(np.float32)
    features = KernelFeatures(x, landmarks, scale, root)
    phi = to_array(features, len(landmarks))
    if isinstance(phi, np.ndarray):
        phi -= phi.mean(0)
        return phi
    total = np.zeros(root.shape[1])
    for rows in row_slices(len(x), len(landmarks)):
        total += phi[rows].sum(0)
    return replace(features, centre=(total / len(x)).astype(np.float32))


def _squared_distances(a: Array, b: Array) -> Array:
    distances: Array = np.maximum((a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * a @ b.T, 0)
    return distances


class Rotated:
    """Features with a diagonal Gram matrix, computed for the rows that are read."""

    def __init__(self, phi: RowReader, vectors: Array) -> None:
        self.phi, self.vectors, self.shape = phi, vectors, (phi.shape[0], vectors.shape[1])

    def __getitem__(self, rows: Any) -> Array:
        """Return the features of a slice of rows, or at (n,) positions."""
        rotated: Array = self.phi[rows] @ self.vectors
        return rotated


def _rotate(phi: RowReader) -> tuple[RowReader, Array]:
    """Return (N, r) features with a diagonal Gram matrix, and its diagonal (r,)."""
    num_rows, num_columns = phi.shape
    if num_columns <= num_rows:
        parts = (phi[rows] for rows in row_slices(num_rows, num_columns))
        values, vectors = np.linalg.eigh(sum((part.T @ part).astype(np.float64) for part in parts))
        return to_array(Rotated(phi, vectors.astype(np.float32)), num_columns), np.maximum(values, 0)
    few = phi[:]
    values, vectors = np.linalg.eigh((few @ few.T).astype(np.float64))
    values = np.maximum(values, 0)
    return (vectors * np.sqrt(values)).astype(np.float32), values


def _best_scores(
    phi: RowReader, labels: Labels, num_classes: int, chosen: Labels, groups: Groups | None = None
) -> tuple[float, float, RowReader]:
    """Return the best penalty for predicting given labels, its loss and (N, K) scores."""
    rotated, gram = _rotate(phi)
    sums = np.zeros((num_classes, rotated.shape[1]))
    for rows in row_slices(*rotated.shape):
        sums += _sum_by_label(rotated[rows], labels[rows], num_classes)

    def without(decade: float) -> LeftOut:
        return LeftOut(rotated, gram, sums, labels, 10**decade, groups)

    def loss(decade: float) -> float:
        return _pool([without(decade)[chosen]], labels[chosen], num_classes).loss

    losses = {decade: loss(decade) for decade in DECADES.tolist()}
    first = min(losses, key=losses.__getitem__)
    losses |= {decade: loss(decade) for decade in (first - 0.5, first + 0.5)}
    best = min(losses, key=losses.__getitem__)
    return 10**best, losses[best], without(best).read_all()


def _sum_by_label(features: Array, labels: Labels, num_classes: int) -> Array:
    """Return (K, r) sums of (n, r) features over the rows of each label."""
    from scipy.sparse import csr_array

    rows = np.arange(len(labels))
    chosen = csr_array((np.ones(len(labels)), (labels, rows)), (num_classes, len(labels)))
    summed: Array = chosen @ features.astype(np.float64)
    return summed


class _Pool(NamedTuple):
    weights: Array
    bias: Array
    loss: float


def _pool(scores: Sequence[Array], labels: Labels, num_classes: int) -> _Pool:
    """Return non-negative weights and a class bias whose logits predict the labels best."""
    rows, num_experts = np.arange(len(labels)), len(scores)
    spread = np.array([max(float(score.std()), 1e-12) for score in scores])
    stacked = np.stack([score / scale for score, scale in zip(scores, spread, strict=True)]).astype(np.float64)
    at_label = stacked[:, rows, labels].mean(1)
    log_prior = np.log(np.maximum(np.bincount(labels, minlength=num_classes), 0.5) / len(labels))

    def loss(weights: Array) -> tuple[float, Array]:
        logits = np.tensordot(weights[:-1], stacked, 1) + weights[-1] * log_prior
        total = logsumexp(logits, axis=1)
        probability = np.exp(logits - total[:, None])
        at_prior = log_prior[labels].mean()
        value = total.mean() - weights[:-1] @ at_label - weights[-1] * at_prior
        gradient = [(probability * score).sum(1).mean() for score in stacked] - at_label
        slope = (probability @ log_prior).mean() - at_prior
        penalty = WEIGHT_PENALTY * weights[:-1]
        return float(value + penalty @ weights[:-1]), np.append(gradient + 2 * penalty, slope)

    start = np.append(np.full(num_experts, 1 / num_experts), 0.5)
    bounds = [(0, None)] * num_experts + [(0, 1)]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return _Pool(found.x[:-1] / spread, found.x[-1] * log_prior, float(found.fun))
