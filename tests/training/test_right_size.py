"""Pretrained networks see images at the size that they were made for, wherever they are used."""

import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import surelabel
from surelabel.console import Silent
from surelabel.exporting.onnx import write_onnx
from surelabel.models import make_backbone
from surelabel.models.network import scale_to
from surelabel.models.timm_models import TimmBackbone

NAME, TINY = "efficientnet_lite0", "timm:test_efficientnet"
SIZES = {NAME: 224, TINY: 160}
ROWS = 10


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def seen(monkeypatch):
    """Return the sides of the images that networks of timm are given."""
    sides, forward = [], TimmBackbone.forward

    def listen(self, x):
        sides.append(tuple(x.shape[2:]))
        return forward(self, x)

    monkeypatch.setattr(TimmBackbone, "forward", listen)
    return sides


def draw(side, seed=0):
    """Draw blurred noise, whose class is its colour."""
    rng = np.random.default_rng(seed)
    y = np.arange(ROWS) % 2
    small = rng.integers(0, 120, (ROWS, 8, 8, 3))
    small[np.arange(ROWS), :, :, y] += 120
    images = [Image.fromarray(x.astype(np.uint8)).resize((side, side + 10 * (side > 64))) for x in small]
    return [np.asarray(image) for image in images], y


def write(folder, kind, seed=0):
    """Write small images as an .npz, or large ones of two sizes as a folder."""
    images, y = draw(32 if kind == "small" else 500, seed)
    folder.mkdir()
    if kind == "small":
        np.savez(folder / "x.npz", x=np.stack(images).transpose(0, 3, 1, 2), y=y)
        return folder / "x.npz"
    for number, (image, label) in enumerate(zip(images, y, strict=True)):
        (folder / "ab"[label]).mkdir(exist_ok=True)
        Image.fromarray(image[: 500 - number]).save(folder / "ab"[label] / f"{number}.jpg", quality=95)
    return folder


@pytest.fixture
def weights(tmp_path):
    torch.manual_seed(0)
    save_file(make_backbone(TINY, (3, 160, 160)).state_dict(), tmp_path / "w.safetensors")
    return str(tmp_path / "w.safetensors")


def settings(how, weights, **more):
    model = {"name": TINY, "weights": weights} if how == "fine-tuned" else {"features": how}
    train = {"epochs": 1, "batch_size": 5, "threads": 1, "device": "cpu", "augment": False}
    return {"model": {**model, **more}, "train": train}


class Said(Silent):
    def __init__(self):
        self.texts = []

    def warn(self, text):
        self.texts.append(text)


@pytest.mark.parametrize("kind", ["small", "large"])
@pytest.mark.parametrize(("how", "size"), [(NAME, 224), ("fine-tuned", 160)])
class TestItsOwn:
    def test_in_training_prediction_and_audit(self, tmp_path, seen, weights, done, kind, how, size):
        source, new = write(tmp_path / "train", kind), write(tmp_path / "new", kind, seed=1)
        run = surelabel.fit(str(source), tmp_path / "run", settings=settings(how, weights))
        assert set(seen) == {(size, size)}
        seen.clear()
        done("predict", run.path, new, "--out", tmp_path / "p.csv")
        assert set(seen) == {(size, size)}
        seen.clear()
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)  # has the features of these pictures by now
        assert len(surelabel.audit(run, data=str(new))) == ROWS
        assert set(seen) == {(size, size)}

    def test_is_not_smaller_on_disk_than_files_are(self, tmp_path, weights, kind, how, size):
        """Small ones are kept as they are; large ones are not reduced to the usual 64 pixels."""
        run = surelabel.fit(str(write(tmp_path / "train", kind)), tmp_path / "run", settings=settings(how, weights))
        expected = 32 if kind == "small" else 64 if how == NAME else size
        assert run.data()["input_shape"] == [3, expected, expected]


