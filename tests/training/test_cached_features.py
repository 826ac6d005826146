"""Pretrained backbones: cached features, frozen backbones, and a separate learning rate."""

import csv
import json
import re

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import surelabel
from surelabel import cli
from surelabel.api import Interrupted, make_config
from surelabel.console import Silent
from surelabel.errors import ConfigError, RunError
from surelabel.models import make_backbone
from surelabel.runs.run_dir import RunDir
from surelabel.training import build, cached_features

SHAPE, SMALL = (3, 8, 8), {"depth": 10, "width": 1}
MODEL = {"name": "wide_resnet", "options": SMALL}


class Listener(Silent):
    """Keeps the messages, and stops a run after some steps."""

    def __init__(self, stop_after=None):
        self.said, self.steps, self.stop_after = [], 0, stop_after

    def step(self, *_):
        self.steps += 1

    def warn(self, text):
        self.said.append(text)

    def interrupt(self):
        return self.steps == self.stop_after

    @property
    def computed(self):
        """Return how often features were computed."""
        return sum("computing the features" in text for text in self.said)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def images(tmp_path):
    """Write an .npz of tiny images whose class is their colour."""
    rng = np.random.default_rng(0)
    parts = {}
    for suffix, size in (("", 75), ("_test", 30)):
        y = rng.integers(0, 3, size)
        x = rng.integers(0, 120, (size, *SHAPE))
        x[np.arange(size), y] += 120
        parts |= {f"x{suffix}": x.astype(np.uint8), f"y{suffix}": y}
    np.savez(tmp_path / "images.npz", **parts)
    return tmp_path / "images.npz"


@pytest.fixture
def weights(tmp_path):
    """Write a file of weights with a foreign classifier."""
    torch.manual_seed(5)
    state = make_backbone("wide_resnet", SHAPE, SMALL).state_dict()
    state["stages.1.norm1.running_mean"] += 0.1
    save_file(state, tmp_path / "weights.safetensors")
    return tmp_path / "weights.safetensors"


def config(images, weights=None, method="car", **model):
    """Make a whole configuration; `model` has fields of that part."""
    return make_config(
        {
            "data": {"source": str(images)},
            "method": {"name": method},
            "noise": {"kind": "symmetric", "rate": 0.2},
            "model": {**MODEL, "weights": None if weights is None else str(weights), **model},
            "train": {"epochs": 3, "batch_size": 16, "threads": 1, "device": "cpu"},
        }
    )


def inputs_of_test_part(images):
    with np.load(images) as file:
        return file["x_test"], file["y_test"]


