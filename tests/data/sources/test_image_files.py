"""The image files that rows come from."""

import numpy as np

from surelabel.config import DataConfig
from surelabel.data import load_corpus
from surelabel.data.sources.image_files import original_files


def found(source, **options):
    config = DataConfig(source=str(source), cache=False, **options)
    return original_files(config, load_corpus(config).train.ids.tolist())


def test_of_a_folder(tmp_path, paint):
    for name in ("a/1.png", "a/2.png", "b/1.png"):
        paint(tmp_path / name)
    assert found(tmp_path) == {name: tmp_path / name for name in ("a/1.png", "a/2.png", "b/1.png")}


def test_of_a_table_that_names_them(tmp_path, paint):
    for name in ("1.png", "2.png"):
        paint(tmp_path / "photos" / name)
    (tmp_path / "t.csv").write_text("id,path,label\nx,photos/1.png,a\ny,photos/2.png,b\n")
    assert found(tmp_path / "t.csv") == {"x": tmp_path / "photos/1.png", "y": tmp_path / "photos/2.png"}


def test_none_if_inputs_are_not_files(tmp_path):
    (tmp_path / "t.csv").write_text("f,label\n1,a\n2,b\n")
    assert found(tmp_path / "t.csv") is None
    np.savez(tmp_path / "a.npz", x=np.eye(2), y=np.array(["a", "b"]))
    assert found(tmp_path / "a.npz") is None
    assert original_files(DataConfig(source="digits"), ["0"]) is None
