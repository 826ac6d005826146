"""Pretrained backbones: their features, frozen backbones, and a separate learning rate."""

import csv
import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tests.training.listening import Listener

import surelabel
from surelabel.api import Interrupted, make_config
from surelabel.data.pictures import Pictures
from surelabel.encoding import features
from surelabel.encoding.pictures import PictureEncoder
from surelabel.errors import ConfigError, RunError
from surelabel.models import make_backbone
from surelabel.runs.run_dir import ENCODER_TENSORS
from surelabel.training import build
from surelabel.training.cost_estimate import plan

SHAPE, SMALL = (3, 8, 8), {"depth": 10, "width": 1}
MODEL = {"name": "wide_resnet", "options": SMALL}
TIMM, SIDES = "timm:test_efficientnet", (24, 20)
"""A tiny network, and the sides of images for it."""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def images(tmp_path):
    """Write an .npz of tiny images whose class is their colour."""
    return write_images(tmp_path / "images.npz", SHAPE)


def write_images(path, shape):
    rng = np.random.default_rng(0)
    parts = {}
    for suffix, size in (("", 75), ("_test", 30)):
        y = rng.integers(0, 3, size)
        x = rng.integers(0, 120, (size, *shape))
        x[np.arange(size), y] += 120
        parts |= {f"x{suffix}": x.astype(np.uint8), f"y{suffix}": y}
    np.savez(path, **parts)
    return path


@pytest.fixture
def photos(tmp_path):
    """Write the same in a size that a pretrained network may see."""
    return write_images(tmp_path / "photos.npz", (3, *SIDES))


@pytest.fixture
def network(tmp_path):
    """Write a file of weights for TIMM."""
    torch.manual_seed(5)
    save_file(make_backbone(TIMM, (3, 32, 32)).state_dict(), tmp_path / "network.safetensors")
    return tmp_path / "network.safetensors"


@pytest.fixture
def looked(monkeypatch):
    """Return how many pictures a network has looked at, call by call."""
    counts, look = [], PictureEncoder.look

    def listen(self, pixels):
        counts.append(len(pixels))
        return look(self, pixels)

    monkeypatch.setattr(PictureEncoder, "look", listen)
    return counts


def on_features(photos, network, method="car", **model):
    """Make a whole configuration with the features of a network in a file."""
    chosen = {"name": "auto", "options": {}, "features": f"{TIMM}={network}", "feature_size": 32}
    return config(photos, method=method, **{**chosen, **model})


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


