"""Answers to random labels choose among curves from rank to P(wrong)."""

import numpy as np
import pytest
from scipy.special import expit

from surelabel.verdicts.calibration import Calibration
from surelabel.verdicts.random_sample import Sample
from surelabel.verdicts.recalibration import Curves
from surelabel.verdicts.reviewed import Answers, Updater


def following(seed=0, num_rows=1000, rate=0.25):
    """Return a verdict that only ranks: P(wrong) is far too low, and the bounds say nothing."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(num_rows) < rate
    score = np.where(wrong, rng.normal(1.5, 1, num_rows), rng.normal(0, 1, num_rows))
    p_wrong = expit(2 * score - 6)
    return Calibration(p_wrong, np.zeros(num_rows), p_wrong + 0.9 * (1 - p_wrong)), wrong


def honest(seed=0, num_rows=1000):
    """Return a verdict that holds."""
    rng = np.random.default_rng(seed)
    p_wrong = expit(rng.normal(-3, 3, num_rows))
    wrong = rng.random(num_rows) < p_wrong
    return Calibration(p_wrong, 0.7 * p_wrong, p_wrong + 0.3 * (1 - p_wrong) * p_wrong**0.5), wrong


def answered(wrong, count, seed):
    rows = np.random.default_rng(seed).permutation(len(wrong))[:count]
    decided = np.zeros(len(wrong), dtype=bool)
    decided[rows] = True
    none, every = np.zeros(count, dtype=bool), np.ones(count, dtype=bool)
    return Answers(decided, wrong & decided, Sample(rows, wrong[rows], none, every, len(wrong), count))


def ends(calibration):
    return calibration.interval(slice(None), 0.95)


def width(calibration):
    low, high = ends(calibration)
    return high - low


@pytest.mark.parametrize("count", [1, 3, 10, 50])
def test_answers_never_widen_what_they_do_not_contradict(count):
    for seed in range(8):
        verdict, wrong = honest(seed)
        after = Updater(verdict).update(answered(wrong, count, seed))
        assert not after.combined.contradicts
        assert width(after) <= width(verdict) + 1
        assert after.interval(slice(None), 0.95)[0] <= wrong.sum() <= ends(after)[1]


@pytest.mark.parametrize("count", [10, 25, 100])
def test_in_doubt_the_sample_gives_the_rate_better_than_it_would_alone(count):
    held, gaps = [], []
    for seed in range(40):
        verdict, wrong = following(seed % 4)
        updater = Updater(verdict, in_doubt=True)
        given = answered(wrong, count, seed)
        after = updater.update(given)
        low, high = ends(after)
        held.append(low <= wrong.sum() <= high)
        alone = given.sample.is_wrong.mean() * len(wrong)
        gaps.append((abs(after.p_wrong.sum() - wrong.sum()), abs(alone - wrong.sum())))
    assert np.mean(held) >= 0.93
    ours, plain = np.mean(gaps, axis=0)
    assert ours < plain


def test_p_wrong_is_recalibrated_over_its_whole_range_and_keeps_its_order():
    verdict, wrong = following()
    assert (verdict.p_wrong >= 0.5).sum() < 0.1 * wrong.sum()
    given = answered(wrong, 200, 1)
    after = Updater(verdict, in_doubt=True).update(given)
    left = ~given.is_decided
    order = np.argsort(verdict.p_wrong[left], kind="stable")
    assert (np.diff(after.p_wrong[left][order]) >= -1e-9).all()
    flagged = left & (after.p_wrong >= 0.5)
    assert flagged.sum() > 0.4 * wrong[left].sum()
    assert wrong[flagged].mean() == pytest.approx(after.p_wrong[flagged].mean(), abs=0.1)
    assert (after.low <= after.p_wrong).all()
    assert (after.p_wrong <= after.high).all()


def test_answers_that_contradict_the_verdict_leave_only_its_ranking():
    verdict, wrong = following()
    sure = Calibration(verdict.p_wrong, 0.9 * verdict.p_wrong, np.minimum(1, 1.1 * verdict.p_wrong))
    after = Updater(sure).update(answered(wrong, 100, 3))
    assert after.combined.contradicts
    assert ends(sure)[1] < wrong.sum() <= ends(after)[1]


def test_curves_begin_with_the_verdict_and_reach_its_bounds():
    verdict, _ = honest(num_rows=150)
    curves = Curves((verdict.p_wrong, verdict.low, verdict.high), in_doubt=False)
    order = np.argsort(verdict.p_wrong)
    middle = curves.p_wrong[40]  # t = 0
    assert middle == pytest.approx(verdict.p_wrong[order], rel=1e-6)
    assert np.exp(curves.prior).sum() == pytest.approx(1)
    rates = curves.p_wrong[curves.num_first :] @ curves.size / 150
    assert rates.min() < 0.001
    assert rates.max() > 0.99