@pytest.mark.parametrize("how", [NAME, "fine-tuned"])
class TestAnother:
    def test_is_chosen_by_feature_size(self, tmp_path, seen, weights, how):
        source = write(tmp_path / "train", "small")
        run = surelabel.fit(str(source), tmp_path / "run", settings=settings(how, weights, feature_size=48))
        surelabel.load(run).predict_proba(np.zeros((2, 3, 32, 32), dtype=np.uint8))
        assert set(seen) == {(48, 48)}

    @pytest.mark.parametrize("is_small", [True, False])
    def test_below_half_of_its_own_there_is_a_warning(self, tmp_path, weights, how, is_small):
        size, said = SIZES.get(how, 160) // 2 - is_small, Said()
        source = write(tmp_path / "train", "small")
        surelabel.fit(str(source), tmp_path / "r", settings=settings(how, weights, feature_size=size), progress=said)
        found = [text for text in said.texts if "model.feature_size" in text]
        assert len(found) == is_small
        assert all(f"made for images of {SIZES.get(how, 160)} pixels" in text for text in found)


def test_image_size_and_crop_are_the_users(tmp_path, seen, weights):
    """Who says how large images are gets them so, as in the papers' recipes."""
    config = {**settings("fine-tuned", weights), "data.image_size": 64}
    surelabel.fit(str(write(tmp_path / "train", "large")), tmp_path / "run", settings=config)
    assert set(seen) == {(64, 64)}


def test_random_weights_have_no_size_of_their_own(tmp_path, seen):
    config = settings("fine-tuned", None)
    surelabel.fit(str(write(tmp_path / "train", "small")), tmp_path / "run", settings=config)
    assert set(seen) == {(32, 32)}


def test_a_reloaded_run_predicts_the_same(tmp_path, weights):
    """The probabilities at the end of training are those of the reloaded run, bit by bit."""
    source = write(tmp_path / "train", "small")
    x = np.load(source)["x"]
    for how in (NAME, "fine-tuned"):
        run = surelabel.fit(str(source), tmp_path / how, settings=settings(how, weights))
        first = surelabel.load(run).predict_proba(x)
        assert np.array_equal(surelabel.load(run).predict_proba(x), first)
        (samples, predicted) = run.samples(), first.argmax(1)
        assert samples["prediction"].to_pylist() == predicted.tolist()


@pytest.mark.parametrize("kind", ["small", "large"])
def test_files_are_predicted_as_in_training(tmp_path, kind):
    """The same pictures give the same probabilities in the run and by the command predict."""
    source = write(tmp_path / "train", kind)
    run = surelabel.fit(str(source), tmp_path / "run", settings=settings(NAME, None, feature_size=64))
    from surelabel.training.predictor import predictions

    found = predictions(surelabel.load(run), str(source))
    by_id = dict(zip(found["id"], found["predicted"], strict=True))
    names = run.data()["class_names"]
    samples = run.samples()
    expected = {
        row: names[number] for row, number in zip(*(samples[n].to_pylist() for n in ("id", "prediction")), strict=True)
    }
    assert by_id == expected


@pytest.mark.training
@pytest.mark.parametrize("how", [NAME, "fine-tuned"])
def test_the_onnx_file_takes_images_of_the_size_that_it_says(tmp_path, weights, how):
    onnxruntime = pytest.importorskip("onnxruntime")
    source = write(tmp_path / "train", "small")
    run = surelabel.fit(str(source), tmp_path / "run", settings=settings(how, weights, feature_size=64))
    model = surelabel.load(run)
    assert write_onnx(model, tmp_path / "m.onnx") < 1e-4
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    side = 64 if how == NAME else 32  # that of the network; a network that is fine-tuned scales them itself
    assert session.get_inputs()[0].shape[1:] == [3, side, side]
    x = torch.from_numpy(np.load(source)["x"])
    scaled = scale_to(x.float(), side).round().clamp(0, 255).to(torch.uint8)
    found = session.run(None, {"x": scaled.numpy()})[0]
    np.testing.assert_allclose(found, model.predict_proba(scaled), atol=1e-4)
    np.testing.assert_allclose(found, model.predict_proba(x), atol=0.1)
    assert json.loads(session.get_modelmeta().custom_metadata_map["class_names"]) == list(model.class_names)
