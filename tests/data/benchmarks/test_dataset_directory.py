import pytest

from surelabel.config import DataConfig, Part
from surelabel.data import SOURCES, load_corpus
from surelabel.data.benchmarks import NAMED
from surelabel.data.benchmarks.dataset_directory import VARIABLE, Layout, inside, options_of
from surelabel.errors import ConfigError, DataError

NAMES = [name for source in NAMED for name in source.BUNDLED]
LAYOUT = Layout("toys", "ROOT/list.txt", "the shop", also=("old_toys",))


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)


def config(**fields):
    return DataConfig(source="toys", **fields)


def test_every_set_of_the_paper_has_a_name():
    assert set(NAMES) == {
        "fashion_mnist",
        *("cifar10", "cifar100", "cifar10n", "cifar100n"),
        *("clothing1m", "webvision", "animal10n", "food101n"),
    }
    assert all(source in SOURCES for source in NAMED)


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_folder_shows_the_tree_and_where_to_get_the_data(name, tmp_path):
    (tmp_path / "empty").mkdir()
    for root, fault in (("nowhere", "no such folder: nowhere"), ("empty", "empty lacks ")):
        with pytest.raises(DataError, match=f"{name}: {fault}") as error:
            load_corpus(DataConfig(source=name, root=root))
        assert "expected " in str(error.value)
        assert "ROOT/" in str(error.value)
        assert "to be had from " in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_named_before_any_file_is_looked_for(name):
    with pytest.raises(
        ConfigError, match=rf"data\.options\.frobnicate: {name} has no such option; (there are \w+|it has none)"
    ):
        load_corpus(DataConfig(source=name, options={"frobnicate": 1}))


def test_a_near_name_is_suggested():
    with pytest.raises(DataError, match="did you mean cifar100"):
        load_corpus(DataConfig(source="cifar_100"))


def test_the_folder_is_the_root_or_in_one_of_the_usual_places(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    assert LAYOUT.root(config(root="mine")).name == "mine"
    with pytest.raises(DataError, match=r"toys: no such folder: data/toys, data/old_toys \(data\.root names a folder"):
        LAYOUT.root(config())
    (tmp_path / "data/old_toys").mkdir(parents=True)
    assert str(LAYOUT.root(config())) == "data/old_toys"
    (tmp_path / "data/toys").mkdir()
    assert str(LAYOUT.root(config())) == "data/toys"
    (tmp_path / "all/toys").mkdir(parents=True)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "all"))
    assert LAYOUT.root(config()) == tmp_path / "all/toys"


def test_a_root_that_is_set_is_not_looked_for_elsewhere(tmp_path):
    (tmp_path / "data/toys").mkdir(parents=True)
    with pytest.raises(DataError, match="no such folder: elsewhere"):
        LAYOUT.root(config(root="elsewhere"))


def test_missing_files_are_listed(tmp_path):
    (tmp_path / "meta").mkdir()
    with pytest.raises(
        DataError, match=r"lacks meta/a\.txt, meta/b\.txt; expected ROOT/list\.txt; to be had from the shop"
    ):
        LAYOUT.require(tmp_path, tmp_path / "meta", ("a.txt", "b.txt"))


class Toys(Part):
    colour: str = "red"
    count: int = 3


def test_options_have_types():
    assert options_of(config(options={"count": 4}), Toys) == Toys(count=4)
    with pytest.raises(ConfigError, match=r"data\.options\.count: .*integer.*got 'many'"):
        options_of(config(options={"count": "many"}), Toys)
    with pytest.raises(ConfigError, match=r"data\.options\.color: toys has no such option; did you mean colour\?"):
        options_of(config(options={"color": "blue"}), Toys)


def test_neither_links_nor_dots_lead_out_of_the_root(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").mkdir()
    (root / "link").symlink_to(tmp_path / "secret")
    assert inside(root / "a", root) == root / "a"
    for path in (root / "link/a", root / "../secret/a", tmp_path / "secret"):
        with pytest.raises(DataError, match="leads out of"):
            inside(path, root)
