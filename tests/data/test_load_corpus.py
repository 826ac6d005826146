"""Which source reads the data, and inputs without labels."""

import numpy as np
import pytest
import torch

from surelabel.config import DataConfig
from surelabel.data import load_corpus, read_inputs
from surelabel.errors import DataError


class TestUnknown:
    def test_a_similar_bundled_name_is_suggested(self):
        with pytest.raises(
            DataError, match=r"^digit: no such file, folder or bundled .*did you mean digits\?"
        ) as caught:
            load_corpus(DataConfig(source="digit"))
        for kind in (
            "digits (bundled)",
            ".npz",
            ".npy",
            ".csv or .parquet",
            "folder of .parquet",
            "sub-folder of images",
        ):
            assert kind in str(caught.value)

    def test_a_similar_path_is_suggested(self, tmp_path):
        (tmp_path / "flowers").mkdir()
        with pytest.raises(DataError, match=r"flowres: .*did you mean .*flowers\?"):
            load_corpus(DataConfig(source=str(tmp_path / "flowres")))

    @pytest.mark.parametrize("source", ["", "no/such/place"])
    def test_nothing_similar(self, source):
        with pytest.raises(DataError, match=r"^[^?]*expected ") as caught:
            load_corpus(DataConfig(source=source))
        assert "\n" not in str(caught.value)

    def test_a_file_of_another_kind(self, tmp_path):
        (tmp_path / "a.txt").write_text("")
        with pytest.raises(DataError, match=r"a\.txt: not a kind of data that can be read.*; expected "):
            load_corpus(DataConfig(source=str(tmp_path / "a.txt")))

    def test_missing_test_data(self):
        with pytest.raises(DataError, match=r"^nosuch\.npz: no such file"):
            load_corpus(DataConfig(source="digits", test="nosuch.npz"))


class TestInputs:
    def read(self, source, shape):
        return read_inputs(DataConfig(source=str(source)), shape)

    def test_an_archive_with_x_alone(self, tmp_path):
        np.savez(tmp_path / "a.npz", x=np.ones((3, 4)))
        x, ids = self.read(tmp_path / "a.npz", (4,))
        assert torch.equal(x, torch.ones(3, 4))
        assert ids.tolist() == ["0", "1", "2"]

    def test_features_of_another_width(self, tmp_path):
        np.savez(tmp_path / "a.npz", x=np.ones((3, 4)))
        with pytest.raises(DataError, match=r"a\.npz: holds 4 features per row; expected 5"):
            self.read(tmp_path / "a.npz", (5,))

    def test_images_in_an_archive_are_resized(self, tmp_path):
        np.savez(tmp_path / "a.npz", x=np.full((3, 10, 10, 3), 9, dtype=np.uint8))
        x, _ = self.read(tmp_path / "a.npz", (1, 4, 6))
        assert torch.equal(x, torch.full((3, 1, 4, 6), 9, dtype=torch.uint8))

    def test_a_folder_needs_no_classes(self, tmp_path, paint):
        for name in ("b.png", "a/x.png", "a/deep/y.png"):
            paint(tmp_path / name)
        x, ids = self.read(tmp_path, (3, 5, 5))
        assert x.shape == (3, 3, 5, 5)
        assert ids.tolist() == ["a/deep/y.png", "a/x.png", "b.png"]

    def test_a_folder_without_images(self, tmp_path):
        with pytest.raises(DataError, match="no images in this folder"):
            self.read(tmp_path, (3, 5, 5))

    def test_images_are_not_features(self, tmp_path, paint):
        paint(tmp_path / "a.png")
        with pytest.raises(DataError, match="holds images; expected 4 features"):
            self.read(tmp_path, (4,))

    def test_a_table_needs_no_labels(self, tmp_path, paint):
        paint(tmp_path / "a.png")
        (tmp_path / "t.csv").write_text("path\na.png\n")
        x, ids = self.read(tmp_path / "t.csv", (1, 8, 8))
        assert x.shape == (1, 1, 8, 8)
        assert ids.tolist() == ["a.png"]

    def test_a_table_without_rows(self, tmp_path):
        (tmp_path / "t.csv").write_text("path\n")
        with pytest.raises(DataError, match=r"t\.csv: no rows below the header"):
            self.read(tmp_path / "t.csv", (1, 8, 8))

    def test_a_bundled_name_means_its_test_set(self):
        x, ids = self.read("digits", (1, 8, 8))
        test = load_corpus(DataConfig(source="digits")).tests["test"]
        assert torch.equal(x, test.x)
        assert np.array_equal(ids, test.ids)


def test_skip_leaves_rows_with_features_that_are_not_finite_out(tmp_path, caplog):
    x = np.arange(12.0).reshape(6, 2)
    x[1, 0], x[4, 1] = np.nan, np.inf
    np.savez(tmp_path / "a.npz", x=x, y=[0, 1, 0, 1, 0, 1], x_test=x, y_test=[0, 1, 0, 1, 0, 1])
    source = str(tmp_path / "a.npz")
    with pytest.raises(DataError, match=r"2 train row\(s\) .*the first is row 1 \(id 1\); data\.unreadable=skip"):
        load_corpus(DataConfig(source=source))
    corpus = load_corpus(DataConfig(source=source, unreadable="skip"))
    assert corpus.train.ids.tolist() == ["0", "2", "3", "5"]
    assert len(corpus.tests["test"]) == 4
    assert "2 row(s) with NaN or infinite values are left out: 1, 4" in caplog.text
    assert read_inputs(DataConfig(source=source, unreadable="skip"), (2,))[1].tolist() == ["0", "2", "3", "5"]


def test_a_class_whose_rows_are_all_left_out_is_named(tmp_path):
    np.savez(tmp_path / "a.npz", x=[[1.0], [np.nan], [2.0], [3.0]], y=[0, 1, 0, 2])
    with pytest.raises(DataError, match="the class '1' has no rows left"):
        load_corpus(DataConfig(source=str(tmp_path / "a.npz"), unreadable="skip"))
