import numpy as np
import pytest

from surelabel.verdicts.noise_model import fit_noise_model, resample_rates


def logits_and_labels(rate, clearness=6.0, num_rows=3000, num_classes=5, seed=0):
    """Logits whose softmax is right about the true class, and labels of which `rate` are wrong."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(num_rows, num_classes)) * clearness
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    clean = (p.cumsum(1) > rng.random((num_rows, 1))).argmax(1)
    given = clean.copy()
    wrong = rng.random(num_rows) < rate
    given[wrong] = (given[wrong] + rng.integers(1, num_classes, wrong.sum())) % num_classes
    return logits, given, clean


def p_wrong(model, logits, given):
    return 1 - model.posterior(logits, given)[np.arange(len(given)), given]


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("clearness", [3.0, 8.0])
def test_rate_of_wrong_labels_is_found_from_logits_that_are_too_soft(rate, clearness):
    logits, given, clean = logits_and_labels(rate, clearness)
    model = fit_noise_model(logits / 3, given)
    found = p_wrong(model, logits / 3, given)
    assert found.mean() == pytest.approx((given != clean).mean(), abs=0.03)
    flagged = found > 0.5
    chance = 3 * np.sqrt((found[flagged] * (1 - found[flagged])).sum()) / flagged.sum()
    assert (given != clean)[flagged].mean() == pytest.approx(found[flagged].mean(), abs=chance)


def test_hard_but_right_labels_are_not_called_wrong():
    logits, given, _ = logits_and_labels(0.0, clearness=1.0)
    found = p_wrong(fit_noise_model(logits, given), logits, given)
    assert found.mean() < 0.02
    assert (found > 0.5).mean() < 0.005


def test_classes_that_are_mislabelled_one_way_are_found():
    logits, given, clean = logits_and_labels(0.0)
    rng = np.random.default_rng(3)
    given = np.where((clean == 2) & (rng.random(len(clean)) < 0.4), 3, clean)
    transition = fit_noise_model(logits, given).transition
    assert transition.sum(1) == pytest.approx(np.ones(5))
    assert transition[2, 3] == pytest.approx(0.4, abs=0.05)
    assert transition[[0, 1, 3, 4], [0, 1, 3, 4]].min() > 0.95


def test_resamples_lie_around_the_estimate_and_narrow_with_more_rows():
    spreads = []
    for num_rows in (400, 3000):
        logits, given, _ = logits_and_labels(0.2, num_rows=num_rows)
        model = fit_noise_model(logits, given)
        rates = resample_rates(model, logits, given)
        assert rates.mean() == pytest.approx(p_wrong(model, logits, given).mean(), abs=0.03)
        spreads.append(rates.std())
    assert spreads[1] < 0.7 * spreads[0]


def test_a_class_without_labels_and_another_without_rows_do_not_break_it():
    logits, given, _ = logits_and_labels(0.2, num_classes=6)
    given = np.where(given >= 4, 0, given)
    assert np.isfinite(p_wrong(fit_noise_model(logits, given), logits, given)).all()
