"""The training loop: stages, metrics, and how it stops."""

import json
import math

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from surelabel import files
from surelabel.api import Interrupted, fit, resume
from surelabel.config import validate
from surelabel.console import Silent
from surelabel.core import EMA, Method, Pass, Stage, Step, View
from surelabel.core.losses import cross_entropy
from surelabel.data.loader import Loader
from surelabel.engine import distributed
from surelabel.engine import loop as engine_module
from surelabel.engine.loop import Engine, Setup
from surelabel.engine.state_file import read_state
from surelabel.errors import ConfigError, NotFiniteError, RunError
from surelabel.runs.run_dir import RunDir
from surelabel.training import build


class Listens(Silent):
    """Records every report."""

    def __init__(self):
        self.rows, self.warnings, self.steps = [], [], []

    def step(self, epoch, batch, num_batches, _loss):
        self.steps.append((epoch, batch, num_batches))

    def epoch(self, row):
        self.rows.append(row)

    def warn(self, text):
        self.warnings.append(text)


class Plain(Method):
    """Cross entropy of two networks with an average of the first, for tests of stages."""

    def __init__(self, task):
        super().__init__(task)
        self.first, self.second = task.network(), task.network()
        self.average = EMA(self.first, 0.5)
        self.log = []

    def predict(self, x):
        return self.first(x).logits.softmax(1)

    def both(self, batch, _clock):
        terms = {
            n: batch.mean(cross_entropy(getattr(self, n)(batch.x).logits, batch.label)) for n in ("first", "second")
        }
        return Step(terms)

    def only_second(self, batch, clock, **others):
        self.log.append(
            (clock.epoch, clock.step, clock.steps, len(batch.index), {k: len(v.index) for k, v in others.items()})
        )
        return Step({"second": batch.mean(cross_entropy(self.second(batch.x).logits, batch.label))})


@pytest.fixture
def make_engine(tiny, tmp_path):
    """`make_engine(MethodClass, **changes)`: an engine on the blobs."""

    def make(method, progress=None, **changes):
        config = validate(tiny("cross_entropy", **changes))
        corpus, _ = build.corpus(config.data, config.noise, config.train.seed)
        scale = build.normalisation(corpus)

        def make_method(seed):
            task = build.task(config, corpus.train.label, corpus.num_classes, (6,), seed, scale)
            return method(task)

        fabric = distributed.launch(config.train, tmp_path / "run")
        loader = build.loader(config, corpus, fabric.device)
        run_dir = RunDir(tmp_path / "run")
        run_dir.path.mkdir(exist_ok=True)
        first = make_method(config.train.seed)
        return Engine(Setup(config, corpus, first, make_method, loader, run_dir, fabric, progress or Silent()))

    return make


def weights(network):
    return torch.cat([p.detach().flatten().clone() for p in network.parameters()])


def test_a_network_that_a_pass_does_not_train_stays_as_it_is(make_engine):
    class OneOnly(Plain):
        def stages(self):
            return [Stage("train", 2, self.only_second)]

    engine = make_engine(OneOnly)
    before, averaged = weights(engine.method.first), weights(engine.method.average.network)
    second = weights(engine.method.second)
    engine.run()
    assert torch.equal(weights(engine.method.first), before), "weight decay or momentum moved it"
    assert torch.equal(weights(engine.method.average.network), averaged)
    assert int(engine.method.average.updates) == 0
    assert not torch.equal(weights(engine.method.second), second)


def test_average_advances_once_per_step_of_its_network(make_engine):
    class Both(Plain):
        def stages(self):
            return [Stage("train", 2, self.both)]

    engine = make_engine(Both)
    engine.run()
    assert int(engine.method.average.updates) == 2 * 5


def test_reset_initial_and_new(make_engine):
    seen = {}

    class Resets(Plain):
        def remember(self, name):
            return lambda _run: seen.setdefault(name, weights(self.first))

        def stages(self):
            idle = {"rate": 1e-12, "weight_decay": 0}
            return [
                Stage("one", 1, self.both, then=self.remember("one")),
                Stage("two", 1, self.both, reset="initial", **idle, then=self.remember("two")),
                Stage("three", 1, self.both, reset="new", **idle, then=self.remember("three")),
            ]

    engine = make_engine(Resets)
    initial = weights(engine.method.first)
    engine.run()
    assert not torch.allclose(seen["one"], initial)
    torch.testing.assert_close(seen["two"], initial)
    assert not torch.allclose(seen["three"], initial, atol=0.05)
    assert engine.position.finished == ["one", "two", "three"]


