"""Single .npy arrays, their labels, and arrays that are too large for memory."""

import pickle

import numpy as np
import pytest
import torch

from surelabel.config import DataConfig
from surelabel.data import load_corpus, read_inputs
from surelabel.data.inputs import LazyInputs
from surelabel.data.sources import array_files
from surelabel.errors import DataError

Y = np.array([0, 1, 0, 1])
IMAGES = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)


def load(source, **options):
    return load_corpus(DataConfig(source=str(source), **options))


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("x.npy", "y.npy"),
        ("X.npy", "y.npy"),
        ("X.npy", "Y.npy"),
        ("x_train.npy", "y_train.npy"),
        ("x.npy", "x_labels.npy"),
        ("emb.npy", "emb_labels.npy"),
    ],
)
def test_labels_are_found_in_the_same_folder(tmp_path, name, labels):
    np.save(tmp_path / name, np.eye(4))
    np.save(tmp_path / labels, Y)
    corpus = load(tmp_path / name)
    assert torch.equal(corpus.train.x, torch.eye(4))
    assert corpus.train.label.tolist() == Y.tolist()
    assert corpus.train.ids.tolist() == ["0", "1", "2", "3"]


def test_missing_labels_are_an_error(tmp_path):
    np.save(tmp_path / "emb.npy", np.eye(4))
    with pytest.raises(DataError, match=r"emb\.npy: no labels; .*emb_labels\.npy, .*data\.labels"):
        load(tmp_path / "emb.npy")


def test_test_data_is_another_pair(tmp_path):
    for part in ("", "_test"):
        np.save(tmp_path / f"x{part}.npy", IMAGES)
        np.save(tmp_path / f"y{part}.npy", Y)
    assert len(load(tmp_path / "x.npy", test=str(tmp_path / "x_test.npy")).tests["test"]) == 4
    assert not load(tmp_path / "x.npy").tests


def test_inputs_need_no_labels(tmp_path):
    np.save(tmp_path / "a.npy", IMAGES)
    x, ids = read_inputs(DataConfig(source=str(tmp_path / "a.npy")), (3, 6, 5))
    assert np.array_equal(x, np.moveaxis(IMAGES, 3, 1))
    assert ids.tolist() == ["0", "1", "2", "3"]


@pytest.mark.parametrize("content", [b"", b"text", pickle.dumps([1])])
def test_a_file_of_another_kind_is_named(tmp_path, content):
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(DataError, match=r"x\.npy: not readable as an \.npy array") as caught:
        load(tmp_path / "x.npy")
    assert "\n" not in str(caught.value)


def test_faults_are_named(tmp_path):
    with pytest.raises(DataError, match=r"x\.npy: no such file"):
        load(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"x\.npy: not readable .*unpickling those could run code"):
        load(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    np.save(tmp_path / "y.npy", Y[:3])
    with pytest.raises(DataError, match=r"x\.npy: x has 4 rows and y has 3"):
        load(tmp_path / "x.npy")
    with (tmp_path / "x.npy").open("wb") as file:
        np.savez(file, x=Y)
    with pytest.raises(DataError, match=r"x\.npy: an archive of arrays; expected a single one"):
        load(tmp_path / "x.npy")


class TestLarge:
    """An array that is too large for memory stays in its file."""

    @pytest.fixture(autouse=True)
    def _small_memory(self, monkeypatch):
        monkeypatch.setattr(array_files, "READ_BELOW", 5)

    @pytest.mark.parametrize(
        "x",
        [
            IMAGES,
            np.moveaxis(IMAGES, 3, 1),
            IMAGES[..., 0],
            IMAGES / 255,
            np.arange(8.0).reshape(4, 2),
            np.arange(8, dtype=np.uint8).reshape(4, 2),
        ],
    )
    def test_it_has_the_same_rows_as_in_memory(self, tmp_path, monkeypatch, x):
        np.save(tmp_path / "x.npy", x)
        np.save(tmp_path / "y.npy", Y)
        mapped = load(tmp_path / "x.npy", validation_fraction=0.5)
        monkeypatch.setattr(array_files, "READ_BELOW", 2**20)
        read = load(tmp_path / "x.npy", validation_fraction=0.5)
        for part in ("train", "validation"):
            lazy, tensor = getattr(mapped, part).x, getattr(read, part).x
            assert isinstance(lazy, LazyInputs)
            assert (tuple(lazy.shape), lazy.dtype) == (tuple(tensor.shape), tensor.dtype)
            assert torch.equal(lazy[torch.arange(len(lazy))], tensor)
            again = pickle.loads(pickle.dumps(lazy))
            assert torch.equal(again[torch.tensor([1])], tensor[[1]])
            assert again.digest() == lazy.digest()

    def test_it_cannot_be_resized(self, tmp_path):
        np.save(tmp_path / "x.npy", IMAGES)
        np.save(tmp_path / "y.npy", Y)
        with pytest.raises(DataError, match=r"too large for memory, so its images of 6 x 5 pixels cannot be resized"):
            load(tmp_path / "x.npy", image_size=8)
