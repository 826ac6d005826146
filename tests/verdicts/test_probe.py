import numpy as np
import pytest

from surelabel.verdicts import probe
from surelabel.verdicts.probe import second_opinion


def blobs(num_rows=300, num_classes=4, size=10, spread=1.5, seed=0):
    rng = np.random.default_rng(seed)
    clean = np.arange(num_rows) % num_classes
    x = rng.normal(size=(num_classes, size))[clean] * spread + rng.normal(size=(num_rows, size))
    given = clean.copy()
    wrong = rng.choice(num_rows, num_rows // 5, replace=False)
    given[wrong] = (given[wrong] + rng.integers(1, num_classes, len(wrong))) % num_classes
    return x.astype(np.float32), given, clean


@pytest.mark.parametrize(("num_rows", "size"), [(40, 5), (20, 30)])
def test_scores_are_those_of_models_that_were_fitted_without_the_row(num_rows, size):
    rng = np.random.default_rng(1)
    phi, labels = rng.normal(size=(num_rows, size)), rng.integers(0, 3, num_rows)
    phi -= phi.mean(0)
    penalty, _, scores = probe._best_scores(phi, labels, 3, np.arange(num_rows))
    targets = np.eye(3)[labels]
    for row in range(num_rows):
        rest = np.delete(np.arange(num_rows), row)
        centre, level = phi[rest].mean(0), targets[rest].mean(0)
        x, y = phi[rest] - centre, targets[rest] - level
        weights = np.linalg.solve(x.T @ x + penalty * num_rows * np.eye(size), x.T @ y)
        expected = (phi[row] - centre) @ weights + level - targets.mean(0)
        np.testing.assert_allclose(scores[row], expected, atol=2e-5)


def test_wrong_labels_are_ranked_first():
    x, given, clean = blobs()
    opinion = second_opinion(x, given, 4)
    rows = np.arange(len(x))
    others = opinion.logits.copy()
    others[rows, given] = -np.inf
    margin = opinion.logits[rows, given] - others.max(1)
    assert np.median(margin[given != clean]) < 0 < np.median(margin[given == clean])
    assert (opinion.logits.argmax(1) == clean).mean() > 0.9


def test_rescaled_shifted_and_constant_columns_change_nothing():
    x, given, _ = blobs()
    changed = np.hstack([x * 1000 + 7, np.full((len(x), 2), 3.0, dtype=np.float32)])
    np.testing.assert_allclose(second_opinion(changed, given, 4).logits, second_opinion(x, given, 4).logits, atol=0.02)


def test_inputs_without_any_variation_give_the_prior():
    given = np.array([0, 0, 0, 1])
    logits = second_opinion(np.ones((4, 3)), given, 2).logits
    assert np.isfinite(logits).all()
    assert (logits.argmax(1) == 0).all()


def test_too_much_work_gives_no_opinion(monkeypatch):
    x, given, _ = blobs()
    monkeypatch.setattr(probe, "MAX_WORK", 10)
    assert second_opinion(x, given, 4) is None


def test_wide_features_are_projected(monkeypatch):
    x, given, clean = blobs(size=60)
    monkeypatch.setattr(probe, "MAX_FEATURES", 40)
    assert (second_opinion(x, given, 4).logits.argmax(1) == clean).mean() > 0.9
