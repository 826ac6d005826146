"""P(wrong) over quality, fitted without any clean label."""

import numpy as np
import pytest
from tests.verdicts.conftest import evidence

from surelabel.verdicts.calibration import MIN_ROWS, Calibration
from surelabel.verdicts.curve import calibrate, curve_through, fit_curve, fit_falling
from surelabel.verdicts.measures import calibration_error


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.7])
@pytest.mark.parametrize("has_history", [True, False])
def test_two_groups_are_told_apart_and_counted(rate, has_history):
    made = evidence(1500, rate)
    curve = fit_curve(made["quality"], made["first_learned"] if has_history else None)
    p_wrong, _, _ = curve.at(made["quality"])
    assert curve.is_separated
    assert p_wrong.mean() == pytest.approx(rate, abs=0.02)
    assert calibration_error(p_wrong, made["is_wrong"]) < 0.02


def test_no_wrong_labels_are_not_split_into_two_kinds():
    curve = fit_curve(*(evidence(1500, 0.0)[name] for name in ("quality", "first_learned")))
    assert not curve.is_separated
    assert curve.at(np.array([0.99]))[0, 0] < 0.05


def test_a_higher_quality_is_never_likelier_wrong():
    made = evidence(800, 0.4)
    p_wrong = fit_curve(made["quality"], made["first_learned"]).at(np.linspace(0, 1, 500))[0]
    assert (np.diff(p_wrong) <= 0).all()
    assert 0 < p_wrong[-1] < p_wrong[0] < 1


def test_the_same_rows_give_the_same_curve_and_the_seed_moves_it_little():
    made = evidence(800, 0.4)
    one, again, other = (fit_curve(made["quality"], made["first_learned"], seed) for seed in (0, 0, 1))
    assert np.array_equal(one.values, again.values)
    assert other.at(made["quality"])[0].mean() == pytest.approx(one.at(made["quality"])[0].mean(), abs=0.01)


def test_with_few_rows_nothing_is_fitted():
    quality = np.linspace(0.05, 0.95, MIN_ROWS - 1)
    curve = fit_curve(quality)
    assert not curve.is_separated
    p_wrong, low, high = curve.at(quality)
    assert p_wrong == pytest.approx(1 - quality, abs=0.01)
    assert (low.max(), high.min()) == (0, 1)


def test_one_quality_for_all_and_an_unknown_one_are_no_obstacle():
    assert fit_curve(np.full(200, 0.7)).at(np.array([0.7]))[0, 0] == pytest.approx(0.3, abs=0.01)
    quality = evidence(200, 0.3)["quality"]
    quality[3] = np.nan
    assert np.isfinite(fit_curve(quality).at(quality)).all()


def test_neighbours_that_rise_are_pooled():
    assert fit_falling(np.array([0.9, 0.2, 0.6, 0.1]), np.array([1.0, 3.0, 1.0, 1.0])).tolist() == pytest.approx(
        [0.9, 0.3, 0.3, 0.1]
    )


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.4])
def test_bounds_add_up_to_intervals_that_allow_for_misplaced_labels(rate):
    made = evidence(1000, rate)
    found = calibrate({**made, "verdict": np.full(1000, "training")})
    low, high = found.interval(slice(None), 0.95)
    assert low <= 1000 * rate <= high
    assert high - found.p_wrong.sum() >= 0.02 * 1000
    assert found.p_wrong.sum() - low >= min(0.02 * 1000, found.p_wrong.sum())
    assert high - low < 200


def test_right_labels_that_were_learned_late_are_not_claimed_to_be_wrong():
    """Training on right labels alone: the network believes all of them, some it learned late."""
    rng, is_late = np.random.default_rng(0), np.arange(1000) < 600
    score = np.where(is_late, rng.normal(4.4, 0.4, 1000), rng.normal(7, 0.4, 1000))
    epoch = np.where(is_late, rng.integers(20, 40, 1000), rng.integers(1, 4, 1000))
    columns = {"quality": 1 / (1 + np.exp(-score)), "first_learned": epoch, "verdict": np.full(1000, "training")}
    found = calibrate(columns)
    assert found.is_separated
    low, high = found.interval(slice(None), 0.95)
    assert low < 10
    assert high > 500  # they may have been memorised


def test_confirmed_labels_are_certainly_right():
    made = evidence(300, 0.3)
    verdict = np.where(np.arange(300) % 3 == 0, "trusted", "training")
    found = calibrate({**made, "verdict": verdict})
    for values in (found.p_wrong, found.low, found.high):
        assert (values[verdict == "trusted"] == 0).all()
    assert found.separated == {"training": True}


def test_a_curve_through_rows_is_that_of_the_rows_and_falls():
    made = evidence(600, 0.3)
    of_training = calibrate({**made, "verdict": np.full(600, "training")})
    quality = made["quality"]
    found = curve_through(quality, of_training).at(quality)
    assert found[0] == pytest.approx(of_training.p_wrong)  # it falls already
    noise = np.random.default_rng(0).uniform(-0.2, 0.2, 600)
    other = Calibration(*(np.clip(values + noise, 0, 1) for values in (of_training.p_wrong, *of_training.bounds())))
    p_wrong, low, high = curve_through(quality, other).at(np.linspace(0, 1, 200))
    assert (np.diff(p_wrong) <= 0).all()
    assert ((low <= p_wrong) & (p_wrong <= high)).all()
    equal = curve_through(np.array([1.0, 1.0, 0.0]), Calibration(*np.array([[0.0, 0.4, 1.0]] * 3)))
    assert equal.at(np.array([1.0, 0.0]))[0].tolist() == pytest.approx([0.2, 1.0])