def test_a_stage_may_scale_the_runs_rate(make_engine):
    class Slower(Plain):
        def stages(self):
            return [Stage("one", 1, self.both), Stage("two", 1, self.both, rate_factor=0.1)]

    engine = make_engine(Slower)
    engine.run()
    one, two = (row["learning_rate"] for row in engine.history)
    assert two == pytest.approx(0.1 * one)


def test_stage_stops_early_when_stop_returns_true(make_engine):
    class Stops(Plain):
        def stages(self):
            return [Stage("train", 9, self.both, stop=lambda run: len(run.history) >= 3), Stage("more", 1, self.both)]

    engine = make_engine(Stops)
    engine.run()
    assert [row["stage"] for row in engine.history] == ["train"] * 3 + ["more"]
    assert [row["epoch"] for row in engine.history] == [1, 2, 3, 4]


def test_keep_best_ends_with_the_best_epoch(make_engine):
    """With a rate that ruins the network, the epoch with the lowest held-out loss is kept."""

    class Best(Plain):
        def stages(self):
            view = View(torch.arange(0, 75, 5), augment=False)
            return [Stage("train", 6, self.both, keep="best", validate_on=view, rate=3.0)]

    engine = make_engine(Best)
    engine.run()
    losses = [row["stage_validation_loss"] for row in engine.history]
    view = View(torch.arange(0, 75, 5), augment=False)
    now = engine.collect(lambda b: cross_entropy(engine.method.predict(b.x).log(), b.label), view).mean().item()
    assert now == pytest.approx(min(losses), rel=1e-4)
    assert losses[-1] > min(losses)


@pytest.mark.training
def test_accuracy_does_not_jump_where_the_batch_size_leaves_a_small_rest(tmp_path):
    """1,438 rows in batches of 359 left 2, whose step at the full rate ruined every other epoch."""
    settings = {"method": "cross_entropy", "optimiser.schedule": {"kind": "constant"}}
    settings |= {"train.epochs": 6, "train.batch_size": 359, "train.threads": 1, "train.second_opinion": False}
    run = fit("digits", tmp_path / "run", settings=settings)
    accuracy = [row["tests"]["test"]["top1"] for row in run.metrics()]
    assert min(np.diff(accuracy)) > -0.02
    assert accuracy[-1] > 0.95


def test_plan_walks_the_views_it_names(make_engine):
    class Plans(Plain):
        def plan(self, run):
            assert run.clock.epoch == run.history[-1]["stage_epoch"] + 1 if run.history else 1
            rows = torch.randperm(75, generator=run.rng)
            views = {"kept": View(rows[:40]), "rest": View(rows[40:], batch_size=4)}
            return [Pass(self.only_second, views)]

        def stages(self):
            return [Stage("train", 2, self.only_second, plan=self.plan)]

    engine = make_engine(Plans)
    engine.run()
    assert engine.method.log == [(e, s, 3, (13, 13, 14)[s], {"rest": (3, 4, 4)[s]}) for e in (1, 2) for s in range(3)]


def test_term_that_is_not_finite_stops_and_names_it(make_engine, tmp_path, monkeypatch):
    monkeypatch.setattr(engine_module, "SAVE_EVERY", 0.0)

    class Breaks(Plain):
        def breaks(self, batch, clock):
            step = self.both(batch, clock)
            poison = math.inf if (clock.epoch, clock.step) == (2, 1) else 1.0
            return Step({"good": step.terms["first"], "bad": step.terms["second"] * poison})

        def stages(self):
            return [Stage("train", 4, self.breaks)]

    engine = make_engine(Breaks)
    with pytest.raises(
        NotFiniteError, match=r"loss term bad is not finite in epoch 2, batch 2, samples (\w+, ){14}\w+;"
    ) as error:
        engine.run()
    assert "good" not in str(error.value).split("is not finite")[0]
    assert "last saved state is kept; resume with: surelabel resume" in str(error.value)
    assert read_state(engine.setup.run_dir.state_file, torch.device("cpu"))["position"]["epoch"] == 1
    assert all(torch.isfinite(p).all() for p in engine.method.parameters())


