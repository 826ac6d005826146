"""Runs that start from the weights of another run."""

import json
import shutil

import numpy as np
import pytest
import torch

from surelabel import api, methods
from surelabel.config import validate
from surelabel.errors import ConfigError, RunError
from surelabel.training import build, warm_start


@pytest.fixture
def first(tiny, tmp_path):
    return api.fit(tiny("cross_entropy"), tmp_path / "first")


def started(tiny, tmp_path, first, method="cross_entropy", **changes):
    """Train with a rate so small that the final weights are the initial ones."""
    settings = tiny(method, train__warm_start=str(first.path), train__epochs=1, optimiser__rate=1e-30, **changes)
    return api.fit(settings, tmp_path / f"second-{method}")


def weights(run):
    from safetensors.torch import load_file

    return load_file(run.weights_file)


def test_networks_start_where_the_other_run_ended(tiny, tmp_path, first):
    before, after = weights(first), weights(started(tiny, tmp_path, first))
    assert all(torch.allclose(after[name], before[name]) for name in before)


def test_another_method_takes_the_same_network(tiny, tmp_path, first):
    before, after = weights(first), weights(started(tiny, tmp_path, first, "co_teaching"))
    assert torch.allclose(after["second.classifier.weight"], before["network.classifier.weight"])


def test_every_method_can_start_from_every_other(first):
    for name in methods.names():
        config = validate({**first.config().model_dump(), "method": {"name": name}})
        given = torch.arange(75) % 3
        task = build.task(config, given, 3, (6,), 0, (torch.zeros(6), torch.ones(6)))
        method = build.method(config, task)
        warm = warm_start.WarmStart("run", weights(first), same_classes=True)
        notes = warm.apply(method)
        state = method.state_dict()
        bodies = [key for key in state if key.endswith("backbone.layers.1.weight")]
        assert bodies
        for key in bodies:
            assert torch.equal(state[key], weights(first)["network.backbone.layers.1.weight"]), name
        assert all("classifier" in note or "indicator" in note for note in notes)


def test_copies_follow_their_network(first):
    """Distances are measured from the start of this run, not of the other one."""
    config = validate({**first.config().model_dump(), "method": {"name": "distance_to_init"}})
    task = build.task(config, torch.arange(75) % 3, 3, (6,), 0, (torch.zeros(6), torch.ones(6)))
    method = build.method(config, task)
    old = {name.replace("network.", "initial."): torch.zeros_like(value) for name, value in weights(first).items()}
    warm_start.WarmStart("run", weights(first) | old, same_classes=True).apply(method)
    assert torch.equal(method.initial.classifier.weight, method.network.classifier.weight)


def test_it_is_applied_once(tiny, tmp_path, first, outcome):
    settings = tiny("elr", train__warm_start=str(first.path))
    whole = api.fit(settings, tmp_path / "whole")
    steps = iter(range(100))
    with pytest.raises(KeyboardInterrupt):
        api.fit(settings, tmp_path / "cut", interrupt=lambda: next(steps) == 6)
    shutil.rmtree(first.path)  # what a run has started from is not needed to go on
    assert outcome(api.resume(tmp_path / "cut")) == outcome(whole)


def test_other_classes_get_a_classifier_of_their_own(tiny, tmp_path, first):
    data = json.loads((first.path / "data.json").read_text())
    data["class_names"] = ["x", "y", "z"]
    first.write_json("data.json", data)
    after = weights(started(tiny, tmp_path, first))
    assert torch.allclose(after["network.backbone.layers.1.weight"], weights(first)["network.backbone.layers.1.weight"])
    assert not torch.allclose(after["network.classifier.weight"], weights(first)["network.classifier.weight"])


def test_what_does_not_fit_is_refused_before_anything_is_written(tiny, tmp_path, first):
    with pytest.raises(ConfigError, match=r"backbone.layers.1.weight is \(8, 6\) here"):
        started(tiny, tmp_path, first, model__options={"widths": [8], "norm": "none"})
    np.savez(tmp_path / "wide.npz", x=np.random.default_rng(0).normal(size=(20, 7)), y=np.arange(20) % 3)
    with pytest.raises(ConfigError, match=r"inputs have the shape \(6,\), but those of this run \(7,\)"):
        started(tiny, tmp_path, first, data__source=str(tmp_path / "wide.npz"))
    with pytest.raises(RunError, match="not a run directory"):
        api.fit(tiny("car", train__warm_start=str(tmp_path)), tmp_path / "third")
    first.weights_file.write_bytes(first.weights_file.read_bytes()[:-10])
    with pytest.raises(RunError, match=r"first/model\.safetensors: differs from its checksum"):
        started(tiny, tmp_path, first)
    assert not (tmp_path / "second-cross_entropy").exists()
    assert not (tmp_path / "third").exists()
