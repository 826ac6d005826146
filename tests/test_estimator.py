"""The scikit-learn estimator: its contract, its verdict, and its run directory."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import surelabel
from surelabel import NoisyLabelClassifier

TINY = {"model": "mlp", "model_options": {"widths": [16], "norm": "none"}, "batch_size": 16, "threads": 1}


@pytest.mark.training
@parametrize_with_checks([NoisyLabelClassifier(epochs=15, device="cpu", **TINY)])
def test_scikit_learn_s_contract(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.fixture(scope="module")
def rows():
    """Return x, given and true labels of three easy classes with every fifth label wrong."""
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 3, 120)
    x = rng.normal(size=(120, 4)) + 4 * np.eye(3, 4)[clean]
    names = np.array(["ape", "bee", "cat"])
    given = np.where(np.arange(120) % 5 == 0, (clean + 1) % 3, clean)
    return x, names[given], names[clean]


@pytest.fixture(scope="module")
def fitted(rows):
    return NoisyLabelClassifier(epochs=20, device="cpu", **TINY).fit(*rows[:2])


def test_it_predicts_the_users_own_labels(rows, fitted):
    x, _, clean = rows
    assert fitted.classes_.tolist() == ["ape", "bee", "cat"]
    assert fitted.score(x, clean) > 0.9
    np.testing.assert_allclose(fitted.predict_proba(x).sum(1), 1)


def test_its_verdict_is_in_the_order_of_the_rows(rows, fitted):
    _, given, clean = rows
    assert fitted.label_quality_[given != clean].mean() < fitted.label_quality_[given == clean].mean() - 0.2
    assert (fitted.suggested_labels_ == clean).mean() > 0.9
    ranked = fitted.audit_.columns["id"].astype(int)
    assert (fitted.audit_.columns["given"] == given[ranked]).all()


def test_held_out_rows_are_judged_too(rows):
    x, given, _ = rows
    settings = {"data.validation_fraction": 0.25}
    fitted = NoisyLabelClassifier(epochs=3, device="cpu", settings=settings, **TINY).fit(x, given)
    assert fitted.label_quality_.shape == fitted.suggested_labels_.shape == (120,)
    ranked = fitted.audit_.columns["id"].astype(int)
    quality = fitted.audit_.columns["quality"]
    np.testing.assert_allclose(fitted.label_quality_[ranked], quality, rtol=1e-6)


def test_a_pickle_needs_no_file_and_is_small(rows, fitted):
    content = pickle.dumps(fitted)
    again = pickle.loads(content)
    np.testing.assert_array_equal(again.predict_proba(rows[0]), fitted.predict_proba(rows[0]))
    assert len(content) < 100_000
    assert b"surelabel-" not in content  # the temporary folder


def test_the_run_can_be_kept(rows, tmp_path):
    given = NoisyLabelClassifier(epochs=2, device="cpu", out=tmp_path / "run", **TINY).fit(*rows[:2])
    run = surelabel.load(tmp_path / "run")
    np.testing.assert_allclose(run.predict_proba(rows[0]), given.predict_proba(rows[0]), atol=1e-6)
    with pytest.raises(ValueError, match="this folder is not empty"):
        given.fit(*rows[:2])


def test_groups_are_taken_and_bad_ones_refused(rows):
    for group, fault in ((np.arange(119), r"group has the shape \(119,\)"), (np.zeros(120, int), "in one group")):
        with pytest.raises(ValueError, match=fault):
            NoisyLabelClassifier().fit(*rows[:2], group=group)


def test_weights_of_samples_are_refused(rows):
    with pytest.raises(TypeError, match="only, got sample_weight; sample weights are not supported"):
        NoisyLabelClassifier().fit(*rows[:2], sample_weight=np.ones(120))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "nosuch"}, "nosuch"),
        ({"epochs": 0}, "train.epochs: input should be greater than or equal to 1, got 0"),
        ({"method_options": {"nosuch": 1}}, "nosuch"),
        ({"settings": {"train.nosuch": 1}}, "train.nosuch: there is no such setting"),
        ({"settings": {"data.test_fraction": 0.3}}, "test rows get no verdict; split X"),
        ({"settings": {"data": {"source": "x", "test_fraction": 0.3}}}, "data.test_fraction: not supported here"),
    ],
)
def test_bad_parameters_are_named(rows, parameters, message):
    with pytest.raises(ValueError, match=message):
        NoisyLabelClassifier(**parameters).fit(*rows[:2])


def test_pipeline_and_grid_search(rows):
    x, given, clean = rows
    small = NoisyLabelClassifier(method="gce", epochs=6, device="cpu", **TINY)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), small), {"noisylabelclassifier__method_options": [{"q": 0.3}, {"q": 0.7}]}, cv=2
    )
    assert search.fit(x, given).score(x, clean) > 0.7


def test_frames(rows):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    x, given, _ = rows
    frame = pandas.DataFrame(x, columns=list("abcd"))
    fitted = NoisyLabelClassifier(epochs=2, device="cpu", **TINY).fit(frame, pandas.Series(given))
    assert fitted.feature_names_in_.tolist() == list("abcd")
    assert fitted.predict(frame).shape == (120,)
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame[list("dcba")])


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 3), (1, 8, 8)])
def test_images(shape):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 40)
    x = rng.integers(0, 100, (40, *shape)).astype(np.uint8) + 150 * y.astype(np.uint8).reshape(-1, *[1] * len(shape))
    fitted = NoisyLabelClassifier(epochs=3, device="cpu", **TINY).fit(x, y)
    assert fitted.predict_proba(x[:5]).shape == (5, 2)
    assert clone(fitted).get_params()["epochs"] == 3


def test_equal_seeds_give_equal_results_and_none_another(rows):
    def probability(state):
        made = NoisyLabelClassifier(epochs=1, device="cpu", random_state=state, **TINY)
        return made.fit(*rows[:2]).predict_proba(rows[0])

    np.testing.assert_array_equal(probability(3), probability(np.int64(3)))
    assert not np.array_equal(probability(3), probability(None))
