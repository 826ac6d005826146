"""Noise that depends on the input: the labels, their probabilities and the scale of the input."""

import numpy as np
import pytest

from surelabel.config import NoiseConfig
from surelabel.errors import ConfigError, DataError
from surelabel.noise import inject
from surelabel.noise import instance as module
from surelabel.noise.instance import flatten, flip_rates, hash_each, probabilities

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (4000, 3, 4, 4), dtype=np.uint8)
CLEAN = np.arange(4000) % 5
NAMES = list("abcde")


def noise(x=IMAGES, clean=CLEAN, seed=0, **options):
    config = NoiseConfig(kind="instance", **{"rate": 0.4, **options})
    return inject(clean, NAMES, config, seed, inputs=lambda rows: x[rows])


def test_the_realised_rate_is_the_mean_flip_rate():
    noisy, manifest = noise()
    deviation = np.sqrt(0.4 * 0.6 / len(CLEAN))
    assert manifest.expected_rate == pytest.approx(0.4, abs=3 * 0.1 / np.sqrt(len(CLEAN)))
    assert abs((noisy != CLEAN).mean() - manifest.expected_rate) < 3 * deviation
    assert manifest.mode == "bernoulli"
    assert manifest.inputs_sha256
    assert "raw values" in manifest.convention


def test_flip_rates_follow_the_truncated_normal_distribution():
    q = flip_rates(hash_each(RNG.integers(0, 256, (20000, 16), dtype=np.uint8)), 0.4, 3)
    assert ((q >= 0) & (q <= 1)).all()
    assert q.mean() == pytest.approx(0.4, abs=0.003)
    assert q.std() == pytest.approx(0.1, abs=0.003)
    near_zero = flip_rates(hash_each(RNG.integers(0, 256, (20000, 16), dtype=np.uint8)), 0.05, 3)
    # The mean of a standard normal truncated at -0.5 is phi(0.5) / Phi(0.5) = 0.50916.
    assert near_zero.mean() == pytest.approx(0.05 + 0.1 * 0.50916, abs=0.002)


def test_a_rate_of_zero_changes_nothing():
    noisy, manifest = noise(rate=0.0)
    assert np.array_equal(noisy, CLEAN)
    assert manifest.expected_rate == 0


def test_a_row_of_probabilities_by_hand():
    weights = np.array([[0.0, 1.0, 3.0], [0.0, 0.0, 0.0]])
    row = probabilities(np.array([[1.0, 5.0]]), weights, np.array([0.25]), 0)[0]
    other = 0.25 / (1 + np.exp(2.0))
    assert row == pytest.approx([0.75, other, 0.25 - other])


def test_rows_sum_to_one_and_keep_the_flip_rate():
    flat, q = flatten(IMAGES, "raw"), flip_rates(hash_each(IMAGES), 0.4, 0)
    rows = probabilities(flat, np.random.default_rng(1).standard_normal((48, 5)), q, 2)
    assert np.abs(rows.sum(1) - 1).max() < 1e-12
    assert rows[:, 2] == pytest.approx(1 - q)
    assert (rows >= 0).all()


def test_the_same_image_twice_has_the_same_probabilities():
    x = np.concatenate([IMAGES[:50], IMAGES[:50][::-1]])
    weights, q = np.random.default_rng(1).standard_normal((48, 5)), flip_rates(hash_each(x), 0.4, 0)
    rows = probabilities(flatten(x, "raw"), weights, q, 1)
    assert np.array_equal(q[:50], q[50:][::-1])
    assert np.allclose(rows[:50], rows[50:][::-1], atol=1e-9)


def test_labels_depend_on_the_inputs():
    """Other images flip differently, and each image is confused with one class."""
    same, other = noise()[0], noise(x=IMAGES[np.random.default_rng(1).permutation(4000)])[0]
    assert not np.array_equal(same, other)
    twins = np.repeat(IMAGES[:40], 100, axis=0)
    noisy = noise(x=twins, clean=np.zeros(4000, dtype=int), rate=0.5)[0].reshape(40, 100)
    targets = [np.bincount(row[row > 0], minlength=5) for row in noisy]
    assert all(row.max() / row.sum() > 0.9 for row in targets), "raw pixels make the softmax nearly one-hot"
    assert len({int(row.argmax()) for row in targets}) > 1


def test_the_scale_decides_how_labels_spread():
    def concentration(scale):
        twins = np.repeat(IMAGES[:40], 100, axis=0)
        noisy, manifest = noise(x=twins, clean=np.zeros(4000, dtype=int), rate=0.5, instance_scale=scale)
        assert f"{scale} values" in manifest.convention
        return np.mean([np.bincount(row[row > 0]).max() / (row > 0).sum() for row in noisy.reshape(40, 100)])

    raw, unit, length = map(concentration, ("raw", "unit", "length"))
    assert raw > unit > length
    assert length < 0.7


def test_how_many_rows_are_read_at_once_does_not_matter(monkeypatch):
    whole, manifest = noise()
    monkeypatch.setattr(module, "BYTES_AT_ONCE", 8 * 48 * 7)
    parts, again = noise()
    assert np.array_equal(whole, parts)
    assert manifest == again


def test_seeds():
    assert np.array_equal(noise(seed=1)[0], noise(seed=1)[0])
    assert not np.array_equal(noise(seed=1)[0], noise(seed=2)[0])


def test_another_class_without_rows_does_not_change_a_class():
    """So noise for some of the classes is the same as for all of them."""
    zeros = np.where(CLEAN == 1, 0, CLEAN)
    q = np.flatnonzero(CLEAN == 4)
    assert np.array_equal(noise()[0][q], noise(clean=zeros)[0][q])


def test_features():
    features = RNG.normal(size=(4000, 6)).astype(np.float32)
    noisy, manifest = noise(x=features, instance_scale="length")
    assert (noisy != CLEAN).mean() == pytest.approx(manifest.expected_rate, abs=0.03)
    with pytest.raises(ConfigError, match=r"noise\.instance_scale: unit is for pixels 0\.\.255"):
        noise(x=features, instance_scale="unit")
    features[7, 2] = np.nan
    with pytest.raises(DataError, match="instance noise: an input holds values that are NaN"):
        noise(x=features)


def test_black_images_have_no_length():
    noisy, _ = noise(x=np.zeros_like(IMAGES), instance_scale="length", rate=1.0)
    assert len(set(noisy[CLEAN == 0])) == 5
