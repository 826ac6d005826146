"""Test and validation rows, the order of classes, and data that cannot be trained on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surelabel.config import DataConfig, validate
from surelabel.data import load_corpus
from surelabel.data.splits import sort_classes, split_stratified
from surelabel.errors import ConfigError, DataError


@given(
    label=st.lists(st.integers(0, 4), min_size=2, max_size=60).map(np.array),
    fraction=st.floats(0.01, 0.99),
    seed=st.integers(0, 9),
)
def test_a_split_is_a_partition_and_every_class_keeps_a_row(label, fraction, seed):
    kept, apart = split_stratified(label, fraction, seed)
    assert sorted([*kept, *apart]) == list(range(len(label)))
    assert set(label[kept]) == set(label)
    classes, counts = np.unique(label, return_counts=True)
    taken = np.array([(label[apart] == name).sum() for name in classes])
    assert (np.abs(taken - np.minimum(fraction * counts, counts - 1)) < 1 + 1e-9).all()
    if (np.ceil(fraction * counts) < counts).all():
        assert len(apart) == max(1, round(fraction * len(label)))


def test_a_split_is_stratified_and_depends_on_its_seed_alone():
    label = np.repeat([0, 1, 2], [100, 50, 10])
    np.random.seed(1)
    kept, apart = split_stratified(label, 0.2, 0)
    np.random.seed(2)
    assert np.bincount(label[apart]).tolist() == [20, 10, 2]
    assert np.array_equal(split_stratified(label, 0.2, 0)[1], apart)
    assert not np.array_equal(split_stratified(label, 0.2, 1)[1], apart)
    assert np.array_equal(kept, np.sort(kept))


def test_many_small_classes_still_contribute_their_fraction():
    label = np.repeat(np.arange(50), 2)
    assert len(split_stratified(label, 0.2, 0)[1]) == 20


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["10", "9", "9", "0"], ("0", "9", "10")),
        (["b", "a", "10"], ("10", "a", "b")),
        (["010", "9"], ("010", "9")),
    ],
)
def test_classes_are_sorted_and_numbers_by_value(names, expected):
    assert sort_classes(names) == expected


class TestCorpus:
    @pytest.fixture
    def archive(self, tmp_path):
        def write(name="a.npz", labels="ab" * 20, **more):
            x = np.arange(len(labels), dtype=np.float32)[:, None].repeat(2, 1)
            np.savez(tmp_path / name, x=x, y=np.array(list(labels)), **more)
            return str(tmp_path / name)

        return write

    def test_rows_are_split_off_for_test_and_validation(self, archive):
        source = archive()
        corpus = load_corpus(DataConfig(source=source, test_fraction=0.25, validation_fraction=0.2))
        assert (len(corpus.train), len(corpus.validation), len(corpus.tests["test"])) == (24, 6, 10)
        ids = [*corpus.train.ids, *corpus.validation.ids, *corpus.tests["test"].ids]
        assert sorted(map(int, ids)) == list(range(40))
        for part in (corpus.train, corpus.validation, corpus.tests["test"]):
            assert np.array_equal(part.x[:, 0].numpy(), part.ids.astype(int))
            assert np.array_equal(part.label.numpy(), part.ids.astype(int) % 2)
            assert part.clean is None

    @pytest.mark.parametrize(("fraction", "num_folds"), [(0.2, 5), (1 / 3, 3), (0.45, 2)])
    def test_folds_hold_out_different_rows(self, archive, fraction, num_folds):
        labels, found = "ab" * 20 + "c" * 7, []
        for fold in range(num_folds):
            config = DataConfig(source=archive(labels=labels), validation_fraction=fraction, validation_fold=fold)
            corpus = load_corpus(config)
            assert sorted(map(int, [*corpus.train.ids, *corpus.validation.ids])) == list(range(47))
            assert {*corpus.train.label.tolist()} == {0, 1, 2}
            assert {*corpus.validation.label.tolist()} >= {0, 1}
            found += [int(row) for row in corpus.validation.ids]
        assert len(found) == len(set(found))
        assert len(found) == pytest.approx(num_folds * fraction * 47, abs=num_folds)

    def test_the_first_fold_is_the_usual_split(self, archive):
        first, usual = (
            load_corpus(DataConfig(source=archive(), validation_fraction=0.2, **more))
            for more in ({"validation_fold": 0}, {})
        )
        assert first.validation.ids.tolist() == usual.validation.ids.tolist()

    def test_more_folds_than_the_fraction_leaves_are_refused(self, archive):
        with pytest.raises(ConfigError, match="validation_fold: expected at most 2"):
            validate({"data": {"source": archive(), "validation_fraction": 0.3, "validation_fold": 3}})

    def test_by_default_all_rows_are_for_training(self, archive):
        corpus = load_corpus(DataConfig(source=archive()))
        assert len(corpus.train) == 40
        assert corpus.validation is None
        assert corpus.tests == {}

    def test_split_seed_decides_which_rows(self, archive):
        source = archive()
        ids = [
            load_corpus(DataConfig(source=source, test_fraction=0.25, split_seed=seed)).tests["test"].ids.tolist()
            for seed in (0, 0, 1)
        ]
        assert ids[0] == ids[1] != ids[2]

    def test_test_data_can_be_another_file(self, archive):
        corpus = load_corpus(DataConfig(source=archive(), test=archive("b.npz", "bbb"), test_fraction=0.5))
        assert corpus.tests["test"].label.tolist() == [1, 1, 1]
        assert len(corpus.train) == 40

    def test_a_class_that_training_lacks_is_named(self, archive):
        config = DataConfig(source=archive(), test=archive("b.npz", "abz"))
        with pytest.raises(DataError, match=r"b\.npz: the test set has the class 'z', .* available: a, b"):
            load_corpus(config)

    def test_a_test_set_of_another_width_is_refused(self, archive, tmp_path):
        np.savez(tmp_path / "b.npz", x=np.zeros((3, 5)), y=np.array(list("abb")))
        with pytest.raises(DataError, match=r"b\.npz.* 5 features per row; expected 2"):
            load_corpus(DataConfig(source=archive(), test=str(tmp_path / "b.npz")))

    def test_nothing_to_split_off_is_an_error(self, archive):
        with pytest.raises(DataError, match=r"a\.npz: data\.validation_fraction=0\.5 selects no rows"):
            load_corpus(DataConfig(source=archive(labels="abcd"), validation_fraction=0.5))

    @pytest.mark.parametrize(
        ("labels", "message"), [("a", r"a\.npz: 1 training sample"), ("aaa", r"a\.npz: a single class \(a\)")]
    )
    def test_too_little_to_train_on(self, archive, labels, message):
        with pytest.raises(DataError, match=message):
            load_corpus(DataConfig(source=archive(labels=labels)))

    def test_a_single_class_among_named_ones_is_still_a_single_class(self, tmp_path):
        np.savez(tmp_path / "a.npz", x=np.zeros((3, 2)), y=np.ones(3, dtype=int), class_names=np.array(["cat", "dog"]))
        with pytest.raises(DataError, match=r"a\.npz: a single class \(dog\)"):
            load_corpus(DataConfig(source=str(tmp_path / "a.npz")))

    def test_ids_must_be_unique(self, archive):
        source = archive(labels="abab", ids=np.array(["q", "r", "q", "s"]))
        with pytest.raises(DataError, match=r"a\.npz: the id 'q' belongs to 2 rows"):
            load_corpus(DataConfig(source=source))
