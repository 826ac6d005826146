"""The contract of every method: new files in methods/ are tested here without further edits."""

import itertools
import json

import numpy as np
import pytest
import torch

import surelabel
from surelabel import methods
from surelabel.api import Interrupted, fit, resume
from surelabel.config import validate
from surelabel.core.method import options_of
from surelabel.data.loader import Loader
from surelabel.engine import loop

pytestmark = pytest.mark.training  # not by the length of one test but by their number

ALL = methods.names()


class StopEvery:
    """Asks to stop after every `count` steps."""

    def __init__(self, count: int) -> None:
        self.steps = itertools.count(1)
        self.count = count

    def __call__(self) -> bool:
        return next(self.steps) % self.count == 0


def run_in_pieces(config: dict, out, steps: int):
    """Train with many interruptions, each resumed in a new engine."""
    pieces = 1
    try:
        return fit(config, out, interrupt=StopEvery(steps)), pieces
    except Interrupted:
        pass
    while True:
        pieces += 1
        try:
            return resume(out, interrupt=StopEvery(steps)), pieces
        except Interrupted:
            assert pieces < 200


@pytest.mark.parametrize("name", ALL)
def test_trains_and_leaves_a_whole_run(name, tiny, tmp_path):
    run = fit(tiny(name), tmp_path / "run")
    rows = run.metrics()
    assert sum(1 for _ in rows) == 4
    for row in rows:
        assert np.isfinite([row["loss"], *row["terms"].values()]).all()
        assert row["loss"] == pytest.approx(sum(row["terms"].values()))
        assert 0 <= row["tests"]["test"]["top1"] <= 1
    samples = run.samples()
    probability = np.stack(samples["probability"].to_pylist())
    target = np.stack(samples["target"].to_pylist())
    np.testing.assert_allclose(probability.sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(target.sum(1), 1, atol=1e-5)
    quality = samples["quality"].to_numpy()
    assert len(quality) == 75
    assert ((quality >= 0) & (quality <= 1)).all()
    assert len(set(np.round(quality, 6))) > 10, "a verdict that hardly distinguishes labels"


@pytest.mark.parametrize("name", ["co_teaching", "co_teaching_plus", "jocor", "incv", "dividemix", "elr_plus"])
def test_two_networks_are_also_scored_one_by_one(name, tiny, blobs, tmp_path):
    run = fit(tiny(name, train__epochs=6, data__validation_fraction=0.1), tmp_path / "run")
    method = surelabel.load(run.path).method
    with np.load(blobs) as data, torch.no_grad():
        x, label = torch.from_numpy(data["x_test"]), torch.from_numpy(data["y_test"])
        right = {
            one: (net(x).logits.argmax(1) == label).float().mean().item() for one, net in method.networks().items()
        }
    found = run.metrics()[-1]["networks"]
    assert {one: tests["test"]["top1"] for one, tests in found.items()} == pytest.approx(right)
    assert all(list(tests) == ["test"] for tests in found.values())


@pytest.mark.parametrize("name", ALL)
def test_batches_of_a_pass_are_equally_large(name, tiny, tmp_path, monkeypatch):
    """No step goes through batch norm with a small rest; 67 rows in batches of 11 leave 1."""
    walks, passes = [], Loader.passes

    def recorded(self, views, *args, **kwargs):
        walks.append([])
        for step in passes(self, views, *args, **kwargs):
            walks[-1].append(next(iter(step.values())).num_rows)
            yield step

    monkeypatch.setattr(Loader, "passes", recorded)
    fit(tiny(name, data__validation_fraction=0.1, train__batch_size=11, train__epochs=2), tmp_path / "run")
    assert walks
    for sizes in walks:
        assert max(sizes) - min(sizes) <= 1


@pytest.fixture
def stage_optimisers(monkeypatch):
    """The settings of each stage's optimiser, with the factor on its rate, as they are used."""
    used, make = [], loop.Engine._make_optimiser

    def recorded(self, stage):
        used.append((self._settings(stage), stage.rate_factor))
        return make(self, stage)

    monkeypatch.setattr(loop.Engine, "_make_optimiser", recorded)
    return used


@pytest.mark.parametrize("name", ALL)
def test_every_stage_has_the_optimiser_of_the_run(name, tiny, tmp_path, stage_optimisers):
    """Published rates and weight decays, of SGD, are options; the rest is always the run's."""
    options = {key: None for key in ("rate", "weight_decay") if key in options_of(methods.find(name))}
    sgd = {"rate": 0.01, "momentum": 0.5, "weight_decay": 0.01, "clip": 1.0}
    for number, (chosen, change) in enumerate([({}, {"name": "adamw"}), (options, {"name": "sgd"}), ({}, {})]):
        config = validate(tiny(name, optimiser={**sgd, **change}, method__options=chosen, train__epochs=4))
        stage_optimisers.clear()
        fit(config, tmp_path / str(number))
        for used, factor in stage_optimisers:
            kept = config.optimiser.scaled(factor)
            if number == 2:  # SGD with the published rate and weight decay, where there are any
                kept = kept.model_copy(update={key: getattr(used, key) for key in ("rate", "weight_decay", "schedule")})
            assert used == kept


@pytest.mark.parametrize("name", ALL)
def test_a_run_of_one_epoch_has_one(name, tiny, tmp_path):
    run = fit(tiny(name, train__epochs=1), tmp_path / "run")
    assert len(run.metrics()) == 1
    assert np.isfinite(run.samples()["quality"].to_numpy()).all()


@pytest.mark.parametrize("name", ALL)
def test_learns_more_than_chance(name, tiny, tmp_path):
    run = fit(tiny(name, train__epochs=24, noise__rate=0.1), tmp_path / "run")
    assert run.metrics()[-1]["tests"]["test"]["top1"] > 0.6
    assert surelabel.audit(run).measures()["quality_auroc"] > 0.6


@pytest.mark.parametrize("name", ALL)
def test_model_predicts_after_loading(name, tiny, blobs, tmp_path):
    run = fit(tiny(name), tmp_path / "run")
    model = surelabel.load(run.path)
    with np.load(blobs) as data:
        probability = model.predict_proba(data["x_test"])
        right = (model.predict(data["x_test"]) == data["y_test"].astype(str)).mean()
    np.testing.assert_allclose(probability.sum(1), 1, atol=1e-5)
    assert right == pytest.approx(run.metrics()[-1]["tests"]["test"]["top1"])


@pytest.mark.parametrize("name", ALL)
def test_never_sees_a_clean_label(name, tiny, blobs, tmp_path, outcome):
    """A run is bit for bit the same whether or not the clean labels are known."""
    config = tiny(name)
    known = fit(config, tmp_path / "known")
    labels = known.labels()
    assert (labels["given"].to_numpy() != labels["clean"].to_numpy()).any()
    with np.load(blobs) as data:
        np.savez(tmp_path / "given.npz", **{**data, "y": labels["given"].to_numpy()})
    blind = fit({**config, "noise": None, "data": {"source": str(tmp_path / "given.npz")}}, tmp_path / "blind")
    assert blind.labels()["clean"].null_count == 75
    one, other = outcome(known), outcome(blind)
    assert one["weights"] == other["weights"]
    assert one["samples"] == other["samples"]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("steps", [5, 3], ids=["after every epoch", "in mid-epoch"])
def test_interrupted_and_resumed_is_bit_equal(name, steps, tiny, tmp_path, outcome):
    config = tiny(name, data__validation_fraction=0.1, train__gradient_share=True)
    whole = fit(config, tmp_path / "whole")
    pieces, count = run_in_pieces(config, tmp_path / "pieces", steps)
    assert count > 2
    assert outcome(pieces) == outcome(whole)


@pytest.mark.parametrize("name", ALL)
def test_killed_after_every_epoch_resumes_bit_equal(name, tiny, tmp_path, outcome, monkeypatch):
    """A process that is killed after each save resumes from there, epoch by epoch."""

    class DiesError(Exception):
        pass

    def save_and_die(self):
        save(self)
        raise DiesError

    config = tiny(name)
    whole = fit(config, tmp_path / "whole")
    save = loop.Engine.save
    monkeypatch.setattr(loop, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(loop.Engine, "save", save_and_die)
    with pytest.raises(DiesError):
        fit(config, tmp_path / "killed")
    for _ in range(len(whole.metrics()) - 1):
        with pytest.raises(DiesError):
            resume(tmp_path / "killed")
    assert outcome(resume(tmp_path / "killed")) == outcome(whole)


@pytest.mark.parametrize("name", ALL)
def test_same_seed_same_run_and_other_seed_another(name, tiny, tmp_path, outcome):
    runs = [fit(tiny(name, train__epochs=2, train__seed=seed), tmp_path / str(i)) for i, seed in enumerate((1, 1, 2))]
    first, again, other = map(outcome, runs)
    assert first == again
    assert first["weights"] != other["weights"]


@pytest.mark.parametrize("name", ALL)
def test_configuration_round_trip(name, tiny, tmp_path):
    defaults = {key: parameter.default for key, parameter in options_of(methods.find(name)).items()}
    config = validate(tiny(name, method__options=defaults, train__epochs=1))
    run = fit(config, tmp_path / "run")
    assert run.config() == config
    assert validate(json.loads(config.model_dump_json())) == config
    assert methods.validate_options(name, json.loads(json.dumps(defaults))) == defaults


@pytest.mark.parametrize("name", ALL)
def test_an_epoch_may_be_a_number_of_batches(name, tiny, tmp_path, outcome):
    """A pass is shortened to some of its rows; after an interruption they are the same ones."""
    config = tiny(name, data__epoch={"batches": 2, "balanced": True}, train__batch_size=8)
    whole = fit(config, tmp_path / "whole")
    assert all(np.isfinite(row["loss"]) for row in whole.metrics())
    longest = max(row["num_samples"] for row in fit(tiny(name, train__batch_size=8), tmp_path / "all").metrics())
    assert max(row["num_samples"] for row in whole.metrics()) < longest
    pieces, _ = run_in_pieces(config, tmp_path / "pieces", steps=3)
    assert outcome(pieces) == outcome(whole)


@pytest.mark.parametrize("name", ALL)
def test_a_confirmed_label_stays_what_is_aimed_at(name, tiny, tmp_path):
    trusted = tmp_path / "trusted.csv"
    trusted.write_text("id\n" + "\n".join(map(str, range(0, 75, 3))) + "\n", encoding="utf-8")
    run = fit(tiny(name, data__trusted=str(trusted), train__epochs=8), tmp_path / "run")
    samples = run.samples().to_pylist()
    for number, row in enumerate(samples):
        assert (row["verdict"] == "trusted") == (number % 3 == 0)
        if number % 3 == 0:
            assert (row["quality"], row["suggested"], row["suggested_probability"]) == (1, row["given"], 1)
            assert max(row["target"]) == pytest.approx(row["target"][row["given"]])
            assert row["target"][row["given"]] > 0.99
