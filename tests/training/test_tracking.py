"""Metrics logged to other tools in addition to metrics.jsonl."""

import json
import sys
import types

import pytest

from surelabel import api
from surelabel.console import Silent
from surelabel.errors import ConfigError
from surelabel.training import tracking


@pytest.fixture
def wandb(monkeypatch):
    """Install a fake package of that name that only records calls."""
    calls = []

    class Run:
        def __init__(self, **options):
            self.id = options["id"] or "made-up"
            calls.append(("init", options))

        def log(self, values, step):
            calls.append(("log", step, values))

        def finish(self):
            calls.append(("finish",))

    module = types.ModuleType("wandb")
    module.init, module.__spec__ = Run, types.SimpleNamespace(name="wandb")
    monkeypatch.setitem(sys.modules, "wandb", module)
    return calls


def train(names, tiny, out, **options):
    config = api.make_config(tiny("cross_entropy", train__epochs=3))
    with tracking.tracked(names, out, config, Silent()) as progress:
        return api.fit(config, out, progress=progress, **options)


def test_weights_and_biases(tiny, tmp_path, wandb):
    run = train(["wandb"], tiny, tmp_path / "run")
    assert [call[0] for call in wandb] == ["init", "log", "log", "log", "finish"]
    assert wandb[0][1]["config"]["method"]["name"] == "cross_entropy"
    assert [call[1] for call in wandb[1:4]] == [1, 2, 3]
    assert wandb[3][2]["loss"] == run.metrics()[2]["loss"]
    assert "tests/test/top1" in wandb[3][2]


def test_epochs_of_folds_are_not_logged(tiny, tmp_path, wandb):
    config = api.make_config(tiny("cross_entropy", train__second_opinion=True, train__epochs=3, train__folds=2))
    with tracking.tracked(["wandb"], tmp_path / "run", config, Silent()) as progress:
        run = api.fit(config, tmp_path / "run", progress=progress)
    assert run.second_opinion()["experts"][-1]["name"] == "folds"
    assert [call[1] for call in wandb if call[0] == "log"] == [1, 2, 3]


def test_a_resumed_run_goes_on_where_it_was(tiny, tmp_path, wandb):
    steps = iter(range(100))
    with pytest.raises(KeyboardInterrupt):
        train(["wandb"], tiny, tmp_path / "run", interrupt=lambda: next(steps) == 6)
    assert wandb[-1] == ("finish",)
    config = api.make_config(tiny("cross_entropy", train__epochs=3))
    with tracking.tracked(["wandb"], tmp_path / "run", config, Silent()) as progress:
        api.resume(tmp_path / "run", progress=progress)
    begun = [call[1] for call in wandb if call[0] == "init"]
    assert [options["id"] for options in begun] == [None, "made-up"]
    assert [call[1] for call in wandb if call[0] == "log"] == [1, 2, 3]
    assert json.loads((tmp_path / "run" / "wandb.json").read_text()) == {"id": "made-up"}


def test_tensorboard(tiny, tmp_path):
    pytest.importorskip("tensorboard", reason="the extra `tensorboard` is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = train(["tensorboard"], tiny, tmp_path / "run")
    events = EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    losses = events.Scalars("loss")
    assert [point.step for point in losses] == [1, 2, 3]
    assert [point.value for point in losses] == pytest.approx([row["loss"] for row in run.metrics()])


def test_only_numbers_become_curves():
    row = {"epoch": 1, "stage": "train", "ok": True, "terms": {"loss": 0.5, "deep": {"x": 2}}, "list": [1, 2]}
    assert tracking.flat(row) == {"epoch": 1.0, "terms/loss": 0.5, "terms/deep/x": 2.0}


def test_nothing_asked_for_is_the_progress_itself(tmp_path, tiny):
    progress = Silent()
    with tracking.tracked([], tmp_path, api.make_config(tiny("car")), progress) as same:
        assert same is progress


def test_what_is_missing_is_said_before_training(tmp_path, tiny, monkeypatch):
    config = api.make_config(tiny("car"))
    with pytest.raises(ConfigError, match="--log mlflow: not a known log; available: tensorboard, wandb"):
        tracking.tracked(["mlflow"], tmp_path, config, Silent()).__enter__()
    monkeypatch.setattr(tracking, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"wandb.*surelabel\[wandb\]"):
        tracking.tracked(["wandb"], tmp_path, config, Silent()).__enter__()
