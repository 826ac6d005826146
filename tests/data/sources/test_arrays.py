"""Arrays, tensors and lists in memory."""

import numpy as np
import pytest
import torch

from surelabel.config import DataConfig
from surelabel.data import load_corpus
from surelabel.errors import DataError

X = np.arange(8.0).reshape(4, 2)
Y = np.array([0, 1, 0, 1])


def load(data, **options):
    return load_corpus(DataConfig(source="<arrays>", **options), data)


@pytest.mark.parametrize(
    "convert", [np.asarray, torch.as_tensor, np.ndarray.tolist, lambda a: torch.as_tensor(a).bfloat16()]
)
def test_arrays_tensors_and_lists(convert):
    corpus = load((convert(X), convert(Y)))
    assert corpus.train.x.tolist() == X.tolist()
    assert corpus.train.x.dtype == torch.float32
    assert corpus.train.label.tolist() == Y.tolist()
    assert corpus.train.ids.tolist() == ["0", "1", "2", "3"]


def test_a_tuple_of_four_has_a_test_set():
    corpus = load((X, Y, X[:2], Y[:2]))
    assert corpus.tests["test"].ids.tolist() == ["test/0", "test/1"]


def test_a_mapping_of_all_names():
    corpus = load(
        {
            "x": torch.zeros(4, 3, 6, 6, dtype=torch.uint8),
            "y": ["b", "a", "b", "a"],
            "clean": ["b", "b", "b", "a"],
            "ids": list("qrst"),
            "class_names": ["b", "a", "c"],
            "x_test": [torch.ones(3, 6, 6)] * 2,
            "y_test": [0, 2],
            "ids_test": None,
        }
    )
    assert corpus.class_names == ("b", "a", "c")
    assert corpus.train.label.tolist() == [0, 1, 0, 1]
    assert corpus.train.clean.tolist() == [0, 0, 0, 1]
    assert corpus.train.ids.tolist() == list("qrst")
    assert corpus.tests["test"].x.unique().tolist() == [255]
    assert corpus.tests["test"].label.tolist() == [0, 2]


def test_the_memory_is_shared_and_may_be_read_only():
    x = X.astype(np.float32)
    x.flags.writeable = False
    assert load((x, Y)).train.x.data_ptr() == x.ctypes.data


def test_text_as_pandas_holds_it():
    assert load((X, np.array(["b", "a", "b", "a"], dtype=object))).class_names == ("a", "b")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((X, Y, X), r"<arrays>: a tuple of length 3; expected \(x, y\) or \(x, y, x_test, y_test\)"),
        ((X, Y[:3]), r"<arrays>: x has 4 rows and y has 3; they must agree"),
        ({"x": X}, r"<arrays>: there is no array y; available: x"),
        ({"x": X, "y": Y, "y_tset": Y}, r"<arrays>: unknown array 'y_tset'; expected x, y, ids"),
        (([[1.0], [1.0, 2.0]], [0, 1]), r"<arrays>: x has rows of different shapes"),
        (([torch.zeros(1), torch.zeros(2)], [0, 1]), r"<arrays>: x has rows of different shapes"),
        ((X, ["a", None, "b", "a"]), r"<arrays>: y: row 1 is None; labels must not be blank or missing"),
        ((X, ["a", float("nan"), "b", "a"]), r"<arrays>: y: row 1 is nan; labels must not"),
        (
            (X, np.array(["a", np.nan, "b", "a"], dtype=object)),
            r"<arrays>: y: row 1 is nan; labels must not",
        ),
        ((X, object()), r"<arrays>: y is a object; expected an array, a tensor or a list; data sets go in as"),
        ((np.full((4, 2), np.nan), Y), r"<arrays>: 4 train row\(s\) hold NaN"),
        (
            {"x": X, "y": [0, 1, -1, 1], "class_names": ["a", "b"]},
            r"<arrays>: y: row 2 is -1; labels must not",
        ),
    ],
)
def test_faults_are_named(data, message):
    with pytest.raises(DataError, match=message):
        load(data)
