"""Where the directory of a data set is found, and what it must contain."""

import pytest

from surelabel.config import DataConfig
from surelabel.data.benchmarks.dataset_directory import VARIABLE, DatasetDirectory, check_inside
from surelabel.errors import DataError

TOYS = DatasetDirectory("toys", "ROOT/list.txt", "the shop", fallback_names=("old_toys",))


@pytest.fixture(autouse=True)
def empty_directory(tmp_path, monkeypatch):
    """Run in an empty directory, without the environment variable."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)


def config(**fields):
    return DataConfig(source="toys", **fields)


def test_the_directory_is_the_root_or_one_of_the_usual_places(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    assert TOYS.find(config(root="mine")).name == "mine"
    with pytest.raises(DataError, match=r"toys: no such folder: data/toys, data/old_toys \(data\.root names a folder"):
        TOYS.find(config())
    (tmp_path / "data/old_toys").mkdir(parents=True)
    assert str(TOYS.find(config())) == "data/old_toys"
    (tmp_path / "data/toys").mkdir()
    assert str(TOYS.find(config())) == "data/toys"
    (tmp_path / "all/toys").mkdir(parents=True)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "all"))
    assert TOYS.find(config()) == tmp_path / "all/toys"


def test_a_configured_root_is_not_searched_elsewhere(tmp_path):
    (tmp_path / "data/toys").mkdir(parents=True)
    with pytest.raises(DataError, match="no such folder: elsewhere"):
        TOYS.find(config(root="elsewhere"))


def test_missing_files_are_listed(tmp_path):
    (tmp_path / "meta").mkdir()
    with pytest.raises(
        DataError, match=r"lacks meta/a\.txt, meta/b\.txt; expected ROOT/list\.txt; to be had from the shop"
    ):
        TOYS.require(tmp_path, tmp_path / "meta", ("a.txt", "b.txt"))


def test_neither_links_nor_dots_lead_out_of_the_root(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").mkdir()
    (root / "link").symlink_to(tmp_path / "secret")
    assert check_inside(root / "a", root) == root / "a"
    for path in (root / "link/a", root / "../secret/a", tmp_path / "secret"):
        with pytest.raises(DataError, match="leads out of"):
            check_inside(path, root)
