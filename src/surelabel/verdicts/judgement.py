"""P(wrong) of every label from two kinds of evidence: a second opinion, and how training went.

The second opinion (`probe`, `noise_model`) has not seen the label it judges; training has, and
may have memorised it. So the second opinion comes first, and training then speaks as far as it
agrees: its label quality is compared between rows that the second opinion calls right and wrong,
and the logarithm of the ratio of their densities is added with half its weight, because the two
find the same rows hard. A network that memorised its labels shows a ratio near one and is ignored.

A label that an earlier run suggested is judged by the label that was given in its place: P(wrong)
is the probability that the true class is another one, by the input and by that given label.
Training, which was on the suggestion, is not heard there.

Bounds say what the model cannot know. A row whose true class is unclear from its input may be
mislabelled or merely hard: its P(wrong) may be too high by as much as it is unclear, and too low by
up to twice that. docs/decisions/0011 says how often such bounds hold the true rate.

The noise model assumes that, given the true class, a mistake does not depend on the input. Where
mistakes do follow the inputs, models learn them, and the labels that still disagree look like
unclear inputs. So there is doubt if unclear inputs could hide far more wrong labels than contradict
the other rows. Bounds then say nothing but that. docs/decisions/0030 has the measurements.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from surelabel.runs.samples import TopK
from surelabel.verdicts.noise_model import NoiseModel, fit_noise_model, resample_rates
from surelabel.verdicts.row_readers import RowReader, row_slices

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
MISSED = 0.01
"""Probability that a label is wrong in a way that nothing shows."""
MOST_HIDDEN = 2.5
"""How many times as many wrong labels as were found may hide in unclear inputs without doubt."""
LEAST_UNCLEAR = 0.03
"""No doubt if a smaller fraction of the labels is unclear."""
FEW = 0.005
"""Fraction of wrong labels that makes no difference to that."""
FOLLOWING = 4.0
"""In doubt, how many times as many labels may be wrong as unclear inputs could hide."""
MOST_RAISED = 0.9
"""How far upper bounds are raised to 1 at most: so some rows stay surer than others."""


@dataclass(frozen=True)
class Judgement:
    """P(wrong) of N labels with bounds, and which class each row is of."""

    p_wrong: Array
    low: Array
    high: Array
    true_class: TopK
    """Probabilities of the true class."""
    by_input: Array
    """(N, 2) the two largest of the same by the input alone, without the given label."""
    power: float
    """How often another label, drawn at random, looks worse than the given one; 0.5 is chance."""
    opinion_odds: Array
    """(N,) log odds of P(wrong) by the second opinion; NaN for trusted labels."""
    training_odds: Array
    """(N,) what training adds to them; NaN if it says nothing."""
    may_follow_inputs: bool = False
    """Whether mistakes may follow the inputs: far more labels are unclear than contradictory."""


def judge(
    logits: RowReader,
    given: Labels,
    quality: Array | None = None,
    predicted: RowReader | None = None,
    trusted: NDArray[np.bool_] | None = None,
    seed: int = 0,
    present: Labels | None = None,
) -> Judgement:
    """Judge (N,) given labels by leave-one-out logits (N, K) and by what training says.

    `quality` is the (N,) label quality, NaN where unknown; `predicted` are the (N, K) class
    probabilities of the network, which help to choose among the other classes. Trusted labels are
    right and take no part in the estimate of the noise. Of both, some rows are read at a time.
    `present` are the (N,) labels to judge where an earlier run has replaced the given ones.
    """
    present = given if present is None else present
    known = np.zeros(len(given), dtype=bool) if trusted is None else trusted
    judged = np.flatnonzero(~known)
    if len(judged) == 0:
        return _trust_all(given, logits.shape[1])
    model = fit_noise_model(logits, given, judged)
    seen = _look_at_all(model, logits, given, present, predicted)
    first = np.clip(seen.p_wrong, LEAST, 1 - LEAST)
    by_opinion, by_training = np.where(known, np.nan, logit(first)), np.full(len(given), np.nan)
    told = judged[:0] if quality is None else judged[np.isfinite(quality[judged]) & (present == given)[judged]]
    if quality is not None and len(told):
        by_training[told] = TRAINING_WEIGHT * _log_ratio(first[told], quality[told])
    odds = logit(first) + np.nan_to_num(by_training)
    rates = resample_rates(model, logits, given, judged, seed, present)
    shifts = _shifts(first[judged], np.quantile(rates, [TAIL, 1 - TAIL]))
    p_wrong, lower, upper = (np.where(known, 0.0, expit(odds + shift)) for shift in (0.0, *shifts))
    unclear = np.where(known, 0.0, 1 - seen.by_input.max(1))
    # Without sharpening, wrong labels may hide in the softness of predictions altogether.
    hidden = np.minimum(1, (1 + 1 / model.sharpness) * unclear)
    low = np.maximum(0, lower - unclear)
    high = 1 - (1 - upper) * (1 - hidden) * np.where(known, 1, 1 - MISSED)
    in_doubt = _may_follow_inputs(first[judged], unclear[judged], hidden[judged])
    if in_doubt:
        low, high = np.zeros_like(low), _raise_all(p_wrong, high, judged)
    return Judgement(
        p_wrong,
        np.minimum(low, p_wrong),
        np.maximum(high, p_wrong),
        seen.share_out(p_wrong, present),
        seen.by_input,
        _power(model, logits, given, judged, seed),
        by_opinion,
        by_training,
        in_doubt,
    )


def _may_follow_inputs(p_wrong: Array, unclear: Array, hidden: Array) -> bool:
    """Return whether unclear inputs could hide far more wrong labels than were found."""
    is_much = hidden.mean() + FEW > MOST_HIDDEN * (p_wrong.mean() + FEW)
    return bool(is_much and unclear.mean() > LEAST_UNCLEAR)


def _raise_all(p_wrong: Array, high: Array, judged: Labels) -> Array:
    """Return upper bounds for mistakes that follow the inputs: no row is certain to be right."""
    mean = high[judged].mean()
    most = p_wrong[judged].mean() + FOLLOWING * (mean - p_wrong[judged].mean())
    raised = high.copy()
    raised[judged] += min(MOST_RAISED, (most - mean) / max(1 - mean, LEAST)) * (1 - high[judged])
    return raised


def _trust_all(given: Labels, num_classes: int) -> Judgement:
    """Return the judgement of labels that are all confirmed."""
    zero, unknown = np.zeros(len(given)), np.full(len(given), np.nan)
    chunks = (np.eye(num_classes)[given[rows]] for rows in row_slices(len(given), num_classes, whole=0))
    certain = [TopK.from_dense(rows, rows.argmax(1)) for rows in chunks]
    by_input = np.tile([0.0, 1.0], (len(given), 1))
    return Judgement(zero, zero, zero, TopK.concatenate(certain), by_input, 0.0, unknown, unknown)


@dataclass(frozen=True)
class _Seen:
    """What one pass over all rows has found, a chunk of rows at a time."""

    p_wrong: Array
    """(N,) by the second opinion alone."""
    by_input: Array
    """(N, 2) the two largest probabilities of a class."""
    others: TopK
    """How far each other class is supported, in float64 and to an unknown scale."""
    total: Array
    """(N,) the sum of that over all classes."""

    def share_out(self, p_wrong: Array, present: Labels) -> TopK:
        """Return the probabilities of the true class: P(wrong) shared among the other classes."""
        is_present = self.others.classes == present[:, None]
        values = self.others.values * (p_wrong / self.total)[:, None]
        values = np.where(is_present, (1 - p_wrong)[:, None], values).astype(np.float32)
        return TopK(self.others.classes, values, self.others.num_classes)


def _look_at_all(
    model: NoiseModel, logits: RowReader, given: Labels, present: Labels, predicted: RowReader | None
) -> _Seen:
    # Space for all rows is taken at once, so that chunks leave no gaps in memory.
    num_rows, num_classes = len(given), logits.shape[1]
    p_wrong, total, by_input = np.empty(num_rows), np.empty(num_rows), np.empty((num_rows, 2))
    kept: TopK | None = None
    for rows in row_slices(num_rows, num_classes, whole=0):
        clean, labels = model.clean(logits[rows]), present[rows]
        posterior = model.weigh(clean, given[rows])
        others = _support(posterior, None if predicted is None else predicted[rows], labels)
        p_wrong[rows] = 1 - posterior[np.arange(len(clean)), labels]
        by_input[rows] = np.partition(clean, -2, axis=1)[:, -2:]
        total[rows] = others.sum(1)
        part = TopK.from_dense(others, labels, np.float64)
        kept = part.for_rows(num_rows) if kept is None else kept
        kept.set_rows(rows, part)
    assert kept is not None
    return _Seen(p_wrong, by_input, kept, total)


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


def _support(posterior: Array, predicted: Array | None, labels: Labels) -> Array:
    """Return (n, K) how far the classes other than the label are supported, 0 for the label.

    The network and the second opinion have equal weight there: the geometric mean of both.
    """
    rows = np.arange(len(labels))
    others = posterior.copy()
    if predicted is not None:
        others = np.sqrt(others * np.maximum(np.nan_to_num(predicted), LEAST))
    others[rows, labels] = 0
    others += LEAST / others.shape[1]
    others[rows, labels] = 0
    return others


def _power(model: NoiseModel, logits: RowReader, given: Labels, judged: Labels, seed: int) -> float:
    """Return how often another label, drawn at random, looks worse than the given one."""
    chosen = judged[:PLANTED_ROWS]
    rows, num_classes, labels = np.arange(len(chosen)), logits.shape[1], given[chosen]
    shift = np.random.default_rng(seed).integers(1, num_classes, len(rows))
    planted = (labels + shift) % num_classes
    clean = model.clean(logits[chosen])
    odds = [1 - model.weigh(clean, these)[rows, these] for these in (labels, planted)]
    return float((odds[1] > odds[0]).mean())