class TestCachedFeatures:
    def test_car_trains_on_them_and_predicts_raw_images(self, images, weights, tmp_path):
        listener = Listener()
        run = surelabel.fit(config(images, weights, cache_features=True), tmp_path / "run", progress=listener)
        assert listener.computed == 2  # training and test rows
        assert run.data()["input_shape"] == list(SHAPE)
        weights.unlink()  # the run needs nothing else
        model = surelabel.load(tmp_path / "run")
        x, y = inputs_of_test_part(images)
        probability = model.predict_proba(x)
        assert probability.shape == (30, 3)
        assert (probability.argmax(1) == y).mean() == run.metrics()[-1]["tests"]["test"]["top1"] > 0.8
        assert model.tau(x).shape == (30,)
        assert load_file(run.weights_file)["network.classifier.weight"].shape == (3, 64)

    def test_they_are_what_the_backbone_gives_without_augmentation(self, images, weights, tmp_path):
        settings = config(images, weights, cache_features=True)
        raw, _ = build.corpus(settings.data, settings.noise, 0)
        extractor = cached_features.extractor(settings, raw, RunDir(tmp_path / "run"), lambda _: None)
        corpus = cached_features.extract(raw, extractor, settings, lambda _: None)
        network = make_backbone("wide_resnet", SHAPE, SMALL).eval()
        network.load_state_dict(load_file(weights))
        mean, std = build.normalisation(raw)
        with torch.no_grad():
            expected = network((raw.train.x - mean) / std)
        torch.testing.assert_close(corpus.train.x, expected, atol=1e-5, rtol=1e-4)
        assert torch.equal(corpus.train.label, raw.train.label)
        assert corpus.train.input_shape == (64,)
        assert corpus.tests["test"].x.shape == (30, 64)

    def test_a_second_run_finds_them(self, images, weights, tmp_path):
        for name, method, times in (("a", "car", 2), ("b", "cross_entropy", 0)):
            listener = Listener()
            surelabel.fit(config(images, weights, method, cache_features=True), tmp_path / name, progress=listener)
            assert listener.computed == times

    @pytest.mark.parametrize("change", ["weights", "inputs", "options"])
    def test_other_weights_inputs_or_options_are_computed_anew(self, images, weights, tmp_path, change):
        surelabel.fit(config(images, weights, cache_features=True), tmp_path / "a")
        options = SMALL
        if change == "weights":
            save_file({k: v + 0.01 if v.is_floating_point() else v for k, v in load_file(weights).items()}, weights)
        if change == "inputs":
            with np.load(images) as file:
                content = dict(file)
            content["x"][0, 0, 0, 0] ^= 1
            content["x_test"][0, 0, 0, 0] ^= 1
            np.savez(images, **content)
        if change == "options":
            options = {**SMALL, "dropout": 0.5}
        listener = Listener()
        surelabel.fit(config(images, weights, options=options, cache_features=True), tmp_path / "b", progress=listener)
        assert listener.computed == 2

    def test_validation_rows_and_a_head(self, images, weights, tmp_path):
        settings = config(images, weights, cache_features=True, head=[16])
        run = surelabel.fit(settings, tmp_path / "run", settings={"data.validation_fraction": 0.2})
        state = load_file(run.weights_file)
        assert state["network.classifier.weight"].shape == (3, 16)
        assert "validation" in run.metrics()[-1]
        x, _ = inputs_of_test_part(images)
        assert surelabel.load(run).predict_proba(x).shape == (30, 3)

    @pytest.mark.parametrize("stop_after", [3, 10])
    def test_resumes_bit_equal_without_the_file(self, images, weights, tmp_path, outcome, stop_after):
        settings = config(images, weights, cache_features=True, head=[16])
        whole = surelabel.fit(settings, tmp_path / "whole")
        listener = Listener(stop_after)
        with pytest.raises(Interrupted):
            surelabel.fit(settings, tmp_path / "cut", progress=listener, interrupt=listener.interrupt)
        weights.unlink()
        assert outcome(surelabel.resume(tmp_path / "cut")) == outcome(whole)

    @pytest.mark.parametrize("as_one_option", [True, False])
    def test_the_command_line(self, images, weights, tmp_path, as_one_option):
        run = str(tmp_path / "run")
        arguments = ["fit", str(images), "--out", run, "--epochs", "2", "--device", "cpu"]
        if as_one_option:
            arguments += ["--features", f"wide_resnet={weights}"]
        else:
            arguments += ["--model", "wide_resnet", "--set", f"model.weights={weights}"]
            arguments += ["--set", "model.cache_features=true"]
        for setting in ("model.depth=10", "model.width=1"):
            arguments += ["--set", setting]
        result = CliRunner().invoke(cli.app, arguments)
        assert result.exit_code == 0, result.output
        stored = json.loads((tmp_path / "run" / "config.json").read_text())["model"]
        assert (stored["cache_features"], stored["options"]) == (True, SMALL)
        result = CliRunner().invoke(cli.app, ["predict", run, str(images), "--out", str(tmp_path / "p.csv")])
        assert result.exit_code == 0, result.output
        with (tmp_path / "p.csv").open() as file:
            assert len(list(csv.DictReader(file))) in (30, 75, 105)

    def test_features_and_a_model_are_refused_together(self, images):
        result = CliRunner().invoke(cli.app, ["fit", str(images), "--features", "timm:resnet18", "--model", "cnn"])
        assert result.exit_code == 2
        assert "leave out --model" in result.output

    def test_plan_recommends_them_for_few_images(self, images, weights):
        told = "75 images are few"
        plain = ["plan", str(images), "--model", "cnn", "--device", "cpu", "--epochs", "2"]
        result = CliRunner().invoke(cli.app, plain)
        assert told in " ".join(result.output.split())
        features = ["--features", f"wide_resnet={weights}", "--set", "model.depth=10", "--set", "model.width=1"]
        result = CliRunner().invoke(cli.app, ["plan", str(images), "--device", "cpu", "--epochs", "2", *features])
        assert result.exit_code == 0, result.output
        assert told not in " ".join(result.output.split())

    def test_large_features_stay_in_their_file(self, images, weights, tmp_path, monkeypatch):
        settings = config(images, weights, cache_features=True)
        in_memory = surelabel.fit(settings, tmp_path / "a")
        monkeypatch.setattr(cached_features, "IN_MEMORY_BELOW", 100)
        raw, _ = build.corpus(settings.data, settings.noise, 0)
        extractor = cached_features.extractor(settings, raw, RunDir(tmp_path / "b"), lambda _: None)
        assert not isinstance(cached_features.extract(raw, extractor, settings, lambda _: None).train.x, torch.Tensor)
        mapped = surelabel.fit(settings, tmp_path / "b")
        assert mapped.metrics()[-1]["tests"] == in_memory.metrics()[-1]["tests"]

    def test_without_a_writable_cache(self, images, weights, tmp_path, monkeypatch):
        monkeypatch.setenv("SURELABEL_CACHE", str(images))  # a file
        listener = Listener()
        surelabel.fit(config(images, weights, cache_features=True), tmp_path / "run", progress=listener)
        assert listener.computed == 2

    def test_features_that_are_not_finite_name_the_row(self, images, weights, tmp_path):
        state = load_file(weights)
        state["norm.bias"][:] = torch.inf
        save_file(state, weights)
        with pytest.raises(ConfigError, match="NaN or infinite features for the row"):
            surelabel.fit(config(images, weights, cache_features=True), tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_augmentation_is_refused(self, images, weights, tmp_path):
        with pytest.raises(ConfigError, match=r"train.augment: features are computed once, without augmentation"):
            surelabel.fit(
                config(images, weights, cache_features=True), tmp_path / "run", settings={"train.augment": True}
            )

    def test_a_run_without_its_backbone_says_so(self, images, weights, tmp_path):
        run = surelabel.fit(config(images, weights, cache_features=True), tmp_path / "run")
        backbone_file = run.path / cached_features.FILE
        backbone_file.write_bytes(backbone_file.read_bytes()[:-10])
        with pytest.raises(RunError, match=r"features\.safetensors: differs from its checksum"):
            surelabel.load(run)
        backbone_file.unlink()
        with pytest.raises(RunError, match=r"features\.safetensors: not readable: No such file"):
            surelabel.load(run)

    def test_a_run_with_another_backbone_says_so(self, images, weights, tmp_path):
        run = surelabel.fit(config(images, weights, cache_features=True), tmp_path / "run")
        run.write_tensors(cached_features.FILE, {"nosuch": torch.zeros(1)})
        with pytest.raises(RunError, match=r"features\.safetensors: the backbone does not fit the run's configuration"):
            surelabel.load(run)

    def test_random_weights_are_pointed_out(self, images, tmp_path):
        listener = Listener()
        surelabel.fit(config(images, cache_features=True), tmp_path / "run", progress=listener)
        assert any("frozen with random weights" in text for text in listener.said)

    def test_progress_is_told(self, images, weights, tmp_path, monkeypatch):
        monkeypatch.setattr(cached_features, "TELL_EVERY", 0.0)
        monkeypatch.setattr(cached_features, "CHUNK", 32)
        listener = Listener()
        surelabel.fit(config(images, weights, cache_features=True), tmp_path / "run", progress=listener)
        told = [text for text in listener.said if text.startswith("features: ")]
        assert re.fullmatch(r"features: 32 of 75 rows, \d+ s left", told[0])


def body(run):
    """Return the weights of the backbone of a run."""
    prefix = "network.backbone."
    return {k.removeprefix(prefix): v for k, v in load_file(run.weights_file).items() if k.startswith(prefix)}


class TestFreeze:
    def test_neither_weights_nor_statistics_move(self, images, weights, tmp_path):
        run = surelabel.fit(config(images, weights, "cross_entropy", freeze=True), tmp_path / "run")
        after, before = body(run), load_file(weights)
        assert set(after) == set(before)
        assert all(torch.equal(after[name], before[name]) for name in before)
        assert run.metrics()[-1]["loss"] < run.metrics()[0]["loss"]  # the rest does

    def test_without_it_both_move(self, images, weights, tmp_path):
        run = surelabel.fit(config(images, weights), tmp_path / "run")
        after, before = body(run), load_file(weights)
        assert not any(torch.equal(after[name], before[name]) for name in ("norm.weight", "norm.running_mean"))

    @pytest.mark.parametrize("method", ["co_teaching", "elr_plus", "mean_teacher", "dividemix"])
    def test_methods_with_several_networks_and_averages(self, images, weights, tmp_path, method):
        settings = config(images, weights, method, freeze=True)
        run = surelabel.fit(settings, tmp_path / "run")
        before, state = load_file(weights), load_file(run.weights_file)
        bodies = {name.split(".backbone.")[0] for name in state if ".backbone." in name}
        assert len(bodies) >= 2
        for owner in bodies:
            assert all(torch.equal(state[f"{owner}.backbone.{name}"], before[name]) for name in before)

    def test_resumes_bit_equal(self, images, weights, tmp_path, outcome):
        settings = config(images, weights, freeze=True)
        whole = surelabel.fit(settings, tmp_path / "whole")
        listener = Listener(7)
        with pytest.raises(Interrupted):
            surelabel.fit(settings, tmp_path / "cut", progress=listener, interrupt=listener.interrupt)
        assert outcome(surelabel.resume(tmp_path / "cut")) == outcome(whole)


class TestBackboneRate:
    def test_a_small_factor_moves_the_backbone_less(self, images, weights, tmp_path):
        before, moved = load_file(weights), {}
        for factor in (1.0, 0.01):
            run = surelabel.fit(
                config(images, weights, "cross_entropy", backbone_rate=factor), tmp_path / f"run{factor}"
            )
            after = body(run)
            moved[factor] = sum(float((after[n] - before[n]).abs().sum()) for n in before if n.endswith("weight"))
        assert 0 < moved[0.01] < 0.1 * moved[1.0]

    def test_resumes_bit_equal(self, images, weights, tmp_path, outcome):
        settings = config(images, weights, backbone_rate=0.1)
        whole = surelabel.fit(settings, tmp_path / "whole")
        listener = Listener(7)
        with pytest.raises(Interrupted):
            surelabel.fit(settings, tmp_path / "cut", progress=listener, interrupt=listener.interrupt)
        assert outcome(surelabel.resume(tmp_path / "cut")) == outcome(whole)

    def test_of_a_frozen_backbone_is_pointed_out(self, images, weights, tmp_path):
        listener = Listener()
        surelabel.fit(
            config(images, weights, cache_features=True, backbone_rate=0.1), tmp_path / "run", progress=listener
        )
        assert "model.backbone_rate has no effect on a backbone that is frozen" in listener.said


class TestWeights:
    def test_loading_a_run_does_not_need_the_file(self, images, weights, tmp_path):
        run = surelabel.fit(config(images, weights), tmp_path / "run")
        weights.unlink()
        x, y = inputs_of_test_part(images)
        assert (surelabel.load(run).predict_proba(x).argmax(1) == y).mean() == run.metrics()[-1]["tests"]["test"][
            "top1"
        ]

    def test_what_was_not_used_is_said_once(self, images, tmp_path):
        state = make_backbone("resnet18", SHAPE, {"stem": "large"}).state_dict()
        torch.save(state | {"fc.weight": torch.zeros(2, 512)}, tmp_path / "a.pth")
        listener = Listener()
        surelabel.fit(
            config(images, tmp_path / "a.pth", "co_teaching", name="resnet18", options={"stem": "large"}, freeze=True),
            tmp_path / "run",
            settings={"train.epochs": 1},
            progress=listener,
        )
        assert [text for text in listener.said if "classifier is not used" in text] == [
            f"{tmp_path / 'a.pth'}: its classifier is not used (fc.weight)"
        ]

    def test_inputs_are_normalised_as_the_weights_expect(self, images, tmp_path):
        torch.save(make_backbone("resnet18", SHAPE, {"stem": "large"}).state_dict(), tmp_path / "a.pth")
        settings = config(images, tmp_path / "a.pth", name="resnet18", options={"stem": "large"})
        network = build.NetworkFactory(settings.model, SHAPE, 3, 0, torch.zeros(3, 1, 1), torch.ones(3, 1, 1))()
        torch.testing.assert_close(network.mean.flatten(), 255 * torch.tensor([0.485, 0.456, 0.406]))
        torch.testing.assert_close(network.std.flatten(), 255 * torch.tensor([0.229, 0.224, 0.225]))
        by_data = settings.model.model_copy(update={"normalise_as": "data"})
        network = build.NetworkFactory(by_data, SHAPE, 3, 0, torch.full((3, 1, 1), 7.0), torch.ones(3, 1, 1))()
        assert network.mean.flatten().tolist() == [7, 7, 7]

    def test_a_file_that_is_not_there_is_found_before_anything_starts(self, images, tmp_path):
        with pytest.raises(ConfigError, match=r"model.weights: .*no\.pth: no such file"):
            surelabel.fit(config(images, tmp_path / "no.pth"), tmp_path / "run")
        assert not (tmp_path / "run").exists()


@pytest.mark.training
def test_the_fast_network_resumes_bit_equal(images, tmp_path, outcome):
    """Weights in another memory format come back unchanged from a checkpoint."""
    settings = config(images, name="fast_cnn", options={"widths": [8, 16]})
    whole = surelabel.fit(settings, tmp_path / "whole")
    again = surelabel.fit(settings, tmp_path / "again")
    assert outcome(again) == outcome(whole)
    listener = Listener(7)
    with pytest.raises(Interrupted):
        surelabel.fit(settings, tmp_path / "cut", progress=listener, interrupt=listener.interrupt)
    assert outcome(surelabel.resume(tmp_path / "cut")) == outcome(whole)
