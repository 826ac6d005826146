"""Data frames: pandas, and any object that supports the arrow protocol."""

import pyarrow as pa
import pytest

from surelabel.config import DataConfig
from surelabel.data import load_corpus
from surelabel.errors import DataError


def load(data, **options):
    return load_corpus(DataConfig(source="<frame>", cache=False, **options), data)


class Frame:
    """The arrow protocol, which polars and others support."""

    def __init__(self, **columns):
        self.table = pa.table(columns)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_columns_are_those_of_a_table():
    frame = Frame(b=[1.0, 2.0, 3.0], a=[4, 5, 6], label=["x", "y", "x"], split=["train", "train", "test"])
    corpus = load(frame)
    assert corpus.train.x.tolist() == [[4, 1], [5, 2]]
    assert corpus.train.ids.tolist() == ["0", "1"]
    assert corpus.tests["test"].ids.tolist() == ["2"]


def test_text_as_polars_exports_it():
    labels = pa.array(["x", "y"], pa.string_view())
    assert load(Frame(a=[1.0, 2.0], label=labels)).class_names == ("x", "y")


def test_paths_are_relative_to_the_working_directory(tmp_path, paint, monkeypatch):
    paint(tmp_path / "a.png")
    paint(tmp_path / "b.png")
    monkeypatch.chdir(tmp_path)
    assert load(Frame(path=["a.png", "b.png"], label=["x", "y"])).train.ids.tolist() == ["a.png", "b.png"]


def test_faults_are_named_with_their_row():
    with pytest.raises(DataError, match=r"<frame>, row 1: label is blank"):
        load(Frame(a=[1.0, 2.0, 3.0], label=["x", None, "y"]))


class TestPandas:
    @pytest.fixture
    def frame(self):
        pandas = pytest.importorskip("pandas")
        return pandas.DataFrame({"a": [1.0, 2.0, 3.0], "label": ["x", "y", "x"]}, index=["q", "r", "s"])

    def test_the_index_names_the_rows(self, frame):
        corpus = load(frame)
        assert corpus.train.x.tolist() == [[1], [2], [3]]
        assert corpus.train.ids.tolist() == ["q", "r", "s"]

    def test_an_index_that_is_not_unique_does_not(self, frame):
        frame.index = [0, 0, 1]
        assert load(frame).train.ids.tolist() == ["0", "1", "2"]

    def test_categories_and_missing_values(self, frame):
        frame["label"] = frame["label"].astype("category")
        assert load(frame).class_names == ("x", "y")
        frame["label"] = [0, None, 1]
        with pytest.raises(DataError, match=r"<frame>, row 1: label is blank"):
            load(frame)

    def test_objects_are_refused(self, frame):
        frame["a"] = [object(), 1, "x"]
        with pytest.raises(DataError, match="<frame>: row 1: a is 1; others are object"):
            load(frame)
