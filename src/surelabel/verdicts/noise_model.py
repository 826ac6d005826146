"""P(wrong) from leave-one-out logits: tell wrong labels from unclear inputs.

A label that disagrees with the prediction for its input is wrong, or the prediction is. The two are
told apart by where the disagreement is: if predictions err, it fades as they get clearer; if labels
are wrong, it stays. The model says so in one line. With p(x) = softmax(s l(x)), sharper than the
logits l by s >= 1, and T the probability of each given label for each true class,

    P(given = y | x) = sum_k p_k(x) T_ky

s and T maximise the likelihood of the given labels (EM). Then P(true = k | x, y) ~ p_k(x) T_ky.
Without noise T is the identity and no label is wrong, however hard the data are to predict.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from surelabel.verdicts.row_readers import RowReader

Array = NDArray[Any]
Labels = NDArray[np.integer[Any]]

SHARPNESS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0)
NUM_STEPS = 200
TOLERANCE = 1e-6
"""EM stops when a step raises the mean log likelihood by less."""
RATE_ROWS = 20.0
"""Rows at the overall rate that each class's own rate is averaged with."""
CONFUSION_ROWS = 5.0
"""Wrong labels, spread evenly, that the confusions of each class are averaged with."""
ROWS_TO_FIT, VALUES_TO_FIT = 20_000, 4_000_000
"""The most rows, and the most rows x classes, that the model is fitted to."""
ROWS_TO_RESAMPLE, VALUES_TO_RESAMPLE = 5_000, 2_000_000
NUM_RESAMPLES = 20


@dataclass(frozen=True)
class NoiseModel:
    """A sharpness of the logits, and (K, K) P(given | true)."""

    sharpness: float
    transition: Array
    log_likelihood: float

    def clean(self, logits: Array) -> Array:
        """Return (N, K) probabilities of the true class by the input alone."""
        probability: Array = np.exp(log_softmax(self.sharpness * logits.astype(np.float64), axis=1))
        return probability

    def posterior(self, logits: Array, given: Labels) -> Array:
        """Return (N, K) probabilities of the true class by the input and the given label."""
        return self.weigh(self.clean(logits), given)

    def weigh(self, clean: Array, given: Labels) -> Array:
        """Return the same from (N, K) probabilities by the input alone."""
        joint = clean * self.transition[:, given].T
        posterior: Array = joint / joint.sum(1, keepdims=True)
        return posterior


def fit_noise_model(logits: RowReader, given: Labels, judged: Labels | None = None) -> NoiseModel:
    """Return the model under which the (N,) given labels at the `judged` rows are most likely."""
    judged = np.arange(len(given)) if judged is None else judged
    most = min(ROWS_TO_FIT, VALUES_TO_FIT // logits.shape[1])
    rows = judged[_sorted_rows(given[judged], most, np.random.default_rng(0))]
    return _fit(logits[rows], given[rows], SHARPNESS)


def resample_rates(
    model: NoiseModel,
    logits: RowReader,
    given: Labels,
    judged: Labels | None = None,
    seed: int = 0,
    present: Labels | None = None,
) -> Array:
    """Return (R,) estimated rates of wrong labels after refits to rows drawn with replacement.

    Large data are resampled in part; the spread is then scaled to what all rows would give. The
    rates are those of the `present` labels where they are not the given ones.
    """
    present = given if present is None else present
    judged = np.arange(len(given)) if judged is None else judged
    rng = np.random.default_rng(seed)
    size = min(len(judged), ROWS_TO_RESAMPLE, VALUES_TO_RESAMPLE // logits.shape[1])
    near = sorted({1.0, *(max(1.0, model.sharpness * factor) for factor in (0.5, 0.7, 1.0, 1.4, 2.0))})
    rates = []
    for _ in range(NUM_RESAMPLES):
        rows = judged[rng.integers(0, len(judged), size)]
        rows = rows[np.argsort(given[rows], kind="stable")]
        drawn_logits = logits[rows]
        refit = _fit(drawn_logits, given[rows], near, model.transition)
        rates.append(_mean_wrong(refit, drawn_logits, given[rows], present[rows]))
    drawn = np.array(rates)
    scaled: Array = drawn.mean() + (drawn - drawn.mean()) * np.sqrt(size / len(judged))
    return scaled


def _mean_wrong(model: NoiseModel, logits: Array, given: Labels, present: Labels) -> float:
    return float(1 - model.posterior(logits, given)[np.arange(len(given)), present].mean())


def _sorted_rows(given: Labels, most: int, rng: np.random.Generator) -> Labels:
    """Draw at most so many rows, ordered by their label."""
    rows = rng.permutation(len(given))[:most]
    return rows[np.argsort(given[rows], kind="stable")]


def _fit(logits: Array, given: Labels, sharpness: Iterable[float], start: Array | None = None) -> NoiseModel:
    """Fit to rows ordered by their given label, from the transition `start`."""
    fits = (_expectation_maximisation(logits.astype(np.float64), given, value, start) for value in sharpness)
    return max(fits, key=lambda fit: fit.log_likelihood)


def _expectation_maximisation(logits: Array, given: Labels, sharpness: float, start: Array | None) -> NoiseModel:
    clean = np.exp(log_softmax(sharpness * logits, axis=1))
    num_rows, num_classes = clean.shape
    counts = np.bincount(given, minlength=num_classes)
    there = np.flatnonzero(counts)
    starts = np.concatenate([[0], np.cumsum(counts[there])[:-1]])
    others = np.maximum(counts, 0.5) * (1 - np.eye(num_classes)) / num_rows
    others /= np.maximum(others.sum(1, keepdims=True), 1e-12)
    transition = 0.9 * np.eye(num_classes) + 0.1 * others if start is None else start
    previous = -np.inf
    for _ in range(NUM_STEPS):
        joint = clean * transition[:, given].T
        total = joint.sum(1, keepdims=True)
        likelihood = float(np.log(total).mean())
        if likelihood - previous < TOLERANCE:
            break
        previous = likelihood
        table = np.zeros((num_classes, num_classes))
        table[:, there] = np.add.reduceat(joint / total, starts, axis=0).T
        transition = _transition(table, others)
    return NoiseModel(sharpness, transition, likelihood)


def _transition(table: Array, others: Array) -> Array:
    """Return P(given | true) from (K, K) expected counts, smoothed where counts are small."""
    num_classes = len(table)
    wrong = table * (1 - np.eye(num_classes))
    rate = wrong.sum() / table.sum()
    rates = (wrong.sum(1) + RATE_ROWS * rate) / (table.sum(1) + RATE_ROWS)
    weight = CONFUSION_ROWS * num_classes
    confusion = (wrong + weight * others) / (wrong.sum(1, keepdims=True) + weight)
    transition: Array = np.diag(1 - rates) + rates[:, None] * confusion
    return transition
