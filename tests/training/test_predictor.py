"""The model of a finished run: its inputs, its outputs, and its errors for damaged files."""

import numpy as np
import pytest

import surelabel
from surelabel.errors import RunError


@pytest.fixture
def run(tiny, tmp_path):
    return surelabel.fit(tiny("car", train__epochs=1), tmp_path / "run")


@pytest.fixture
def x():
    return np.random.default_rng(1).normal(size=(20, 6)).round(2).astype(np.float32)


@pytest.mark.parametrize("kind", [np.float64, np.float16, np.int64, np.uint8, list])
def test_inputs_of_any_kind(run, x, kind):
    model, whole = surelabel.load(run), np.abs(x).round()
    given = whole.tolist() if kind is list else whole.astype(kind)
    np.testing.assert_array_equal(model.predict_proba(given), model.predict_proba(whole))
    np.testing.assert_array_equal(model.tau(given), model.tau(whole))
    assert model.predict_proba(given).dtype == np.float32


def test_no_rows_give_no_rows(run, x):
    model = surelabel.load(run)
    assert model.predict_proba(x[:0]).shape == (0, 3)
    assert model.tau(x[:0]).shape == model.predict(x[:0]).shape == (0,)


def test_rows_are_the_same_in_batches_of_any_size(run, x):
    model = surelabel.load(run)
    np.testing.assert_allclose(model.tau(x, batch_size=7), model.tau(x), atol=1e-6)


def test_inputs_of_another_shape_are_refused(run, x):
    with pytest.raises(ValueError, match=r"inputs must have shape \(N, 6\), got \(20, 5\)"):
        surelabel.load(run).predict_proba(x[:, :5])


@pytest.mark.parametrize("content", [b"", b"no weights", None])
def test_weights_that_cannot_be_read_are_named(run, content):
    whole = run.weights_file.read_bytes()
    run.write_stream(run.weights_file.name, lambda file: file.write(whole[:-10] if content is None else content))
    with pytest.raises(RunError, match=r"run/model\.safetensors: not readable: ") as caught:
        surelabel.load(run)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("method", "changes"), [("cross_entropy", {}), ("car", {"model__options": {"widths": [9], "norm": "none"}})]
)
def test_weights_of_another_run_are_refused(run, tiny, tmp_path, method, changes):
    """Try weights with other names, and with the same names in other sizes."""
    other = surelabel.fit(tiny(method, train__epochs=1, **changes), tmp_path / "other")
    run.write_stream(run.weights_file.name, lambda file: file.write(other.weights_file.read_bytes()))
    with pytest.raises(RunError, match=r"run/model\.safetensors: the weights do not fit the run's configuration"):
        surelabel.load(run)
