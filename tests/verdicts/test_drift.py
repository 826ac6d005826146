"""Drift is a lower bound of the fraction of rows that are unlike others, 0 among alike ones."""

import numpy as np
import pytest

from surelabel.data.neighbours import measure_distances
from surelabel.verdicts.drift import measure_drift
from surelabel.verdicts.outliers import isolation_beside

TAIL = 0.05


@pytest.mark.parametrize("size", [30, 300, 3000])
def test_alike_rows_seldom_drift(size):
    rng = np.random.default_rng(0)
    found = [measure_drift("x", rng.normal(size=size), rng.normal(size=500), TAIL).share > 0 for _ in range(300)]
    assert np.mean(found) <= TAIL + 3 * np.sqrt(TAIL / 300)


@pytest.mark.parametrize("share", [0.2, 0.6, 1.0])
def test_the_fraction_of_unlike_rows_is_bounded_from_below(share):
    rng = np.random.default_rng(0)
    new = np.where(np.arange(2000) < share * 2000, rng.normal(-8, 1, 2000), rng.normal(size=2000))
    drift = measure_drift("x", new, rng.normal(size=2000), TAIL)
    assert share - 0.1 < drift.share <= share
    assert drift.is_unlike.sum() == round(drift.share * 2000)
    assert drift.is_unlike[: round(share * 2000)].sum() == drift.is_unlike.sum()


def test_only_smaller_values_are_drift():
    rng = np.random.default_rng(0)
    assert measure_drift("x", rng.normal(5, 1, 500), rng.normal(size=500), TAIL).share == 0


def test_distances_by_hand():
    reference = np.repeat(np.arange(30.0)[:, None], 2, axis=1)
    known, new = measure_distances(reference, np.array([[15.5, 15.5], [15.0, 15.0], [300.0, 300.0]]))
    step = np.sqrt(2) / reference[:, 0].std()
    assert known[15, :2] == pytest.approx([step, step], rel=1e-5)  # not the row itself
    assert new[0, :2] == pytest.approx([step / 2, step / 2], rel=1e-5)
    assert new[1, 0] == pytest.approx(0, abs=1e-6)  # a copy
    assert new[2, 0] > 3 * step


def test_values_in_a_column_that_never_varied_are_new():
    reference = np.random.default_rng(0).normal(size=(100, 3))
    reference[:, 2] = 0
    rows = reference[:2] + 1e-3
    rows[:, 2] = [0, 1]
    _, new = measure_distances(reference, rows)
    assert new[1].mean() > 1.2 * new[0].mean()


def test_too_few_rows_have_no_distances():
    assert measure_distances(np.zeros((5, 2)), np.zeros((5, 2))) is None


def test_isolation_is_in_spreads_of_the_reference():
    reference = np.exp(np.random.default_rng(0).normal(0, 0.1, 5000))
    assert isolation_beside(np.exp([0.0, 0.3, 1.0]), reference) == pytest.approx([0, 3, 10], abs=0.5)
