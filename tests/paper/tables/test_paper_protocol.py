"""The full-protocol configurations against the paper, field by field."""

from pathlib import Path

import pytest

from surelabel.config import Batches, CosineRestarts, MultiStep
from surelabel.methods import validate_options
from surelabel.paper.tables import PRESETS, plan_trials

CAR = ("penalty_weight", "reverse_weight", "correction_start", "momentum", "threshold")
HARD = (10.0, 0.1, 60, 0.9, 0.95)
SETTINGS = {
    **{("cifar10", noise): (0.5, 0.0, 60, 0.9, 0.0) for noise in ("symmetric:0.2", "symmetric:0.4", "symmetric:0.6")},
    ("cifar10", "symmetric:0.8"): (0.5, 0.0, 60, 0.9, 0.0),
    ("cifar10", "asymmetric:0.4"): (0.5, 0.0, 60, 0.9, 0.0),
    **{("cifar100", noise): HARD for noise in ("symmetric:0.2", "symmetric:0.4", "symmetric:0.6")},
    ("cifar100", "symmetric:0.8"): (50.0, 0.1, 60, 0.9, 0.0),
    ("cifar100", "asymmetric:0.4"): (10.0, 0.1, 20, 0.9, 0.0),
    ("cifar100", "block:0.4"): (10.0, 0.1, 20, 0.9, 0.0),
}
"""Appendix D: lambda, beta, E_c, alpha, delta."""
GRID = {
    "penalty_weight": "0.5 10 50",
    "reverse_weight": "0 0.1 0.3 0.5",
    "correction_start": "20 60 100",
    "momentum": "0.7 0.9 0.99",
    "threshold": "0 0.35 0.65 0.95",
}
"""The values in Figures 10 and 11."""


def test_table1_trains_everybody_alike():
    for config in (trial.config for trial in plan_trials("table1", data=Path("pictures"))):
        assert config.data.root == str(Path("pictures") / config.data.source)
        assert (config.data.validation_fraction, config.data.epoch) == (0, "all")
        assert (config.model.name, config.model.weights) == ("resnet34", None)
        assert (config.train.epochs, config.train.batch_size) == (500, 64)
        sgd = config.optimiser
        assert (sgd.name, sgd.rate, sgd.momentum, sgd.weight_decay) == ("sgd", 0.02, 0.9, 0.001)
        assert sgd.schedule == CosineRestarts(period=10, min_rate=0.001)
        assert config.notices() == []


def test_table1_is_complete():
    trials = plan_trials("table1")
    assert len({trial.cell["method"] for trial in trials}) == 12
    assert {trial.seed for trial in trials} == {0, 1, 2}
    assert {(trial.cell["data"], trial.cell["noise"]) for trial in trials} == set(SETTINGS)
    assert len({trial.name for trial in trials}) == len(trials) == 12 * len(SETTINGS) * 3


def test_table1_gives_car_the_settings_of_the_appendix():
    for trial in plan_trials("table1", only={"method": ["car"]}):
        options = trial.config.method.options
        found = tuple(options[name] for name in CAR)
        assert found == SETTINGS[trial.cell["data"], trial.cell["noise"]]
        assert set(options) == set(CAR)


def test_noise_is_what_the_decision_says():
    found = {(t.cell["data"], t.cell["noise"]): t.config.noise for t in plan_trials("table1", only={"seed": ["0"]})}
    for (data, word), noise in found.items():
        kind, rate = word.split(":")
        assert noise.rate == float(rate)
        assert noise.mode is None  # exact counts
        assert noise.include_true_class == (kind == "symmetric")
        expected = {("cifar100", "asymmetric"): "superclass"}.get((data, kind), kind)
        assert noise.kind == expected


def test_table2_is_clothing1m():
    trials = {trial.cell["method"]: trial.config for trial in plan_trials("table2", data=Path("pictures"))}
    assert len(trials) == 10
    for config in trials.values():
        assert (config.data.source, config.data.root) == ("clothing1m", str(Path("pictures/clothing1m")))
        assert config.data.epoch == Batches(batches=2000, balanced=True)
        assert (config.model.name, config.model.weights) == ("resnet50", "pretrained")
        assert (config.train.epochs, config.train.batch_size, config.train.seed) == (400, 64, 0)
        sgd = config.optimiser
        assert (sgd.name, sgd.rate, sgd.momentum, sgd.weight_decay) == ("sgd", 0.02, 0.9, 0.001)
        assert sgd.schedule == CosineRestarts(period=10, min_rate=0.0001)
        assert config.noise is None
    assert tuple(trials["car"].method.options[name] for name in CAR) == (50.0, 0.1, 60, 0.8, 0.0)
    assert PRESETS["table2"].rules[0] == "best_clean_validation"


