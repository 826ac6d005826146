"""Data sets of the package `datasets`: a stand-in, and the package itself if it is installed."""

import io
from types import SimpleNamespace

import pyarrow as pa
import pytest
from PIL import Image

from surelabel.config import DataConfig
from surelabel.data import load_corpus
from surelabel.data.sources.objects import describe_object
from surelabel.errors import DataError


def png(value):
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (value,) * 3).save(file, "PNG")
    return file.getvalue()


class Formatted:
    """A data set whose slices are arrow tables."""

    def __init__(self, table):
        self.table = table

    def __getitem__(self, rows):
        assert rows == slice(None)
        return self.table


class HubDataset:
    """The part of datasets.Dataset that is used."""

    def __init__(self, table, rows=None, names=("cat", "dog"), name="animals"):
        self.table, self.rows = table, rows
        self.data = SimpleNamespace(table=table)
        self.features = {"image": SimpleNamespace(decode=True), "label": SimpleNamespace(names=list(names))}
        self.info = SimpleNamespace(dataset_name=name)

    def with_format(self, kind):
        assert kind == "arrow"
        return Formatted(self.table if self.rows is None else self.table.take(self.rows))

    def __len__(self):
        return self.table.num_rows

    def __getitem__(self, row):
        raise AssertionError("rows are read through the table")


def table(labels, start=0):
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    images = pa.array([{"bytes": png(start + row), "path": None} for row in range(len(labels))], kind)
    return pa.table({"image": images, "label": labels})


def load(data, **options):
    return load_corpus(DataConfig(source="<dataset>", cache=False, **options), data)


def test_images_and_class_names():
    corpus = load(HubDataset(table([1, 0, 1])))
    assert corpus.class_names == ("cat", "dog")
    assert corpus.train.label.tolist() == [1, 0, 1]
    assert corpus.train.x[:, 0, 0, 0].tolist() == [0, 1, 2]


def test_a_selection_is_applied():
    assert load(HubDataset(table([1, 0, 1]), rows=[2, 1])).train.x[:, 0, 0, 0].tolist() == [2, 1]


def test_a_dict_of_parts():
    data = {"train": HubDataset(table([1, 0])), "test": HubDataset(table([0], 9)), "validation": HubDataset(table([1]))}
    corpus = load(data)
    assert corpus.tests["test"].ids.tolist() == ["test/0"]
    assert corpus.tests["test"].label.tolist() == [0]
    assert list(corpus.tests) == ["test"]


def test_its_name_is_its_description():
    assert describe_object(HubDataset(table([0]))) == "<dataset animals>"
    assert describe_object({"train": HubDataset(table([0]), name=None)}) == "<dataset HubDataset>"


def test_faults_are_named_with_their_row():
    with pytest.raises(DataError, match=r"<dataset animals>, row 1: label is 7; there are 2 classes"):
        load(HubDataset(table([0, 7])))


class TestPackage:
    def test_data_sets_of_the_package(self):
        datasets = pytest.importorskip("datasets")
        names = datasets.ClassLabel(names=["cat", "dog"])
        features = datasets.Features({"image": datasets.Image(), "label": names})
        rows = {"image": [{"bytes": png(row), "path": None} for row in range(4)], "label": [0, 1, 1, 0]}
        data = datasets.Dataset.from_dict(rows, features=features)
        corpus = load(datasets.DatasetDict({"train": data.select([2, 0, 1]), "test": data.select([3])}))
        assert corpus.class_names == ("cat", "dog")
        assert corpus.train.label.tolist() == [1, 0, 1]
        assert corpus.train.x[:, 0, 0, 0].tolist() == [2, 0, 1]
        assert corpus.tests["test"].label.tolist() == [0]
