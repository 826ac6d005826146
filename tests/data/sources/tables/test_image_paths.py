"""Paths in tables stay inside the table's folder, or inside data.image_root."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from surelabel.config import DataConfig
from surelabel.data import load_corpus
from surelabel.data.images.decode import Unreadable
from surelabel.data.originals import find_originals
from surelabel.data.sources.image_files import original_files
from surelabel.errors import DataError


@pytest.fixture
def scene(tmp_path, paint):
    """Write pictures inside and outside of a folder, and links that lead out of it."""
    for name in ("in/a.png", "in/deep/b.png", "out/secret.png"):
        paint(tmp_path / name)
    (tmp_path / "in/link.png").symlink_to(tmp_path / "out/secret.png")
    (tmp_path / "in/linked").symlink_to(tmp_path / "out")
    (tmp_path / "in/inner.png").symlink_to("a.png")
    (tmp_path / "in/loop.png").symlink_to("loop.png")
    return tmp_path


def write(scene, paths, kind="csv"):
    file = scene / "in" / f"t.{kind}"
    columns = {"id": list(map(str, range(len(paths)))), "path": paths, "label": ["a", "b"] * (len(paths) // 2)}
    if kind == "csv":
        pd.DataFrame(columns).to_csv(file, index=False)
    elif kind == "parquet":
        pq.write_table(pa.table(columns), file)
    else:
        kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
        paths = pa.array([{"bytes": None, "path": path} for path in paths], kind)
        file = file.with_suffix(".parquet")
        pq.write_table(pa.table({**columns, "path": paths}), file)
    return file


LEAVING = ["{scene}/out/secret.png", "../out/secret.png", "deep/../../out/secret.png", "link.png", "linked/secret.png"]


@pytest.mark.parametrize("kind", ["csv", "parquet", "structs"])
@pytest.mark.parametrize("unreadable", ["refuse", "skip"])
@pytest.mark.parametrize("path", [*LEAVING, "loop.png", "linked/../secret.png"])
def test_a_path_that_leads_out_is_refused(scene, path, unreadable, kind):
    path = path.format(scene=scene)
    source = write(scene, ["a.png", path], kind)
    config = DataConfig(source=str(source), cache=False, unreadable=unreadable)
    for read in (load_corpus, lambda config: original_files(config, ["0", "1"])):
        with pytest.raises(DataError, match=r"t\.\w+, row \d+: path names .*, which leads out of") as caught:
            read(config)
        assert path in str(caught.value)
        assert "data.image_root" in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", ["deep/b.png", "./deep/../deep/b.png", "{scene}/in/deep/b.png", "inner.png"])
def test_other_spellings_of_paths_inside_are_allowed(scene, path):
    config = DataConfig(source=str(write(scene, ["a.png", path.format(scene=scene)])), cache=False)
    assert len(load_corpus(config).train) == 2
    assert original_files(config, ["1"])["1"].is_file()


@pytest.mark.parametrize("path", ["out/secret.png", "{scene}/out/secret.png", "in/link.png"])
def test_another_root_can_be_named(scene, path):
    source = write(scene, ["in/a.png", path.format(scene=scene)])
    config = DataConfig(source=str(source), cache=False, image_root=str(scene))
    corpus = load_corpus(config)
    assert len(corpus.train) == 2
    assert original_files(config, ["1"])["1"].samefile(scene / "out/secret.png")
    assert find_originals(config, corpus).read("1", 100).size == (8, 8)


def test_a_root_must_exist(scene):
    config = DataConfig(source=str(write(scene, ["a.png", "deep/b.png"])), image_root=str(scene / "none"))
    with pytest.raises(DataError, match=r"none: no such folder, which data\.image_root names"):
        load_corpus(config)


def test_frames_begin_in_the_current_folder(scene, monkeypatch):
    monkeypatch.chdir(scene / "in")
    frame = pd.DataFrame({"path": ["a.png", "../out/secret.png"], "label": ["a", "b"]})
    with pytest.raises(DataError, match=r"<frame>, row 1: path names \.\./out/secret\.png, which leads out of"):
        load_corpus(DataConfig(source="<frame>"), frame)
    inside = pd.DataFrame({"path": [str(scene / "in/a.png"), "out/secret.png"], "label": ["a", "b"]})
    assert len(load_corpus(DataConfig(source="<frame>", image_root="..", cache=False), inside).train) == 2


@pytest.mark.parametrize("decode", ["once", "stream"])
def test_a_link_that_was_put_there_later_is_not_followed(scene, decode):
    config = DataConfig(source=str(write(scene, ["a.png", "deep/b.png"])), cache=False, decode=decode, workers=0)
    originals = find_originals(config, load_corpus(config))
    (scene / "in/a.png").unlink()
    (scene / "in/a.png").symlink_to(scene / "out/secret.png")
    with pytest.raises((DataError, Unreadable), match="leads out of"):
        originals.read("0", 100)


def test_export_takes_no_file_outside_of_an_image_folder(scene):
    (scene / "in/link.png").rename(scene / "in/deep/link.png")
    with pytest.raises(DataError, match="leads out of"):
        original_files(DataConfig(source=str(scene / "in")), ["deep/b.png", "deep/link.png"])
