"""The kinds of noise, through `inject`: rates, matrices, seeds and invalid settings."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.config import NoiseConfig
from surelabel.errors import ConfigError, DataError
from surelabel.noise import inject

labels = st.integers(2, 8).flatmap(
    lambda num_classes: st.tuples(
        st.just([f"class {number}" for number in range(num_classes)]),
        st.lists(st.integers(0, num_classes - 1), max_size=80).map(lambda values: np.array(values, dtype=np.int64)),
    )
)
rates = st.floats(0, 1)
seeds = st.integers(0, 2**32)
CATS_AND_DOGS = np.repeat([0, 1, 2], [50, 100, 30])
NAMES = ("cat", "dog", "owl")


def noise(kind, **options):
    return NoiseConfig(kind=kind, **options)


class TestSymmetric:
    @given(labels, rates, seeds)
    def test_the_true_class_excluded_makes_the_exact_count_wrong(self, names_and_clean, rate, seed):
        names, clean = names_and_clean
        noisy, manifest = inject(clean, names, noise("symmetric", rate=rate), seed)
        num_wrong = round(rate * len(clean))
        assert (noisy != clean).sum() == num_wrong == manifest.num_changed
        assert manifest.realised_rate == pytest.approx(num_wrong / max(1, len(clean)))
        assert set(noisy) <= set(range(len(names)))

    def test_the_new_label_is_uniform_over_the_others(self):
        clean = np.repeat(np.arange(4), 5000)
        _, manifest = inject(clean, list("abcd"), noise("symmetric", rate=0.6), 0)
        assert np.allclose(manifest.realised_matrix, 0.4 * np.eye(4) + 0.2 * (1 - np.eye(4)), atol=0.03)

    def test_the_true_class_included_leaves_some_right(self):
        clean = np.repeat(np.arange(4), 5000)
        noisy, manifest = inject(clean, list("abcd"), noise("symmetric", rate=0.8, include_true_class=True), 0)
        assert manifest.realised_rate == pytest.approx(0.8 * 3 / 4, abs=0.01)
        assert np.allclose(manifest.realised_matrix, 0.2 * np.eye(4) + 0.2, atol=0.03)
        assert manifest.nominal_rate == 0.8
        assert "true class included" in manifest.convention
        assert manifest.num_changed == (noisy != clean).sum()

    def test_the_real_rate_with_the_true_class_included_is_recorded_and_described(self):
        clean = np.repeat(np.arange(10), 100)
        _, manifest = inject(clean, list("abcdefghij"), noise("symmetric", rate=0.4, include_true_class=True), 0)
        assert manifest.expected_rate == pytest.approx(0.4 * (1 - 1 / 10))
        assert "40.0 % nominal, 36.0 % expected (true class included, exact count)" in manifest.describe()

    def test_exactly_the_requested_number_is_drawn_when_the_true_class_is_included(self):
        """With 1,000 classes nearly every row that is drawn gets another label."""
        clean = np.zeros(2000, dtype=int)
        noisy, _ = inject(
            clean, [str(k) for k in range(1000)], noise("symmetric", rate=0.5, include_true_class=True), 0
        )
        assert 995 <= (noisy != clean).sum() <= 1000

    @pytest.mark.parametrize(("included", "wrong"), [(False, 0.4), (True, 0.32)])
    def test_bernoulli_draws_each_label_independently(self, included, wrong):
        clean = np.repeat(np.arange(5), 4000)
        options = {"rate": 0.4, "include_true_class": included, "mode": "bernoulli"}
        draws = [inject(clean, list("abcde"), noise("symmetric", **options), seed) for seed in range(6)]
        counts = [manifest.num_changed for _, manifest in draws]
        deviation = np.sqrt(len(clean) * wrong * (1 - wrong))
        assert len(set(counts)) > 1
        assert all(abs(count - wrong * len(clean)) < 4 * deviation for count in counts)
        assert np.allclose(draws[0][1].realised_matrix, (1 - wrong - wrong / 4) * np.eye(5) + wrong / 4, atol=0.03)
        assert draws[0][1].mode == "bernoulli"
        assert draws[0][1].expected_rate == pytest.approx(wrong)
        assert "each label drawn by itself" in draws[0][1].convention


class TestAsymmetric:
    @given(labels, rates, seeds)
    def test_each_source_class_has_its_exact_count(self, names_and_clean, rate, seed):
        names, clean = names_and_clean
        class_map = {names[0]: names[1], names[1]: names[0]}
        noisy, _ = inject(clean, names, noise("asymmetric", rate=rate, class_map=class_map), seed)
        for old, new in ((0, 1), (1, 0)):
            members = noisy[clean == old]
            assert (members == new).sum() == round(rate * len(members))
            assert set(members) <= {old, new}
        assert np.array_equal(noisy[clean > 1], clean[clean > 1])

    def test_cats_that_became_dogs_do_not_turn_back(self):
        """In several published implementations 24 % of the cats are wrong instead of 40 %."""
        class_map = {"cat": "dog", "dog": "cat"}
        _, manifest = inject(CATS_AND_DOGS, NAMES, noise("asymmetric", rate=0.4, class_map=class_map), 0)
        assert manifest.realised_matrix == ((0.6, 0.4, 0.0), (0.4, 0.6, 0.0), (0.0, 0.0, 1.0))

    def test_the_order_of_the_map_does_not_matter(self):
        maps = ({"cat": "dog", "owl": "cat"}, {"owl": "cat", "cat": "dog"})
        results = [inject(CATS_AND_DOGS, NAMES, noise("asymmetric", rate=0.3, class_map=m), 0)[0] for m in maps]
        assert np.array_equal(*results)


@given(labels, rates, seeds)
def test_pair_moves_each_class_to_the_next(names_and_clean, rate, seed):
    names, clean = names_and_clean
    noisy, _ = inject(clean, names, noise("pair", rate=rate), seed)
    for old in range(len(names)):
        members = noisy[clean == old]
        assert (members == (old + 1) % len(names)).sum() == round(rate * len(members))
        assert set(members) <= {old, (old + 1) % len(names)}


@pytest.mark.parametrize(
    "options",
    [{"kind": "pair"}, {"kind": "asymmetric", "class_map": {"cat": "dog"}}, {"kind": "block", "block_size": 3}],
)
def test_class_maps_can_be_applied_to_each_label_independently(options):
    clean = np.repeat([0, 1, 2], 6000)
    config = noise(**options, rate=0.3, mode="bernoulli")
    _, manifest = inject(clean, NAMES, config, 0)
    _, exact_manifest = inject(clean, NAMES, config.model_copy(update={"mode": "exact"}), 0)
    assert np.allclose(manifest.realised_matrix, exact_manifest.realised_matrix, atol=0.03)
    assert exact_manifest.realised_matrix[0] == (0.7, 0.3, 0.0)
    assert manifest.realised_rate != exact_manifest.realised_rate
    assert manifest.expected_rate == pytest.approx(exact_manifest.realised_rate)
    assert (manifest.mode, exact_manifest.mode) == ("bernoulli", "exact")


class TestMatrix:
    def test_labels_follow_the_matrix(self):
        matrix = ((0.7, 0.3, 0.0), (0.0, 1.0, 0.0), (0.25, 0.25, 0.5))
        clean = np.repeat([0, 1, 2], [8000, 1000, 8000])
        noisy, manifest = inject(clean, NAMES, noise("matrix", matrix=matrix), 0)
        assert np.allclose(manifest.realised_matrix, matrix, atol=0.02)
        assert manifest.nominal_rate == pytest.approx((8000 * 0.3 + 8000 * 0.5) / 17000)
        assert manifest.realised_rate == (noisy != clean).mean()

    @settings(max_examples=30)
    @given(st.integers(2, 6), st.integers(0, 1000))
    def test_a_class_of_probability_0_is_never_drawn(self, num_classes, seed):
        rng = np.random.default_rng(seed)
        weights = rng.random((num_classes, num_classes)) * (rng.random((num_classes, num_classes)) < 0.5)
        weights[np.arange(num_classes), rng.integers(0, num_classes, num_classes)] += 0.1
        matrix = weights / weights.sum(1, keepdims=True)
        clean = rng.integers(0, num_classes, 300)
        names = [str(number) for number in range(num_classes)]
        noisy, _ = inject(clean, names, noise("matrix", matrix=matrix.tolist()), seed)
        assert (matrix[clean, noisy] > 0).all()

    @given(labels, seeds)
    def test_exact_gives_each_class_the_counts_of_its_row(self, names_and_clean, seed):
        names, clean = names_and_clean
        matrix = np.random.default_rng(seed).dirichlet(np.ones(len(names)), len(names))
        matrix[0] = np.eye(len(names))[1]
        noisy, manifest = inject(clean, names, noise("matrix", matrix=matrix.tolist(), mode="exact"), seed)
        for old in range(len(names)):
            members = noisy[clean == old]
            counts = np.bincount(members, minlength=len(names))
            assert (np.abs(counts - len(members) * matrix[old]) < 1).all()
        assert set(noisy[clean == 0]) <= {1}
        assert manifest.convention == "transition matrix, exact counts per class"

    def test_exact_rounds_to_the_nearest_whole_numbers(self):
        matrix = ((0.7, 0.3, 0.0), (0.0, 1.0, 0.0), (0.25, 0.25, 0.5))
        _, manifest = inject(np.repeat([0, 1, 2], [10, 3, 8]), NAMES, noise("matrix", matrix=matrix, mode="exact"), 0)
        assert manifest.realised_matrix == matrix

    @pytest.mark.parametrize(
        ("matrix", "message"),
        [
            (None, "matrix noise needs one, 3 x 3"),
            (((0.5, 0.5), (0.0, 1.0)), "2 rows for 3 classes"),
            (((1, 0, 0), (0, 1), (0, 0, 1)), "the row of 'dog' has 2 entries for 3 classes"),
            (((1, 0, 0), (0, 1, 0), (0, 0.1, 0.8)), r"the row of 'owl' .* sum to 1; .* the sum 0\.9"),
            (((1.5, -0.5, 0), (0, 1, 0), (0, 0, 1)), r"the row of 'cat' .* >= 0 .* smallest is -0\.5"),
        ],
    )
    def test_a_matrix_that_is_not_a_transition_matrix_is_refused(self, matrix, message):
        with pytest.raises(ConfigError, match=r"noise\.matrix: " + message):
            inject(CATS_AND_DOGS, NAMES, noise("matrix", matrix=matrix), 0)


class TestDraw:
    def test_the_seed_alone_decides(self):
        config = noise("symmetric", rate=0.4)
        results = []
        for global_seed, seed in ((1, 0), (2, 0), (1, 7)):
            random.seed(global_seed)
            np.random.seed(global_seed)
            results.append(inject(CATS_AND_DOGS, NAMES, config, seed)[0])
        assert np.array_equal(results[0], results[1])
        assert not np.array_equal(results[0], results[2])

    def test_the_configured_seed_takes_precedence_over_the_run_s(self):
        fixed = noise("symmetric", rate=0.4, seed=3)
        noisy, manifest = inject(CATS_AND_DOGS, NAMES, fixed, 0)
        assert manifest.seed == 3
        assert np.array_equal(noisy, inject(CATS_AND_DOGS, NAMES, noise("symmetric", rate=0.4), 3)[0])

    def test_the_clean_labels_are_left_alone(self):
        clean = CATS_AND_DOGS.copy()
        inject(clean, NAMES, noise("pair", rate=0.5), 0)
        assert np.array_equal(clean, CATS_AND_DOGS)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"kind": "asymmetric", "rate": 0.4}, r"noise\.class_map: asymmetric noise needs one"),
            (
                {"kind": "asymmetric", "rate": 0.4, "class_map": {"cat": "cow"}},
                r"noise\.class_map: there is no class 'cow'; available: cat, dog, owl",
            ),
            ({"kind": "asymmetric", "rate": 0.4, "class_map": {"cow": "cat"}}, "there is no class 'cow'"),
            (
                {"kind": "matrix", "rate": 0.4},
                r"noise\.rate: .* matrix .* symmetric, asymmetric, superclass, block, pair, instance",
            ),
            ({"kind": "pair", "include_true_class": True}, r"noise\.include_true_class: does not apply to pair noise"),
            ({"kind": "symmetric", "class_map": {"cat": "dog"}}, r"noise\.class_map: .* symmetric noise"),
            ({"kind": "pair", "matrix": ((1.0,),)}, r"noise\.matrix: does not apply to pair noise, only to matrix"),
            (
                {"kind": "pair", "groups": "cifar100"},
                r"noise\.groups: does not apply to pair noise, only to superclass",
            ),
            ({"kind": "pair", "block_size": 3}, r"noise\.block_size: does not apply to pair noise, only to block"),
            ({"kind": "pair", "path": "a.npy"}, r"noise\.path: does not apply to pair noise, only to file"),
            ({"kind": "pair", "instance_scale": "unit"}, r"noise\.instance_scale: does not apply to pair noise"),
            (
                {"kind": "instance", "mode": "exact"},
                r"noise\.mode: does not apply to instance noise, only to symmetric, ",
            ),
            ({"kind": "file", "rate": 0.3}, r"noise\.rate: does not apply to file noise"),
            ({"kind": "file"}, r"noise\.path: file noise needs one"),
            ({"kind": "instance", "rate": 0.3}, r"noise\.kind: instance noise depends on the inputs"),
        ],
    )
    def test_settings_that_do_not_fit_are_named(self, options, message):
        with pytest.raises(ConfigError, match=message):
            inject(CATS_AND_DOGS, NAMES, NoiseConfig(**options), 0)

    @pytest.mark.parametrize("rate", [-0.1, 1.1])
    def test_a_rate_out_of_range_is_refused(self, rate):
        with pytest.raises(ValueError, match="rate"):
            noise("symmetric", rate=rate)

    def test_labels_beyond_the_classes_are_refused(self):
        with pytest.raises(DataError, match=r"labels must lie in 0\.\.1, got 0\.\.2"):
            inject(CATS_AND_DOGS, NAMES[:2], noise("pair", rate=0.1), 0)

    def test_a_single_class_is_refused(self):
        with pytest.raises(DataError, match="noise needs at least 2 classes, there is cat"):
            inject(np.zeros(3, dtype=int), ["cat"], noise("symmetric", rate=0.1), 0)
