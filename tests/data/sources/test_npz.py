"""Archives of arrays: layouts of inputs, labels, test sets, and damaged files."""

import pickle

import numpy as np
import pytest
import torch

from surelabel.config import DataConfig
from surelabel.data import load_corpus
from surelabel.errors import DataError


@pytest.fixture
def load(tmp_path):
    def read(config=None, **arrays):
        np.savez(tmp_path / "a.npz", **arrays)
        return load_corpus(DataConfig(source=str(tmp_path / "a.npz"), **(config or {})))

    return read


def pixels(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


Y = np.array([0, 1, 0, 1])


class TestInputs:
    def test_features_become_float32(self, load):
        x = np.random.default_rng(0).normal(size=(4, 3))
        train = load(x=x, y=Y).train
        assert train.x.dtype == torch.float32
        assert np.allclose(train.x, x)
        assert not train.is_image

    @pytest.mark.parametrize("dtype", [np.uint8, np.int64, bool])
    def test_whole_numbers_in_rows_are_features(self, load, dtype):
        assert load(x=np.ones((4, 3), dtype=dtype), y=Y).train.x.tolist() == [[1.0] * 3] * 4

    @pytest.mark.parametrize(
        ("shape", "expected"),
        [
            ((4, 6, 5), (1, 6, 5)),
            ((4, 6, 5, 1), (1, 6, 5)),
            ((4, 6, 5, 3), (3, 6, 5)),
            ((4, 1, 6, 5), (1, 6, 5)),
            ((4, 3, 6, 5), (3, 6, 5)),
            ((4, 3, 6, 3), (3, 3, 6)),
        ],
    )
    def test_images_in_every_layout_and_the_last_axis_takes_precedence(self, load, shape, expected):
        x = pixels(*shape)
        found = load(x=x, y=Y).train.x
        assert found.dtype == torch.uint8
        assert tuple(found.shape[1:]) == expected
        channels_last = len(shape) == 4 and shape[3] in (1, 3)
        assert np.array_equal(found, np.moveaxis(x, 3, 1) if channels_last else x.reshape(4, *expected))

    def test_floats_in_0_to_1_become_pixels(self, load):
        x = pixels(4, 6, 5)
        assert np.array_equal(load(x=x / 255, y=Y).train.x[:, 0], x)
        assert np.array_equal(load(x=x.astype(np.int32), y=Y).train.x[:, 0], x)

    @pytest.mark.parametrize("x", [np.full((4, 6, 5), 1.5), np.full((4, 6, 5), np.nan), np.full((4, 6, 5), -1)])
    def test_other_values_are_refused(self, load, x):
        with pytest.raises(DataError, match=r"a\.npz: x holds images with values from .* floats in \[0, 1\]"):
            load(x=x, y=Y)

    @pytest.mark.parametrize("shape", [(4,), (4, 0), (4, 6, 5, 4), (4, 3, 3, 3, 3)])
    def test_other_shapes_are_refused(self, load, shape):
        with pytest.raises(DataError, match=r"a\.npz: x has the shape \(4.* images are \(N, H, W\)"):
            load(x=np.zeros(shape, dtype=np.uint8), y=Y)

    def test_other_types_are_refused(self, load):
        with pytest.raises(DataError, match="x has the type complex128; expected whole numbers or floats"):
            load(x=np.zeros((4, 2), dtype=complex), y=Y)

    @pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
    def test_features_that_are_not_finite_are_refused_with_their_row(self, load, value):
        x = np.zeros((4, 2))
        x[2, 1] = value
        with pytest.raises(DataError, match=r"a\.npz: 1 train row.* row 2 \(id 2\)"):
            load(x=x, y=Y)

    def test_image_size_resizes(self, load):
        assert load({"image_size": 10}, x=pixels(4, 6, 5), y=Y).train.x.shape == (4, 1, 10, 10)


class TestLabels:
    x = np.zeros((4, 2))

    def test_whole_numbers_are_named_by_themselves_and_sorted_by_value(self, load):
        corpus = load(x=self.x, y=np.array([10, 9, 9, 2]))
        assert corpus.class_names == ("2", "9", "10")
        assert corpus.train.label.tolist() == [2, 1, 1, 0]

    @pytest.mark.parametrize("y", [Y.astype(float), Y.astype(bool), Y[:, None], Y.astype(np.uint8)])
    def test_whole_numbers_of_other_types(self, load, y):
        assert load(x=self.x, y=y).train.label.tolist() == Y.tolist()

    @pytest.mark.parametrize("kind", ["U", "S"])
    def test_strings(self, load, kind):
        corpus = load(x=self.x, y=np.array(["dog", "cat", "dog", "cat"]).astype(kind))
        assert corpus.class_names == ("cat", "dog")
        assert corpus.train.label.tolist() == [1, 0, 1, 0]

    @pytest.mark.parametrize("y", [Y, np.array(["dog", "cat", "dog", "cat"])])
    def test_class_names_fix_the_order(self, load, y):
        corpus = load(x=self.x, y=y, class_names=np.array(["dog", "cat", "owl"]))
        assert corpus.class_names == ("dog", "cat", "owl")
        assert corpus.train.label.tolist() == [0, 1, 0, 1]

    @pytest.mark.parametrize(
        ("y", "message"),
        [
            ([0, 1, -1.5, 0.5], r"y: row 2 is -1\.5 \(and 1 more\); labels are whole numbers or text"),
            ([0, 1.5, 1, 0], r"y: row 1 is 1\.5; labels are whole numbers"),
            ([0, 1, 1, np.nan], r"y: row 3 is nan"),
            (["a", " ", "b", "a"], r"y: row 1 is ' '; labels must not be blank"),
            ([[0, 1]] * 4, r"y is int64 of shape \(4, 2\); labels are \(N,\)"),
            ([0, 1, 1], r"x has 4 rows and y has 3; they must agree"),
        ],
    )
    def test_bad_labels_are_refused_with_their_row(self, load, y, message):
        with pytest.raises(DataError, match=r"a\.npz: " + message):
            load(x=self.x, y=np.array(y))

    @pytest.mark.parametrize(
        ("y", "names", "message"),
        [
            ([0, 1, 2, 1], ["a", "b"], "y: row 2 is 2; there are 2 classes, counted from 0"),
            (["a", "b", "c", "a"], ["a", "b"], "y: row 2 is 'c'; there is no such class; available: a, b"),
            ([0, 1, 0, 1], ["a", "a"], "class_names holds 'a' 2 times"),
        ],
    )
    def test_labels_and_class_names_must_agree(self, load, y, names, message):
        with pytest.raises(DataError, match=message):
            load(x=self.x, y=np.array(y), class_names=np.array(names))


class TestParts:
    def test_a_separate_test_set(self, load):
        corpus = load(x=np.zeros((4, 2)), y=Y, x_test=np.ones((2, 2)), y_test=np.array([1, 1]))
        assert corpus.tests["test"].label.tolist() == [1, 1]
        assert corpus.tests["test"].ids.tolist() == ["test/0", "test/1"]
        assert corpus.train.ids.tolist() == ["0", "1", "2", "3"]

    def test_half_a_test_set_is_refused(self, load):
        with pytest.raises(DataError, match=r"a\.npz: there is no array y_test; available: x, y, x_test"):
            load(x=np.zeros((4, 2)), y=Y, x_test=np.ones((2, 2)))

    def test_ids_are_kept(self, load):
        assert load(x=np.zeros((4, 2)), y=Y, ids=np.array(list("qrst"))).train.ids.tolist() == list("qrst")
        assert load(x=np.zeros((4, 2)), y=Y, ids=np.arange(4) + 7).train.ids.tolist() == ["7", "8", "9", "10"]

    def test_ids_must_be_as_many_as_rows(self, load):
        with pytest.raises(DataError, match=r"ids has the shape \(2,\); expected one id for each of 4 rows"):
            load(x=np.zeros((4, 2)), y=Y, ids=np.arange(2))


class TestTruth:
    @pytest.mark.parametrize("name", ["clean", "y_clean"])
    def test_true_labels_are_kept_apart(self, load, name):
        corpus = load(x=np.zeros((4, 2)), y=Y, **{name: np.array([0, 0, 2, 1])})
        assert corpus.train.label.tolist() == [0, 1, 0, 1]
        assert corpus.train.clean.tolist() == [0, 0, 2, 1]
        assert corpus.class_names == ("0", "1", "2")

    def test_they_are_positions_in_class_names_too(self, load):
        names = np.array(["dog", "cat"])
        corpus = load(x=np.zeros((4, 2)), y=Y, clean=np.array(["dog", "cat", "cat", "cat"]), class_names=names)
        assert corpus.train.clean.tolist() == [0, 1, 1, 1]

    def test_there_must_be_as_many_as_rows(self, load):
        with pytest.raises(DataError, match=r"a\.npz: x has 4 rows and clean has 3; they must agree"):
            load(x=np.zeros((4, 2)), y=Y, clean=Y[:3])


class TestFiles:
    def test_objects_are_never_unpickled(self, load):
        with pytest.raises(DataError, match=r"a\.npz: .*y is an array of Python objects, and unpickling"):
            load(x=np.zeros((4, 2)), y=np.array(["a", 1, None, "b"], dtype=object))

    def test_a_missing_array_is_named(self, load):
        with pytest.raises(DataError, match=r"a\.npz: there is no array y; available: x"):
            load(x=np.zeros((4, 2)))

    @pytest.mark.parametrize("content", [b"", b"text", pickle.dumps([1]), b"PK\x03\x04" + b"\0" * 50])
    def test_a_file_of_another_kind_is_named(self, tmp_path, content):
        (tmp_path / "a.npz").write_bytes(content)
        with pytest.raises(DataError, match=r"a\.npz: not readable as an \.npz archive"):
            load_corpus(DataConfig(source=str(tmp_path / "a.npz")))

    def test_a_single_array_is_not_an_archive(self, tmp_path):
        with (tmp_path / "a.npz").open("wb") as file:
            np.save(file, np.zeros(3))
        with pytest.raises(DataError, match=r"a\.npz: a single array; expected an archive with x and y"):
            load_corpus(DataConfig(source=str(tmp_path / "a.npz")))

    def test_a_missing_file_is_named(self, tmp_path):
        with pytest.raises(DataError, match=r"nosuch\.npz: no such file"):
            load_corpus(DataConfig(source=str(tmp_path / "nosuch.npz")))