class TestFeatures:
    """Of a network in a file, named by the user."""

    def test_car_trains_on_them_and_predicts_raw_images(self, photos, network, looked, tmp_path):
        run = surelabel.fit(on_features(photos, network), tmp_path / "run")
        assert sum(looked) == 105  # training and test rows, once
        assert run.data()["input_shape"] == [3, *SIDES]
        assert run.config().model.train_on == "features"
        network.unlink()  # the run needs nothing else
        model = surelabel.load(tmp_path / "run")
        x, y = inputs_of_test_part(photos)
        probability = model.predict_proba(x)
        assert probability.shape == (30, 3)
        assert (probability.argmax(1) == y).mean() == run.metrics()[-1]["tests"]["test"]["top1"] > 0.8
        assert model.tau(x).shape == (30,)
        assert load_file(run.weights_file)["network.classifier.weight"].shape[0] == 3

    def test_they_are_what_the_backbone_gives_without_augmentation(self, photos, network):
        encoder = PictureEncoder.make(f"{TIMM}={network}", 32)
        backbone = make_backbone(TIMM, (3, 32, 32)).eval()
        backbone.load_state_dict(load_file(network))
        x = torch.from_numpy(inputs_of_test_part(photos)[0])
        large = F.interpolate(x.float(), (32, 32), mode="bicubic", antialias=True)
        mean, std = (torch.tensor(values)[:, None, None] for values in backbone.pixel_scale)
        with torch.no_grad():
            expected = backbone((large / 255 - mean) / std)
        np.testing.assert_allclose(encoder.encode(Pictures(x)), expected, atol=1e-4)

    def test_a_second_run_finds_them(self, photos, network, looked, tmp_path):
        for name, method, rows in (("a", "car", 105), ("b", "cross_entropy", 0)):
            looked.clear()
            surelabel.fit(on_features(photos, network, method), tmp_path / name)
            assert sum(looked) == rows

    @pytest.mark.parametrize(("change", "rows"), [("weights", 105), ("inputs", 2), ("size", 105)])
    def test_other_weights_inputs_or_sizes_are_computed_anew(self, photos, network, looked, tmp_path, change, rows):
        surelabel.fit(on_features(photos, network), tmp_path / "a")
        if change == "weights":
            save_file({k: v + 0.01 if v.is_floating_point() else v for k, v in load_file(network).items()}, network)
        if change == "inputs":
            with np.load(photos) as file:
                content = dict(file)
            content["x"][0, 0, 0, 0] ^= 1
            content["x_test"][0, 0, 0, 0] ^= 1
            np.savez(photos, **content)
        looked.clear()
        surelabel.fit(on_features(photos, network, feature_size=40 if change == "size" else 32), tmp_path / "b")
        assert sum(looked) == rows

    def test_validation_rows_and_hidden_layers(self, photos, network, tmp_path):
        settings = on_features(photos, network, name="mlp", options={"widths": [16]})
        run = surelabel.fit(settings, tmp_path / "run", settings={"data.validation_fraction": 0.2})
        state = load_file(run.weights_file)
        assert state["network.classifier.weight"].shape == (3, 16)
        assert "validation" in run.metrics()[-1]
        x, _ = inputs_of_test_part(photos)
        assert surelabel.load(run).predict_proba(x).shape == (30, 3)

    @pytest.mark.parametrize("stop_after", [3, 10])
    def test_resumes_bit_equal_without_the_file(self, photos, network, looked, tmp_path, outcome, stop_after):
        settings = on_features(photos, network, name="mlp", options={"widths": [16]})
        whole = surelabel.fit(settings, tmp_path / "whole")
        listener = Listener(stop_after)
        with pytest.raises(Interrupted):
            surelabel.fit(settings, tmp_path / "cut", progress=listener, interrupt=listener.interrupt)
        network.unlink()
        assert outcome(surelabel.resume(tmp_path / "cut")) == outcome(whole)

    def test_the_command_line(self, photos, network, done, tmp_path):
        run = tmp_path / "run"
        options = ["--feature-size", 32, "--epochs", 2, "--device", "cpu"]
        done("fit", photos, "--features", f"{TIMM}={network}", *options, "--out", run)
        stored = json.loads((run / "config.json").read_text())["model"]
        expected = {"features": f"{TIMM}={network}", "feature_size": 32, "train_on": "features"}
        assert {name: stored[name] for name in expected} == expected
        done("predict", run, photos, "--out", tmp_path / "p.csv")
        with (tmp_path / "p.csv").open() as file:
            assert len(list(csv.DictReader(file))) == 75

    def test_plan_counts_what_is_not_cached(self, photos, network, tmp_path):
        settings = on_features(photos, network)
        assert plan(settings).feature_rows == 105
        surelabel.fit(settings, tmp_path / "run")
        assert (plan(settings).feature_rows, plan(settings).feature_seconds) == (0, 0)

    def test_large_features_stay_in_their_file(self, photos, network, tmp_path, monkeypatch):
        settings = on_features(photos, network)
        in_memory = surelabel.fit(settings, tmp_path / "a")
        monkeypatch.setattr(features, "IN_MEMORY_BELOW", 100)
        mapped = surelabel.fit(settings, tmp_path / "b")
        assert mapped.metrics()[-1]["tests"] == in_memory.metrics()[-1]["tests"]

    def test_without_a_writable_cache(self, photos, network, looked, tmp_path, monkeypatch):
        monkeypatch.setenv("SURELABEL_CACHE", str(photos))  # a file
        for name in "ab":
            surelabel.fit(on_features(photos, network), tmp_path / name)
        assert sum(looked) == 2 * 105

    def test_features_that_are_not_finite_name_the_row(self, photos, network, tmp_path):
        state = load_file(network)
        name = [name for name in state if name.endswith(".bias")][-1]
        state[name][:] = torch.inf
        save_file(state, network)
        with pytest.raises(ConfigError, match=r"model.features: .*NaN or infinite features for the row"):
            surelabel.fit(on_features(photos, network), tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_augmentation_is_refused(self, photos, network, tmp_path):
        settings = on_features(photos, network)
        with pytest.raises(ConfigError, match=r"train.augment: features are computed once, without augmentation"):
            surelabel.fit(settings, tmp_path / "run", settings={"train.augment": True})
        on_inputs = {"train.augment": True, "model.train_on": "inputs", "model.name": "cnn"}
        assert surelabel.fit(settings, tmp_path / "run", settings=on_inputs).is_done

    @pytest.mark.parametrize("name", ["cnn", "fast_cnn", "timm:resnet18"])
    def test_a_network_for_images_on_them_is_refused(self, photos, network, tmp_path, name):
        with pytest.raises(ConfigError, match=rf"model.name: {name} .*; use auto or mlp, or model.train_on=inputs"):
            surelabel.fit(on_features(photos, network, name=name), tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_beside_a_network_for_images_they_only_judge(self, photos, network, tmp_path):
        settings = on_features(photos, network, name="cnn", train_on="inputs")
        run = surelabel.fit(settings, tmp_path / "run")
        assert run.config().model.train_on == "inputs"
        assert not run.has("encoder.json")
        experts = json.loads((run.path / "second_opinion.json").read_text())["experts"]
        assert "pretrained" in {expert["features"] for expert in experts}

    def test_training_on_features_without_any_is_refused(self, photos, tmp_path):
        settings = {"model.features": "none", "model.train_on": "features"}
        with pytest.raises(ConfigError, match=r"model.train_on: features, .*model.features"):
            surelabel.fit(str(photos), tmp_path / "run", settings=settings)

    def test_an_unknown_name_lists_the_known_ones(self, photos, tmp_path):
        with pytest.raises(ConfigError, match=r"'efficientnet_lite'; did you mean efficientnet_lite\d\?.*wordllama"):
            surelabel.fit(str(photos), tmp_path / "run", features="efficientnet_lite")

    def test_a_run_without_its_backbone_says_so(self, photos, network, tmp_path):
        run = surelabel.fit(on_features(photos, network), tmp_path / "run")
        backbone_file = run.path / ENCODER_TENSORS
        backbone_file.write_bytes(backbone_file.read_bytes()[:-10])
        with pytest.raises(RunError, match=r"encoder\.safetensors: differs from its checksum"):
            surelabel.load(run)
        backbone_file.unlink()
        with pytest.raises(RunError, match=r"encoder\.safetensors"):
            surelabel.load(run)

    def test_a_run_with_another_backbone_says_so(self, photos, network, tmp_path):
        run = surelabel.fit(on_features(photos, network), tmp_path / "run")
        run.write_tensors(ENCODER_TENSORS, {"nosuch": torch.zeros(1)})
        with pytest.raises(RunError, match=r"encoder\.safetensors: does not fit encoder\.json"):
            surelabel.load(run)

    def test_adaptive_car_and_folds(self, photos, network, tmp_path):
        """The method asks for an opinion before training; networks of folds use them too."""
        settings = on_features(photos, network, "adaptive_car")
        run = surelabel.fit(settings, tmp_path / "run", settings={"train.folds": 2})
        experts = json.loads((run.path / "second_opinion.json").read_text())["experts"]
        assert "pretrained" in {expert["features"] for expert in experts}
        assert any("fold" in str(expert) for expert in experts)
        x, y = inputs_of_test_part(photos)
        assert (surelabel.load(run).predict_proba(x).argmax(1) == y).mean() > 0.8


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

    def test_random_weights_are_pointed_out(self, images, tmp_path):
        listener = Listener()
        surelabel.fit(config(images, freeze=True), tmp_path / "run", progress=listener)
        assert any("frozen with random weights" in text for text in listener.said)


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
        surelabel.fit(config(images, weights, freeze=True, backbone_rate=0.1), tmp_path / "run", progress=listener)
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
