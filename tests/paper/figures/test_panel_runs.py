"""Find runs, and choose one for each panel."""

import pytest

from surelabel.errors import RunError
from surelabel.paper.figures.panel_runs import (
    ANNEALED,
    STEPPED,
    RunQuery,
    choose_runs,
    data_text,
    find_runs,
    find_typical,
    list_differences,
    setting_text,
)

NOISE = ("symmetric", 0.4)


def names(panels) -> dict:
    return {name: None if found is None else found.run.path.name for name, found in panels.items()}


def test_runs_are_found_in_a_reproduction_and_as_directories(make, tmp_path, caplog):
    first, second = make("one"), make("two", seed=1)
    make("unfinished", is_done=False)
    assert [one.run.path.name for one in find_runs([tmp_path], None)] == ["one", "two"]
    assert [one.seed for one in find_runs([second.path, first.path], None)] == [1, 0]
    (first.path / "config.json").write_text("{")
    assert [one.run.path.name for one in find_runs([tmp_path], None)] == ["two"]
    assert "left out" in caplog.text
    with pytest.raises(RunError, match="no such folder"):
        find_runs([tmp_path / "nowhere"], None)


@pytest.mark.parametrize(
    ("source", "data", "text"),
    [
        ("cifar10", "cifar10", "CIFAR-10"),
        ("cifar100", "cifar100", "CIFAR-100"),
        ("some/where/cifar10-subset-10000-5000.npz", "cifar10", "CIFAR-10 (subset-10000-5000)"),
        ("mine.npz", None, "mine"),
    ],
)
def test_the_data_set_is_a_word_of_the_source(make, available, source, data, text):
    make("run", data=source)
    (found,) = available()
    assert found.data == data
    assert data_text(found) == text
    assert setting_text(found) == f"{text}, 40 % symmetric noise"


def test_method_noise_schedule_and_options_are_told_apart(make, available):
    make("car", options={"penalty_weight": 2.0})
    make("no-targets", options={"penalty_weight": 2.0, "targets": "none"})
    make("stepped", method="cross_entropy", schedule="multi_step")
    make("annealed", method="cross_entropy", schedule="one_cycle")
    make("asymmetric", noise=("asymmetric", 0.4))
    make("clean", noise=None)
    panels = {
        "car": RunQuery("cifar10", NOISE, options={"targets": "car"}),
        "a": RunQuery("cifar10", NOISE, "cross_entropy", schedules=STEPPED),
        "b": RunQuery("cifar10", NOISE, "cross_entropy", schedules=ANNEALED),
        "asymmetric": RunQuery("cifar10", ("asymmetric", 0.4)),
        "80": RunQuery("cifar10", ("symmetric", 0.8)),
        "measured": RunQuery("cifar10", NOISE, measured="gradient_share"),
    }
    expected = {"car": "car", "a": "stepped", "b": "annealed", "asymmetric": "asymmetric", "80": None, "measured": None}
    assert names(choose_runs(panels, available())) == expected


def test_the_papers_data_come_before_others_and_never_each_other(make, available):
    make("mine", data="mine.npz")
    make("hundred", data="cifar100")
    ten = {"": RunQuery("cifar10", NOISE)}
    assert names(choose_runs(ten, available())) == {"": "mine"}
    make("ten")
    assert names(choose_runs(ten, available())) == {"": "ten"}
    assert names(choose_runs({"": RunQuery("webvision", NOISE)}, [one for one in available() if one.data])) == {
        "": None
    }


def test_another_data_set_is_a_substitute_once(make, available):
    make("mine", data="mine.npz")
    panels = {"10": RunQuery("cifar10", NOISE), "100": RunQuery("cifar100", NOISE)}
    assert names(choose_runs(panels, available())) == {"10": "mine", "100": None}


def test_panels_of_one_data_set_come_from_one_source(make, available):
    make("images-car", data="cifar10-subset.npz")
    make("features-car", data="cifar10-patches.npz")
    make("features-ce", data="cifar10-patches.npz", method="cross_entropy")
    panels = {"car": RunQuery("cifar10", NOISE), "ce": RunQuery("cifar10", NOISE, "cross_entropy")}
    assert names(choose_runs(panels, available())) == {"car": "features-car", "ce": "features-ce"}


def test_of_many_the_one_that_others_vary_and_its_lowest_seed(make, available):
    for seed in (2, 1):
        make(f"base-{seed}", seed=seed)
        make(f"beta-{seed}", seed=seed, options={"reverse_weight": 0.1})
        make(f"alpha-{seed}", seed=seed, options={"momentum": 0.7})
    assert find_typical(available()).run.path.name == "base-1"
    assert find_typical([]) is None


def test_a_default_that_is_written_out_is_no_difference(make, available):
    make("short")
    make("long", options={"reverse_weight": 0, "momentum": 0.9}, seed=3)
    first, second = available()
    assert list_differences(first, second) == []
