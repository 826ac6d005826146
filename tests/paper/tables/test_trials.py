"""The entry point: scales, filters, and what it refuses."""

from pathlib import Path

import pytest

from surelabel.config import Constant, Cosine, CosineRestarts, MultiStep, OneCycle
from surelabel.errors import ConfigError
from surelabel.paper.tables import PRESETS, SCALES, Trial, parse_only, plan_trials


def test_only_reads_keys_and_values():
    assert parse_only("method=car,noise=symmetric:0.4") == {"method": ["car"], "noise": ["symmetric:0.4"]}
    assert parse_only("method=car, method=elr; seed=0") == {"method": ["car", "elr"], "seed": ["0"]}
    assert parse_only("") == {}


@pytest.mark.parametrize("text", ["method", "=car", "method="])
def test_only_refuses_what_is_no_assignment(text):
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        parse_only(text)


def test_only_keeps_cells_with_all_keys():
    trials = plan_trials("table1", only={"method": ["car", "elr"], "noise": ["symmetric:0.4"], "data": ["cifar10"]})
    assert len(trials) == 2 * 3
    assert {trial.cell["method"] for trial in trials} == {"car", "elr"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "table9"}, "table1, table2"),
        ({"name": "table1", "scale": "huge"}, "paper, small, tiny"),
        ({"name": "table2", "scale": "small"}, "it has paper"),
        ({"name": "ablation", "protocol": "original"}, "it has car"),
        ({"name": "table1", "scale": "small", "protocol": "original"}, "scale paper"),
        ({"name": "table1", "only": {"colour": ["red"]}}, "data, noise, method, seed"),
        ({"name": "table1", "only": {"method": ["cra"]}}, "cross_entropy"),
        ({"name": "table1", "only": {"data": ["cifar10"], "noise": ["block:0.4"]}}, "although each of them occurs"),
    ],
)
def test_errors_list_what_there_is(arguments, words):
    with pytest.raises(ConfigError, match=words):
        plan_trials(**arguments)


@pytest.mark.parametrize("name", PRESETS)
def test_cells_have_the_keys_of_rows_and_columns(name):
    preset = PRESETS[name]
    for scale in preset.scales:
        trials = plan_trials(name, scale=scale)
        assert trials
        for trial in trials:
            assert set(trial.cell) == {*preset.rows, *preset.columns}


def test_small_is_real_images_on_a_fast_network():
    folder = Path("somewhere")
    (trial,) = plan_trials(
        "table1",
        scale="small",
        folder=folder,
        only={"method": ["car"], "data": ["cifar10"], "noise": ["symmetric:0.4"]},
    )
    config = trial.config
    assert config.data.source == str(folder / "data" / "cifar10-subset-6000-5000.npz")
    assert config.train.crop_padding == 0  # shifted images are not memorised in 40 epochs
    assert config.noise.include_true_class
    assert (config.model.name, config.train.epochs, config.train.batch_size) == ("fast_cnn", 40, 128)
    assert config.optimiser.rate == 0.1
    assert config.optimiser.schedule == OneCycle()
    assert config.train.threads is None
    options = config.method.options
    assert (options["penalty_weight"], options["momentum"], options["correction_start"]) == (2.0, 0.9, 12)


@pytest.mark.parametrize("scale", ["small", "tiny"])
def test_scaled_car_learns_in_time(scale):
    """Q0 = lambda / (K - 1) of 0.1 to 0.25, and at least 15 target updates."""
    classes = {"cifar10": 10, "cifar100": 100}
    for trial in plan_trials("table1", scale=scale, only={"method": ["car"]}):
        options = trial.config.method.options
        assert 0.1 <= options["penalty_weight"] / (classes[trial.cell["data"]] - 1) <= 0.25
        assert trial.config.optimiser.rate_period == 1
        assert trial.config.train.epochs - options["correction_start"] + 1 >= 15


def test_tiny_car_corrects_from_the_published_share_of_the_epochs_on():
    for trial in plan_trials("table1", scale="tiny", only={"method": ["car"]}):
        assert trial.config.method.options["correction_start"] == round(60 / 500 * trial.config.train.epochs)


def test_scaled_grids_keep_their_proportions():
    cells = {"data": ["cifar10"]}
    trials = plan_trials("sensitivity", scale="small", only=cells)
    values = {}
    for trial in trials:
        values.setdefault(trial.cell["parameter"], []).append(trial.cell["value"])
    assert values["penalty_weight"] == ["2", "40", "200"]
    assert values["correction_start"] == ["4", "12", "20"]
    assert values["momentum"] == ["0.7", "0.9", "0.99"]


def test_tiny_is_twelve_methods_on_one_thread():
    trials = plan_trials("table1", scale="tiny")
    assert len({trial.cell["method"] for trial in trials}) == 12
    assert {trial.config.model.name for trial in trials} == {"mlp"}
    assert {trial.config.train.threads for trial in trials} == {1}
    assert {trial.cell["data"] for trial in trials} == {"cifar10"}


def test_prepared_data_are_named_by_what_matters():
    names = [one.name for scale in SCALES.values() for one in scale.prepared.values()]
    assert len(set(names)) == len(names) == 3


def test_a_name_tells_configurations_apart_and_nothing_else():
    (trial, *_) = plan_trials("table1", only={"method": ["car"]})
    train, optimiser, data = trial.config.train, trial.config.optimiser, trial.config.data

    def named(**changes):
        return Trial(trial.cell, trial.config.model_copy(update=changes)).name

    elsewhere = data.model_copy(update={"root": "elsewhere", "workers": 3})
    assert named(data=elsewhere, train=train.model_copy(update={"threads": 7})) == trial.name
    kinds = [CosineRestarts(), OneCycle(), MultiStep(), Constant(), Cosine()]
    names = {named(optimiser=optimiser.model_copy(update={"schedule": kind})) for kind in kinds}
    assert len(names) == 5
    assert named(train=train.model_copy(update={"epochs": 3})) != trial.name


CODE = {"log_zero": pytest.approx(-9.2103, abs=1e-4), "target_floor": 1e-4}


@pytest.mark.parametrize(
    ("name", "differences"),
    [
        ("table1", {"reverse_weight": 0.0, "threshold": 0.0}),
        ("correction", {"reverse_weight": 0.0, "threshold": 0.0}),
        ("table2", {"momentum": 0.9}),
        ("table3", {}),
    ],
)
def test_car_follows_the_paper_or_its_authors_code(name, differences):
    pairs = zip(plan_trials(name), plan_trials(name, car="code"), strict=True)
    for paper, code in pairs:
        if code.config.method.name != "car":
            assert code.name == paper.name
            continue
        assert "log_zero" not in paper.config.method.options
        assert code.config.method.options == {**paper.config.method.options, **differences, **CODE}


def test_only_tables_of_results_have_the_code_of_car():
    with pytest.raises(ConfigError, match="it has paper"):
        plan_trials("ablation", car="code")
    with pytest.raises(ConfigError, match="paper, code"):
        plan_trials("table1", car="text")