def test_table3_is_mini_webvision():
    trials = {trial.cell["method"]: trial.config for trial in plan_trials("table3", data=Path("pictures"))}
    assert len(trials) == 8
    for config in trials.values():
        assert (config.data.source, config.data.root) == ("webvision", str(Path("pictures/webvision")))
        assert config.data.options == {"ilsvrc12": str(Path("pictures/ilsvrc12"))}
        assert (config.model.name, config.model.weights) == ("timm:inception_resnet_v2", None)
        assert (config.train.epochs, config.train.batch_size, config.train.seed) == (500, 32, 0)
        sgd = config.optimiser
        assert (sgd.name, sgd.rate, sgd.momentum, sgd.weight_decay) == ("sgd", 0.02, 0.9, 0.0005)
        assert sgd.schedule == CosineRestarts(period=10, min_rate=0.001)
        assert config.noise is None
    assert tuple(trials["car"].method.options[name] for name in CAR) == (50.0, 0.1, 200, 0.9, 0.0)
    assert [m.key for m in PRESETS["table3"].measures] == [
        f"{data}_{top}" for data in ("webvision", "ilsvrc12") for top in ("top1", "top5")
    ]


def test_memorisation_has_both_schedules_of_cross_entropy():
    trials = {trial.cell["training"]: trial.config for trial in plan_trials("memorisation")}
    assert list(trials) == ["cross_entropy_multi_step", "cross_entropy_cosine", "car"]
    steps = trials["cross_entropy_multi_step"].optimiser
    assert steps.rate == 0.02
    assert steps.schedule == MultiStep(milestones=(100, 200), factor=0.1)
    assert isinstance(trials["cross_entropy_cosine"].optimiser.schedule, CosineRestarts)
    assert all(config.train.gradient_share and config.train.epochs == 500 for config in trials.values())
    assert all((c.data.source, c.noise.kind, c.noise.rate) == ("cifar10", "symmetric", 0.4) for c in trials.values())


def test_sensitivity_changes_one_parameter_at_a_time():
    trials = plan_trials("sensitivity")
    for data in ("cifar10", "cifar100"):
        found: dict[str, set[str]] = {}
        for trial in (trial for trial in trials if trial.cell["data"] == data):
            found.setdefault(trial.cell["parameter"], set()).add(trial.cell["value"])
        assert found == {name: set(values.split()) for name, values in GRID.items()}
    for trial in trials:
        base = dict(zip(CAR, SETTINGS[trial.cell["data"], "symmetric:0.6"], strict=True))
        changed = {**base, trial.cell["parameter"]: float(trial.cell["value"])}
        assert trial.config.method.options == changed
        assert trial.config.noise.rate == 0.6


def test_equal_configurations_share_a_name():
    named = {}
    for trial in plan_trials("ablation"):
        named.setdefault((trial.cell["data"], trial.cell["noise"], trial.seed), {})[trial.cell["variant"]] = trial.name
    for (data, _, _), names_of in named.items():
        assert (names_of["car"] == names_of["without_reverse_term"]) == (data == "cifar10")
        assert len(set(names_of.values())) == (3 if data == "cifar10" else 4)
    table1 = {trial.name for trial in plan_trials("table1", only={"method": ["car", "cross_entropy"]})}
    assert {trial.name for trial in plan_trials("correction")} <= table1
    plain = {"strategy": ["none"], "method": ["cross_entropy"]}
    assert {trial.name for trial in plan_trials("strategies", only=plain)} <= table1
    without = {t.name for t in plan_trials("ablation", only={"variant": ["without_target_estimation"]})}
    assert {t.name for t in plan_trials("strategies", only={"method": ["car"], "strategy": ["none"]})} == without


def test_a_name_does_not_hang_on_where_data_lie():
    for preset in ("table1", "table3"):
        here, there = (plan_trials(preset, data=Path(root), only={"method": ["car"]}) for root in ("a", "b/c"))
        assert [trial.name for trial in here] == [trial.name for trial in there]


def test_original_protocols_are_those_of_the_papers():
    trials = plan_trials("table1", protocol="original", only={"seed": ["0"]})
    found = {(t.cell["method"], t.cell["data"], t.cell["noise"]): t.config for t in trials}
    assert "bootstrap" not in {method for method, _, _ in found}
    assert "self_ensemble" not in {method for method, _, _ in found}
    sat = found["sat", "cifar100", "symmetric:0.8"]
    assert (sat.train.epochs, sat.train.batch_size, sat.optimiser.rate) == (200, 256, 0.1)
    assert sat.method.options == {"correction_start": 60}
    elr = found["elr", "cifar10", "asymmetric:0.4"]
    assert (elr.train.epochs, elr.train.batch_size) == (150, 128)
    assert elr.method.options == {"regularisation": 1.0, "momentum": 0.9}
    assert found["nlnl", "cifar10", "symmetric:0.2"].train.epochs == 3 * 720
    assert found["forward", "cifar100", "block:0.4"].train.epochs == 2 * 150
    car = {t.name for t in plan_trials("table1", only={"method": ["car"], "seed": ["0"]})}
    assert {t.name for t in trials if t.cell["method"] == "car"} == car
    assert all(config.model.name == "resnet34" for config in found.values())


