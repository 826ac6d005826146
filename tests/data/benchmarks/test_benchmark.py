"""What all named data sets share: their names, options and errors."""

import pytest

from surelabel.config import DataConfig, Part
from surelabel.data import SOURCES, load_corpus
from surelabel.data.benchmarks import BENCHMARKS
from surelabel.data.benchmarks.benchmark import parse_options
from surelabel.data.benchmarks.dataset_directory import VARIABLE
from surelabel.errors import ConfigError, DataError

NAMES = [name for source in BENCHMARKS for name in source.BUNDLED]


@pytest.fixture(autouse=True)
def empty_directory(tmp_path, monkeypatch):
    """Run in an empty directory, without the environment variable."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)


def config(**fields):
    return DataConfig(source="toys", **fields)


def test_every_data_set_of_the_paper_has_a_name():
    assert set(NAMES) == {
        "fashion_mnist",
        *("cifar10", "cifar100", "cifar10n", "cifar100n"),
        *("clothing1m", "webvision", "animal10n", "food101n"),
    }
    assert all(source in SOURCES for source in BENCHMARKS)


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_folder_shows_the_layout_and_where_to_get_the_data(name, tmp_path):
    (tmp_path / "empty").mkdir()
    for root, fault in (("nowhere", "no such folder: nowhere"), ("empty", "empty lacks ")):
        with pytest.raises(DataError, match=f"{name}: {fault}") as error:
            load_corpus(DataConfig(source=name, root=root))
        assert "expected " in str(error.value)
        assert "ROOT/" in str(error.value)
        assert "to be had from " in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_named_before_any_file_is_searched(name):
    with pytest.raises(ConfigError, match=rf"data\.options\.frobnicate: {name} .*(available: \w+|it has none)"):
        load_corpus(DataConfig(source=name, options={"frobnicate": 1}))


def test_a_similar_name_is_suggested():
    with pytest.raises(DataError, match="did you mean cifar100"):
        load_corpus(DataConfig(source="cifar_100"))


class ToyOptions(Part):
    colour: str = "red"
    count: int = 3


def test_options_have_types():
    assert parse_options(config(options={"count": 4}), ToyOptions) == ToyOptions(count=4)
    with pytest.raises(ConfigError, match=r"data\.options\.count: .*integer.*got 'many'"):
        parse_options(config(options={"count": "many"}), ToyOptions)
    with pytest.raises(ConfigError, match=r"data\.options\.color: toys has no such option; did you mean colour\?"):
        parse_options(config(options={"color": "blue"}), ToyOptions)
