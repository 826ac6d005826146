"""Torch data sets: rows in any form, and rows that differ when they are read again."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from surelabel.config import DataConfig
from surelabel.data import load_corpus
from surelabel.errors import DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (300, 6, 5, 3), dtype=np.uint8)


class Rows(Dataset):
    def __init__(self, make, num_rows=300, **attributes):
        self.make, self.num_rows, self.num_reads = make, num_rows, 0
        self.__dict__.update(attributes)

    def __len__(self):
        return self.num_rows

    def __getitem__(self, row):
        self.num_reads += 1
        return self.make(row)


def load(data, **options):
    return load_corpus(DataConfig(source="<dataset>", **options), data)


def as_image(row):
    return Image.fromarray(PIXELS[row])


def as_floats(row):
    return torch.from_numpy(PIXELS[row]).permute(2, 0, 1) / 255


@pytest.mark.parametrize(
    "make",
    [
        lambda row: (as_image(row), row % 3),
        lambda row: (PIXELS[row], torch.tensor(row % 3)),
        lambda row: [as_floats(row), np.int64(row % 3), "more"],
        lambda row: {"image": as_image(row), "label": row % 3},
        lambda row: {"pixel_values": as_floats(row), "labels": torch.tensor([row % 3])},
        lambda row: (PIXELS[row].astype(np.int64), float(row % 3)),
    ],
)
def test_forms_of_rows(make):
    data = Rows(make)
    corpus = load(data)
    assert np.array_equal(corpus.train.x, np.moveaxis(PIXELS, 3, 1))
    assert corpus.train.label.tolist() == [row % 3 for row in range(300)]
    assert corpus.train.ids.tolist() == [str(row) for row in range(300)]
    assert data.num_reads == 300 + 32


def test_a_few_rows():
    assert len(load(Rows(lambda row: (PIXELS[row], row % 2), num_rows=3)).train) == 3


def test_features():
    x = torch.randn(20, 4, dtype=torch.float64)
    corpus = load(TensorDataset(x, torch.arange(20) % 2))
    assert torch.equal(corpus.train.x, x.float())


def test_any_object_with_a_length_and_rows():
    class Plain:
        def __len__(self):
            return 4

        def __getitem__(self, row):
            return [float(row), 1.0], "ab"[row % 2]

    corpus = load(Plain())
    assert corpus.class_names == ("a", "b")
    assert corpus.train.x[:, 0].tolist() == [0, 1, 2, 3]


def test_a_data_set_may_reuse_its_memory():
    buffer = np.zeros((6, 5, 3), dtype=np.uint8)

    def make(row):
        buffer[:] = PIXELS[row]
        return buffer, row % 2

    assert np.array_equal(load(Rows(make)).train.x, np.moveaxis(PIXELS, 3, 1))


def test_images_may_differ_in_size_and_mode_and_are_upright():
    modes = ["RGB", "L", "RGBA", "P", "1", "I;16", "CMYK", "LA"]
    images = [Image.new(mode, (8 + row, 9)) for row, mode in enumerate(modes)]
    corpus = load(Rows(lambda row: (images[row], row % 2), num_rows=len(modes)), image_size=8)
    assert corpus.train.x.shape == (8, 3, 8, 8)
    turned = Image.fromarray(PIXELS[0])
    turned.getexif()[0x0112] = 6
    corpus = load(Rows(lambda row: (turned, row), num_rows=2))
    assert np.array_equal(corpus.train.x[0], np.moveaxis(np.rot90(PIXELS[0], 3), 2, 0))


class TestClasses:
    def test_names_as_in_torchvision(self):
        corpus = load(Rows(lambda row: (PIXELS[row], row % 2), classes=["dog", "cat", "owl"]))
        assert corpus.class_names == ("dog", "cat", "owl")

    def test_they_are_found_through_a_subset(self):
        whole = Rows(lambda row: (PIXELS[row], row % 2), classes=["dog", "cat"])
        assert load(Subset(whole, [4, 5, 6])).class_names == ("dog", "cat")

    def test_equal_names_get_their_number(self):
        classes = [("crane", "bird"), ("maillot",), ("maillot",)]
        corpus = load(Rows(lambda row: (PIXELS[row], row % 3), classes=classes))
        assert corpus.class_names == ("crane, bird", "maillot (1)", "maillot (2)")

    def test_targets_label_rows_that_are_x_alone(self):
        corpus = load(Rows(lambda row: PIXELS[row], targets=[row % 3 for row in range(300)]))
        assert corpus.train.label[:4].tolist() == [0, 1, 2, 0]


class TestStability:
    def test_random_inputs_are_refused(self):
        rng = np.random.default_rng(0)
        data = Rows(lambda row: (PIXELS[row][:, :: rng.choice([-1, 1])], row % 2))
        with pytest.raises(DataError, match=r"<dataset Rows>: row \d+ .*train\.augment"):
            load(data)

    def test_random_images_are_refused(self):
        rng = np.random.default_rng(0)
        data = Rows(lambda row: (as_image(row).rotate(rng.integers(2) * 180), row % 2))
        with pytest.raises(DataError, match=r"<dataset Rows>: row \d+ .*train\.augment"):
            load(data)

    def test_random_labels_are_refused(self):
        rng = np.random.default_rng(0)
        with pytest.raises(DataError, match=r"<dataset Rows>: row \d+ .*train\.augment"):
            load(Rows(lambda row: (PIXELS[row], rng.integers(2))))


def broken(row):
    if row == 7:
        raise OSError("broken\nfile")
    return PIXELS[row], row % 2


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(PIXELS[0], 0)])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Stream(), r"<dataset Stream>: an iterable data set, whose rows have no numbers"),
        ((row for row in range(3)), r"<dataset generator>: an iterable data set"),
        (DataLoader(TensorDataset(torch.eye(3))), r"<dataset DataLoader>: yields batches; pass the data set itself"),
        (Rows(broken, num_rows=0), "<dataset Rows>: no rows to train on"),
        (Rows(broken), r"<dataset Rows>: row 7 cannot be read \(OSError: broken file\)"),
        (Rows(lambda _: {"a": 1, "label": 0}), r"row 0 is a mapping of a, label; expected \(x, label\) or \{'image'"),
        (Rows(lambda row: PIXELS[row]), r"row 0 is ndarray; expected \(x, label\)"),
        (Rows(lambda row: (PIXELS[row][: 3 + row % 2], 0)), r"row 1 has the shape \(4, 5, 3\) and row 0 \(3, 5, 3\)"),
        (Rows(lambda row: (PIXELS[row] if row else as_image(0), 0)), "row 1 is of type ndarray, but row 0 is an image"),
        (Rows(lambda row: (as_image(row) if row else PIXELS[0], 0)), "row 1 is of type Image, but row 0 is an array"),
        (Rows(lambda _: (1.0, 0)), r"row 0 is float64 of shape \(\); expected an image"),
        (
            Rows(lambda row: (as_floats(row) - 1, 0)),
            r"<dataset Rows> holds images with values from -1 .*remove the normalisation",
        ),
        (Rows(lambda row: (PIXELS[row], [0, 1])), r"row 0 is \[0, 1\] \(and 299 more\); labels are whole"),
        (
            Rows(lambda row: (PIXELS[row], "a" if row else 0)),
            r"the label of row 1 is 'a' \(and 298 more\); others are numbers",
        ),
        (Rows(lambda row: (PIXELS[row], row / 2)), r"<dataset Rows>: the label of row 1 is 0\.5 \(and 149 more\)"),
        (
            Rows(lambda row: (PIXELS[row], row % 3), classes=["a", "b"]),
            r"row 2 is 2 \(and 99 more\); there are 2 classes",
        ),
    ],
)
def test_faults_are_named(data, message):
    with pytest.raises(DataError, match=message) as caught:
        load(data)
    assert "\n" not in str(caught.value)