ORIGINALS = {
    # epochs of the whole run, batch, rate, weight decay, milestones and factor
    ("table1", "cross_entropy", "cifar10"): (120, 128, 0.1, 2e-4, (40, 80), 0.1),
    ("table1", "cross_entropy", "cifar100"): (150, 128, 0.1, 2e-3, (80, 120), 0.1),
    ("table1", "forward", "cifar10"): (240, 128, 0.1, 2e-4, (40, 80), 0.1),
    ("table1", "gce", "cifar10"): (120, 128, 0.01, 1e-4, (40, 80), 0.1),
    ("table1", "gce", "cifar100"): (150, 128, 0.01, 1e-4, (80, 120), 0.1),
    ("table1", "sl", "cifar10"): (120, 128, 0.01, 0.0, (40, 80), 0.1),
    ("table1", "dac", "cifar100"): (400, 128, 0.1, 5e-4, (60, 120, 160), 0.2),
    ("table1", "joint_optimization", "cifar10"): (320, 128, 0.2, 1e-4, (40, 80), 0.1),
    ("table2", "cross_entropy", "clothing1m"): (10, 256, 0.01, 1e-3, (5,), 0.1),
    ("table2", "dmi", "clothing1m"): (20, 256, 0.01, 1e-3, (5,), 0.1),
    ("table2", "elr", "clothing1m"): (10, 64, 0.001, 1e-3, (5,), 0.01),
    ("table2", "elr_plus", "clothing1m"): (15, 64, 0.002, 1e-3, (7,), 0.1),
    ("table2", "dividemix", "clothing1m"): (80, 32, 0.002, 1e-3, (40,), 0.1),
    ("table3", "elr_plus", "webvision"): (100, 32, 0.02, 5e-4, (50,), 0.1),
    ("table3", "dividemix", "webvision"): (80, 32, 0.01, 5e-4, (40,), 0.1),
}


@pytest.mark.parametrize(("table", "method", "data"), ORIGINALS)
def test_original_schedules(table, method, data):
    trials = plan_trials(table, protocol="original", only={"method": [method]})
    configs = [trial.config for trial in trials if trial.config.data.source == data]
    assert configs
    for config in configs:
        sgd = config.optimiser
        found = (config.train.epochs, config.train.batch_size, sgd.rate, sgd.weight_decay)
        schedule = MultiStep(milestones=ORIGINALS[table, method, data][4], factor=ORIGINALS[table, method, data][5])
        assert (found, sgd.schedule) == (ORIGINALS[table, method, data][:4], schedule)


def test_symmetric_noise_is_that_of_the_code_behind_each_number():
    """In some code a chosen label always changes; in the rest it may be drawn again."""
    trials = plan_trials("table1", protocol="original", only={"seed": ["0"]})
    found = {
        (t.cell["method"], t.config.noise.include_true_class) for t in trials if t.cell["noise"] == "symmetric:0.2"
    }
    assert {method for method, includes in found if not includes} == {"cross_entropy", "forward", "gce", "nlnl", "sl"}
    assert {method for method, includes in found if includes} == {"dac", "sat", "elr", "car"}


def test_clothing1m_is_normalised_as_in_the_code_of_each_method():
    trials = plan_trials("table2", protocol="original", data=Path("pictures"))
    found = {trial.cell["method"]: trial.config.model.normalise_as for trial in trials}
    assert {method for method, scale in found.items() if scale == "data"} == {"elr", "elr_plus", "dividemix"}


@pytest.mark.parametrize("table", ["table2", "table3"])
@pytest.mark.parametrize("protocol", ["car", "original"])
def test_dividemix_warms_up_and_mixes_as_in_its_scripts(table, protocol):
    (trial,) = plan_trials(table, protocol=protocol, data=Path("pictures"), only={"method": ["dividemix"]})
    options = trial.config.method.options
    assert (options["separate_warm_up"], options["only_partners"], options["warm_up"]) == (True, True, 1)


def test_dmi_on_clothing1m_has_ten_epochs_of_each_stage():
    (trial,) = plan_trials("table2", protocol="original", data=Path("pictures"), only={"method": ["dmi"]})
    assert trial.config.method.options == {"pretraining": 10, "rate_factor": 1e-4, "batch_size": 256}


def test_every_method_exists_and_takes_its_options():
    seen = set()
    for name, preset in PRESETS.items():
        for protocol in preset.protocols:
            for trial in plan_trials(name, protocol=protocol):
                method = trial.config.method
                if str(method) not in seen:
                    seen.add(str(method))
                    assert validate_options(method.name, method.options) is not None
