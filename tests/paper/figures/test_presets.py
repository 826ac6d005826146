"""Presets train the runs that figures need, even if one folder holds the runs of all presets."""

import pytest

from surelabel.paper.figures import find_figure
from surelabel.paper.figures.panel_runs import FoundRun, choose_runs
from surelabel.paper.figures.sensitivity import find_study
from surelabel.paper.tables import PRESETS, plan_trials
from surelabel.paper.tables.cifar_settings import car_setting
from surelabel.paper.tables.scales import SCALES
from surelabel.runs.run_dir import RunDir


def trained(preset: str, scale: str) -> list[FoundRun]:
    """The runs of a preset, as if they were finished."""
    runs = {}
    for trial in plan_trials(preset, scale=scale):
        runs[trial.name] = one = FoundRun(RunDir(trial.name), trial.config, None)
        measured = {"gradient_share": {}} if trial.config.train.gradient_share else {}
        # What would be read from the run directory.
        vars(one).update(metrics=[{"epoch": 1, "tests": {"test": {"top1": 0.5}}, **measured}], is_image=scale != "tiny")
    return list(runs.values())


@pytest.fixture(scope="module")
def everything() -> dict[str, list[FoundRun]]:
    """By scale, the runs of all presets."""
    return {
        scale: [one for name, preset in PRESETS.items() if scale in preset.scales for one in trained(name, scale)]
        for scale in SCALES
    }


@pytest.mark.parametrize("scale", ["paper", "small"])
@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6, 7, 8, 9])
def test_every_panel_has_its_run(number, scale, everything):
    figure = find_figure(str(number))
    own = [one for preset in figure.presets for one in trained(preset, scale)]
    for available in (own, everything[scale]):
        panels = choose_runs(figure.panels, available)
        assert all(panels.values())
        assert {found.seed for found in panels.values()} == {0}


@pytest.mark.parametrize("scale", list(SCALES))
@pytest.mark.parametrize(("number", "noise"), [(5, "symmetric:0.4"), (8, "symmetric:0.6"), (9, "symmetric:0.8")])
def test_of_all_runs_the_selected_setting_is_shown(number, noise, scale, everything):
    (found,) = choose_runs(find_figure(str(number)).panels, everything[scale]).values()
    expected = car_setting(SCALES[scale], "cifar10", noise).options()
    assert {name: found.options[name] for name in expected} == expected


@pytest.mark.parametrize("scale", ["paper", "small"])
@pytest.mark.parametrize(("number", "data"), [(10, "cifar10"), (11, "cifar100")])
def test_sensitivity_has_every_value_and_seed(number, data, scale, everything):
    (wanted,) = find_figure(str(number)).panels.values()
    base, parameters, _ = find_study(wanted, everything[scale])
    expected = car_setting(SCALES[scale], data, "symmetric:0.6").options()
    assert {name: base.options[name] for name in expected} == expected
    assert [len(parameter.points) for parameter in parameters] == [3, 4, 3, 3, 4]
    seeds = {point.num_seeds for parameter in parameters for point in parameter.points}
    assert seeds == {len(SCALES[scale].seeds)}


@pytest.mark.parametrize(("number", "data"), [(12, "webvision"), (13, "clothing1m")])
def test_corrected_images_are_those_of_car(number, data, everything):
    (found,) = choose_runs(find_figure(str(number)).panels, everything["paper"]).values()
    assert (found.config.data.source, found.config.method.name) == (data, "car")


@pytest.mark.parametrize("scale", list(SCALES))
def test_cross_entropy_in_figure_1_is_trained_on_the_given_labels(scale, everything):
    panels = choose_runs(find_figure("1").panels, everything[scale])
    targets = [found.options["targets"] for found in panels.values() if found.config.method.name == "cross_entropy"]
    assert targets == ["none", "none"]
