"""P(wrong) of every label from two kinds of evidence: a second opinion, and how training went.

The second opinion (`probe`, `noise_model`) has not seen the label it judges; training has, and
may have memorised it. So the second opinion comes first, and training then speaks as far as it
agrees: its label quality is compared between rows that the second opinion calls right and wrong,
and the logarithm of the ratio of their densities is added with half its weight, because the two
find the same rows hard. A network that memorised its labels shows a ratio near one and is ignored.

Bounds say what the model cannot know. A row whose true class is unclear from its input may be
mislabelled or merely hard: its P(wrong) may be too high by as much as it is unclear, and too low by
up to twice that. docs/decisions/0011 says how often such bounds hold the true rate.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from surelabel.verdicts.noise_model import NoiseModel, fit_noise_model, resample_rates

Array = NDArray[Any]
Labels = NDArray[np.integer[Any]]

TRAINING_WEIGHT = 0.5
"""Weight of the evidence of training, which is not independent of the second opinion."""
MOST_EVIDENCE = 4.0
"""Largest logarithm of a density ratio that bins of this size can show."""
TAIL = 0.025
OPINION_ODDS, TRAINING_ODDS = "opinion_odds", "training_odds"
"""Columns of samples.parquet: the log odds of a wrong label by each kind of evidence."""
LEAST = 1e-9
"""No probability of evidence is closer to 0 or 1 than this."""
PLANTED_ROWS = 20_000
"""Labels that are replaced to see whether that is found."""


@dataclass(frozen=True)
class Judgement:
    """P(wrong) of N labels with bounds, and which class each row is of."""

    p_wrong: Array
    low: Array
    high: Array
    posterior: Array
    """(N, K) probabilities of the true class."""
    by_input: Array
    """(N, K) the same by the input alone, without the given label."""
    power: float
    """How often another label, drawn at random, looks worse than the given one; 0.5 is chance."""
    opinion_odds: Array
    """(N,) log odds of P(wrong) by the second opinion; NaN for trusted labels."""
    training_odds: Array
    """(N,) what training adds to them; NaN if it says nothing."""


def judge(
    logits: Array,
    given: Labels,
    quality: Array | None = None,
    predicted: Array | None = None,
    trusted: NDArray[np.bool_] | None = None,
    seed: int = 0,
) -> Judgement:
    """Judge (N,) given labels by leave-one-out logits (N, K) and by what training says.

    `quality` is the (N,) label quality, NaN where unknown; `predicted` are the (N, K) class
    probabilities of the network, which help to choose among the other classes. Trusted labels are
    right and take no part in the estimate of the noise.
    """
    known = np.zeros(len(given), dtype=bool) if trusted is None else trusted
    judged = np.flatnonzero(~known)
    if len(judged) == 0:
        zero = np.zeros(len(given))
        certain = np.eye(logits.shape[1])[given]
        unknown = np.full(len(given), np.nan)
        return Judgement(zero, zero, zero, certain, certain, 0.0, unknown, unknown)
    model = fit_noise_model(logits[judged], given[judged])
    posterior = model.posterior(logits, given)
    first = np.clip(1 - posterior[np.arange(len(given)), given], LEAST, 1 - LEAST)
    by_opinion, by_training = np.where(known, np.nan, logit(first)), np.full(len(given), np.nan)
    told = judged[:0] if quality is None else judged[np.isfinite(quality[judged])]
    if quality is not None and len(told):
        by_training[told] = TRAINING_WEIGHT * _log_ratio(first[told], quality[told])
    odds = logit(first) + np.nan_to_num(by_training)
    rates = resample_rates(model, logits[judged], given[judged], seed)
    shifts = _shifts(first[judged], np.quantile(rates, [TAIL, 1 - TAIL]))
    p_wrong, lower, upper = (np.where(known, 0.0, expit(odds + shift)) for shift in (0.0, *shifts))
    by_input = model.clean(logits)
    unclear = np.where(known, 0.0, 1 - by_input.max(1))
    low = np.maximum(0, lower - unclear)
    # Without sharpening, wrong labels may hide in the softness of predictions altogether.
    high = upper + (1 - upper) * np.minimum(1, (1 + 1 / model.sharpness) * unclear)
    return Judgement(
        p_wrong,
        np.minimum(low, p_wrong),
        np.maximum(high, p_wrong),
        _true_class(posterior, predicted, given, p_wrong),
        by_input,
        _power(model, logits[judged], given[judged], seed),
        by_opinion,
        by_training,
    )


def _log_ratio(p_wrong: Array, quality: Array) -> Array:
    """Return log P(quality | wrong) / P(quality | right), which falls with quality."""
    from sklearn.isotonic import isotonic_regression

    prior = float(np.clip(p_wrong.mean(), 1e-9, 1 - 1e-9))
    num_bins = int(np.clip(np.sqrt(len(quality)) / 2, 1, 40))
    bins = np.array_split(np.argsort(quality, kind="stable"), num_bins)
    centres = np.array([quality[rows].mean() for rows in bins])
    wrong = np.array([(p_wrong[rows].sum() + 2 * prior) / (len(rows) + 2) for rows in bins])
    falling = np.clip(isotonic_regression(wrong, increasing=False), 1e-9, 1 - 1e-9)
    ratio = logit(falling) - logit(prior)
    evidence: Array = np.clip(np.interp(quality, centres, ratio), -MOST_EVIDENCE, MOST_EVIDENCE)
    return evidence


def _shifts(p_wrong: Array, rates: Array) -> list[float]:
    """Return what to add to log odds so that the mean P(wrong) becomes each rate."""
    odds = logit(p_wrong)
    found = []
    for rate in rates:
        low, high = -10.0, 10.0
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if expit(odds + middle).mean() < rate else (low, middle)
        found.append((low + high) / 2)
    return found


def _true_class(posterior: Array, predicted: Array | None, given: Labels, p_wrong: Array) -> Array:
    """Return (N, K) probabilities of the true class: P(wrong) shared among the other classes.

    The network and the second opinion have equal weight there: the geometric mean of both.
    """
    rows = np.arange(len(given))
    others = posterior.copy()
    if predicted is not None:
        others = np.sqrt(others * np.maximum(np.nan_to_num(predicted), LEAST))
    others[rows, given] = 0
    others += LEAST / others.shape[1]
    others[rows, given] = 0
    others *= (p_wrong / others.sum(1))[:, None]
    others[rows, given] = 1 - p_wrong
    return others


def _power(model: NoiseModel, logits: Array, given: Labels, seed: int) -> float:
    """Return how often another label, drawn at random, looks worse than the given one."""
    rows, num_classes = np.arange(min(len(given), PLANTED_ROWS)), logits.shape[1]
    shift = np.random.default_rng(seed).integers(1, num_classes, len(rows))
    planted = (given[rows] + shift) % num_classes
    odds = [1 - model.posterior(logits[rows], labels)[rows, labels] for labels in (given[rows], planted)]
    return float((odds[1] > odds[0]).mean())