def test_late_looks_at_the_loss_give_the_same_error_and_save_nothing(make_engine, monkeypatch):
    """A GPU works ahead of Python, so there the loss is looked at every few steps."""
    monkeypatch.setattr(engine_module, "SAVE_EVERY", 0.0)

    class Breaks(Plain):
        def breaks(self, batch, clock):
            terms = self.both(batch, clock).terms
            poison = math.inf if (clock.epoch, clock.step) == (2, 3) else 1.0
            return Step({"good": terms["first"], "bad": terms["second"] * poison})

        def stages(self):
            return [Stage("train", 4, self.breaks)]

    for every in (2, 100):
        engine = make_engine(Breaks)
        engine.losses.every = every
        with pytest.raises(
            NotFiniteError, match=r"loss term bad is not finite in epoch 2, batch 4, samples (\w+, ){14}\w+;"
        ):
            engine.run()
        assert read_state(engine.setup.run_dir.state_file, torch.device("cpu"))["position"]["epoch"] == 1


class Synchronisations(TorchDispatchMode):
    """Counts the calls that must know values, for which a GPU would be waited for."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function.overloadpacket in (torch.ops.aten._local_scalar_dense, torch.ops.aten.nonzero)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("method", ["car", "cross_entropy", "elr", "adaptive_car"])
def test_steps_wait_for_no_value(tiny, tmp_path, method, monkeypatch):
    seen, train_step = [], Engine._train_step

    def counted(engine, *arguments):
        engine.losses.every = 100
        with Synchronisations() as found:
            train_step(engine, *arguments)
        seen.append(found.count)

    monkeypatch.setattr(Engine, "_train_step", counted)
    fit(tiny(method, train__second_opinion=False), tmp_path / "run")
    assert set(seen) == {0}


def test_clipping_is_per_network(make_engine):
    norms = {}

    class Clips(Plain):
        def stages(self):
            return [Stage("train", 1, self.large)]

        def large(self, batch, clock):
            terms = self.both(batch, clock).terms
            return Step({"first": 100 * terms["first"], "second": 0.01 * terms["second"]})

    engine = make_engine(Clips, optimiser__clip=0.5)
    clip = engine._clip

    def spy(limit):
        clip(limit)
        for name, network in engine.method.networks().items():
            norms[name] = torch.stack([p.grad.norm() for p in network.parameters()]).norm().item()

    engine._clip = spy
    engine.run()
    assert norms["first"] == pytest.approx(0.5, rel=1e-3)
    assert norms["second"] < 0.1, "the small gradient must not be scaled with the large one"


def test_metrics_of_an_epoch(tiny, tmp_path):
    run = fit(tiny("car", data__validation_fraction=0.2, train__gradient_share=True), tmp_path / "run")
    row = run.metrics()[-1]
    assert set(row["terms"]) == {"cace", "penalty"}
    assert row["tests"]["test"].keys() == {"top1"}, "top-5 of three classes says nothing"
    assert 0 <= row["validation"]["top1"] <= 1
    assert row["samples_per_second"] > 0
    assert row["learning_rate"] < run.metrics()[0]["learning_rate"] == 0.05
    assert sum(row["clean_labels"].values()) == pytest.approx(1)
    assert set(row["false_labels"]) == {"correct", "memorised", "other"}
    assert sum(row["false_labels"].values()) == pytest.approx(1)
    assert row["gradient_share"]["clean"] + row["gradient_share"]["false"] == pytest.approx(1)
    assert 0 <= row["correction_accuracy"] <= 1


def test_correction_accuracy_is_of_all_training_rows(tiny, tmp_path):
    """Before any correction targets are the given labels, so it is one minus the noise rate."""
    run = fit(tiny("car", method__options={"correction_start": 4}), tmp_path / "run")
    labels = run.labels()
    share = (labels["given"].to_numpy() == labels["clean"].to_numpy()).mean()
    assert [row["correction_accuracy"] for row in run.metrics()[:3]] == pytest.approx([share] * 3)


def test_held_out_rows_get_a_marked_verdict_from_predictions(tiny, tmp_path):
    run = fit(tiny("car", data__validation_fraction=0.2), tmp_path / "run")
    samples, labels = run.samples().to_pylist(), run.labels().to_pylist()
    assert [row["id"] for row in samples] == [row["id"] for row in labels]
    held_out = [row for row in samples if row["split"] == "validation"]
    assert len(held_out) == 15
    assert len(samples) == 75
    assert {row["verdict"] for row in held_out} == {"prediction"}
    assert {row["verdict"] for row in samples if row["split"] == "train"} == {"training"}
    assert all(row["quality"] == pytest.approx(row["given_probability"]) for row in held_out)
    assert all(row["mean_margin"] is None for row in held_out)


def test_run_directory_is_whole(tiny, tmp_path):
    run = fit(tiny("car"), tmp_path / "run")
    assert {p.name for p in run.path.iterdir()} == {
        "checksums.json", "config.json", "data.json", "done", "env.json", "labels.parquet",
        "lock", "metrics.jsonl", "model.safetensors", "noise.json", "samples.parquet", "second_opinion.json",
        "trajectory.safetensors",
    }  # fmt: skip
    assert run.data()["schema"] == 2
    assert {"torch", "python", "device", "processes", "threads"} <= json.loads(
        (run.path / "env.json").read_text()
    ).keys()
    assert set(run.samples().column_names) >= {
        "id", "prediction", "quality", "p_wrong", "tau", "target", "suggested", "first_learned", "forgotten",
        "mean_margin",
    }  # fmt: skip
    manifest = json.loads((run.path / "noise.json").read_text())
    labels = run.labels()
    realised = (labels["given"].to_numpy() != labels["clean"].to_numpy()).mean()
    assert manifest["realised_rate"] == pytest.approx(realised)


def test_state_is_saved_at_epoch_ends_but_not_too_often(tiny, tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr(Engine, "save", lambda self: saved.append(self.position.epoch))
    fit(tiny("car"), tmp_path / "quick")
    assert saved == [], "epochs of milliseconds are not worth a checkpoint each"
    monkeypatch.setattr(engine_module, "SAVE_EVERY", 0.0)
    fit(tiny("car"), tmp_path / "slow")
    assert saved == [1, 2, 3, 4]


def test_interrupting_says_nothing_is_lost(tiny, tmp_path):
    stops = iter([False] * 7 + [True])
    with pytest.raises(Interrupted):
        fit(tiny("car"), tmp_path / "run", interrupt=lambda: next(stops))
    run = RunDir.open(tmp_path / "run")
    assert not run.is_done
    with pytest.raises(RunError, match="surelabel resume"):
        run.samples()
    with pytest.raises(RunError, match="surelabel resume"):
        fit(tiny("car"), tmp_path / "run")
    assert resume(tmp_path / "run").is_done


def test_changed_data_are_refused_on_resume(tiny, tmp_path, blobs):
    stops = iter([False] * 3 + [True])
    with pytest.raises(Interrupted):
        fit(tiny("car"), tmp_path / "run", interrupt=lambda: next(stops))
    with np.load(blobs) as data:
        np.savez(blobs, **{**data, "x": data["x"] + 1})
    with pytest.raises(RunError, match="data have changed"):
        resume(tmp_path / "run")


def test_warns_of_training_that_is_still_at_chance(tiny, tmp_path):
    listener = Listens()
    options = {"penalty_weight": 1e-6}
    fit(
        tiny("car", train__epochs=20, method__options=options, optimiser__rate=1e-9),
        tmp_path / "run",
        progress=listener,
    )
    assert any("still at chance" in text and "penalty_weight" in text for text in listener.warnings)
    assert len([text for text in listener.warnings if "chance" in text]) == 1


def test_warns_before_training_of_settings_that_cannot_correct(tiny, tmp_path):
    listener = Listens()
    fit(tiny("car", method__options={"correction_start": 99}), tmp_path / "run", progress=listener)
    assert any("never correct" in text and "correction_start=" in text for text in listener.warnings)


def test_progress_receives_every_step_and_epoch(tiny, tmp_path):
    listener = Listens()
    fit(tiny("cross_entropy", train__epochs=2), tmp_path / "run", progress=listener)
    assert listener.steps == [(e, b, 5) for e in (1, 2) for b in range(1, 6)]
    assert [row["epoch"] for row in listener.rows] == [1, 2]


def test_mixed_precision_trains_in_half_and_keeps_state_whole(tiny, tmp_path):
    half = fit(tiny("car", train__precision="bf16-mixed", train__epochs=12), tmp_path / "half")
    full = fit(tiny("car", train__epochs=12), tmp_path / "full")
    losses = [[row["loss"] for row in run.metrics()] for run in (half, full)]
    assert losses[0] != losses[1]
    np.testing.assert_allclose(*losses, atol=0.05)
    for column in ("quality", "tau"):
        assert str(half.samples()[column].type) == "float"


def test_weights_that_are_not_finite_are_never_kept(make_engine, monkeypatch):
    """A gradient that is not finite is noticed before the epoch is saved or the run ends."""
    monkeypatch.setattr(engine_module, "SAVE_EVERY", 0.0)

    class Explodes(Plain):
        def explodes(self, batch, clock):
            terms = self.both(batch, clock).terms
            poison = torch.where(terms["first"] > 0, terms["first"], torch.nan).sqrt() * 0
            last = (clock.epoch, clock.step) == (2, 4)
            root = (self.first.classifier.weight[0, 0] * 0).sqrt() if last else 0.0  # 0, with an infinite gradient
            return Step({"first": terms["first"] + poison + root})

        def stages(self):
            return [Stage("train", 2, self.explodes)]

    engine = make_engine(Explodes)
    with pytest.raises(NotFiniteError, match="weights of first are not finite after epoch 2"):
        engine.run()
    saved = read_state(engine.setup.run_dir.state_file, torch.device("cpu"))
    assert saved["position"]["epoch"] == 1
    assert all(torch.isfinite(v).all() for v in saved["modules"]["method"].values() if v.is_floating_point())


def test_averages_follow_reset_and_best(make_engine):
    """An average is reset or restored together with its network."""

    class Averages(Plain):
        def stages(self):
            view = View(torch.arange(0, 75, 5), augment=False)
            return [
                Stage("one", 2, self.both),
                Stage("two", 5, self.both, reset="initial", keep="best", validate_on=view, rate=3.0),
            ]

        def predict(self, x):
            return self.average(x).logits.softmax(1)

    engine = make_engine(Averages)
    initial = weights(engine.method.average.network)
    begin = engine._begin_stage
    started = {}

    def spy(stage):
        begin(stage)
        started[stage.name] = weights(engine.method.average.network)

    engine._begin_stage = spy
    engine.run()
    assert torch.equal(started["two"], initial)
    losses = [row["stage_validation_loss"] for row in engine.history if row["stage"] == "two"]
    view = View(torch.arange(0, 75, 5), augment=False)
    now = engine.collect(lambda b: cross_entropy(engine.method.predict(b.x).log(), b.label), view).mean().item()
    assert now == pytest.approx(min(losses), rel=1e-4)


def test_last_epoch_is_evaluated_even_if_the_stage_stops_early(make_engine):
    class Stops(Plain):
        def stages(self):
            return [Stage("train", 9, self.both, stop=lambda run: len(run.history) >= 3)]

    engine = make_engine(Stops, train__evaluate_every=2)
    engine.run()
    assert ["tests" in row for row in engine.history] == [False, True, True]


def test_notes_of_a_finished_stage_are_kept(make_engine):
    class Notes(Plain):
        def stages(self):
            return [Stage("train", 2, self.both, then=lambda run: run.note("estimate", 0.25))]

    engine = make_engine(Notes)
    engine.run()
    assert engine.history[-1]["estimates"] == {"estimate": 0.25}
    assert engine.setup.run_dir.metrics()[-1]["estimates"] == {"estimate": 0.25}


def test_memorisation_is_left_out_without_new_predictions(make_engine):
    """If steps return no logits, the record is filled every fifth epoch and in the last."""

    class SaysNothing(Plain):
        def stages(self):
            return [Stage("train", 7, self.both)]

    engine = make_engine(SaysNothing)
    engine.run()
    assert ["given_accuracy" in row for row in engine.history] == [False] * 4 + [True, False, True]


def test_an_imbalanced_set_that_is_learned_is_not_at_chance(tiny, tmp_path, blobs):
    with np.load(blobs) as data:
        rare = np.arange(75) < 7
        y = np.where(rare, 1, 0)
        np.savez(blobs, x=data["x"] + 6 * y[:, None], y=y)
    listener = Listens()
    config = tiny("cross_entropy", train__epochs=30, noise__rate=0.0)
    run = fit(config, tmp_path / "run", progress=listener)
    assert run.metrics()[2]["given_accuracy"] > 0.95
    assert not [text for text in listener.warnings if "chance" in text]


def test_what_may_change_on_resume_and_what_not(tiny, tmp_path):
    stops = iter([False] * 3 + [True])
    with pytest.raises(Interrupted):
        fit(tiny("car"), tmp_path / "run", interrupt=lambda: next(stops))
    with pytest.raises(ConfigError, match=r"train\.epochs cannot be changed on resume; only .*optimiser\.rate"):
        resume(tmp_path / "run", settings={"train.epochs": 9})
    run = resume(tmp_path / "run", settings={"optimiser.rate": 0.001})
    assert run.config().optimiser.rate == 0.001
    assert run.metrics()[-1]["learning_rate"] < 0.001


@pytest.mark.parametrize("setting", ["method.rate", "optimiser.rate"])
def test_divergence_names_the_settings_of_its_stage(setting, tiny, tmp_path):
    """The rate of joint_optimization's first stage is its own; of its second, the run's."""
    config = tiny("joint_optimization", optimiser__rate=1e-3, method__options={"begin": 1})
    name = setting.split(".")[0]
    config[name] = {**config[name], "options": {"rate": 1e30, "begin": 1}} if name == "method" else {"rate": 1e30}
    with pytest.raises(NotFiniteError) as error:
        fit(config, tmp_path / "run")
    advice = str(error.value).split(";")[-1]
    assert f"--set {setting}=... or --set optimiser.clip=5" in advice


def test_a_rate_of_the_method_may_change_on_resume(tiny, tmp_path):
    stops = iter([False] * 3 + [True])
    with pytest.raises(Interrupted):
        fit(tiny("nlnl"), tmp_path / "run", interrupt=lambda: next(stops))
    run = resume(tmp_path / "run", settings={"method.rate": 0.001, "optimiser.clip": 5.0})
    assert run.config().method.options["rate"] == 0.001
    assert run.metrics()[-1]["learning_rate"] == 0.001


def test_crash_while_any_file_is_written_loses_nothing(tiny, tmp_path, monkeypatch, outcome):
    """A run killed in any of its writes continues to the same end, by `fit` or `resume`."""

    class KilledError(BaseException):
        pass

    monkeypatch.setattr(engine_module, "SAVE_EVERY", 0.0)
    config = tiny("car", train__epochs=2)
    whole = outcome(fit(config, tmp_path / "whole"))
    replace = files.replace
    for fatal in range(1, 99):
        out, calls = tmp_path / f"run{fatal}", iter(range(1, 99))

        def dying(path, action, record=None, fatal=fatal, calls=calls):
            if next(calls) == fatal:
                path.with_name(f".{path.name}.1.tmp").write_bytes(b"half")  # what SIGKILL leaves behind
                raise KilledError
            replace(path, action, record)

        monkeypatch.setattr(files, "replace", dying)
        try:
            fit(config, out)
            break
        except KilledError:
            monkeypatch.setattr(files, "replace", replace)
        run = resume(out) if RunDir(out).has_begun else fit(config, out)
        assert outcome(run) == whole, f"after a crash in write {fatal}"
        assert not list(out.glob(".*")), "leftovers"
    assert fatal > 8


def test_batch_is_at_most_the_data(tiny, tmp_path):
    listener = Listens()
    fit(tiny("cross_entropy", train__batch_size=1000, train__epochs=1), tmp_path / "run", progress=listener)
    assert listener.steps == [(1, 1, 1)]


def test_rows_that_a_method_draws_first_are_those_of_its_passes(tiny, tmp_path, monkeypatch):
    """DivideMix in epochs of two batches: looks at the rows of the epoch, and at all in the end."""
    collect, passes = Engine.collect, Loader.passes
    looked_at, trained_on = [], []

    def record_collected(engine, function, view, train_mode=False):
        looked_at.append((engine.position.epoch, engine.loader.rows(view).tolist()))
        return collect(engine, function, view, train_mode)

    def record_trained(loader, views, place, start=0, turn=0):
        rows = [row for view in views.values() for row in loader.rows(view).tolist()]
        trained_on.append((int(place.split("/")[1]), rows))
        return passes(loader, views, place, start, turn)

    monkeypatch.setattr(Engine, "collect", record_collected)
    monkeypatch.setattr(Loader, "passes", record_trained)
    epoch = {"batches": 2, "balanced": True}
    settings = tiny("dividemix", data__epoch=epoch, method__options={"warm_up": 1}, train__batch_size=9)
    fit(settings, tmp_path / "run")
    *divided, (_, at_the_end) = looked_at[: 2 * 3 + 1]
    assert [number for number, _ in divided] == [2, 2, 3, 3, 4, 4]
    assert all(len(rows) == 18 for _, rows in divided)
    assert divided[0][1] != divided[1][1], "each network draws for itself"
    assert at_the_end == list(range(75))
    for number, rows in divided:
        assert any(place == number and set(seen) <= set(rows) for place, seen in trained_on)
