"""Trained models as ONNX files."""

import json

import numpy as np
import pytest

from surelabel import api
from surelabel.errors import ConfigError
from surelabel.exporting import onnx

REASON = "the extra `export` (onnx, onnxscript, onnxruntime) is not installed"


@pytest.fixture(scope="module")
def packages():
    for name in onnx.PACKAGES:
        pytest.importorskip(name, reason=REASON)


def run_onnx(path, x):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    props = session.get_modelmeta().custom_metadata_map
    return dict(zip(names, session.run(None, {"x": x}), strict=True)), json.loads(props["class_names"])


@pytest.mark.training
@pytest.mark.usefixtures("packages")
class TestFile:
    def test_features_with_tau(self, tiny, tmp_path):
        model = api.load(api.fit(tiny("car"), tmp_path / "run"))
        difference = onnx.write_onnx(model, tmp_path / "m.onnx")
        x = np.random.default_rng(1).normal(size=(50, 6)).astype(np.float32) * 3
        found, names = run_onnx(tmp_path / "m.onnx", x)
        assert difference < 1e-5
        assert np.abs(found["probability"] - model.predict_proba(x)).max() < 1e-5
        assert np.abs(found["tau"] - model.tau(x)).max() < 1e-5
        assert names == ["0", "1", "2"]
        assert [path.name for path in tmp_path.glob("*onnx*")] == ["m.onnx"]

    def test_two_networks_without_tau(self, tiny, tmp_path):
        model = api.load(api.fit(tiny("co_teaching", train__epochs=1), tmp_path / "run"))
        onnx.write_onnx(model, tmp_path / "m.onnx")
        x = np.zeros((1, 6), dtype=np.float32)
        found, _ = run_onnx(tmp_path / "m.onnx", x)
        assert list(found) == ["probability"]
        assert np.abs(found["probability"] - model.predict_proba(x)).max() < 1e-5

    def test_images(self, tmp_path):
        x = np.random.default_rng(0).integers(0, 256, (24, 3, 16, 16), dtype=np.uint8)
        settings = {"model": "resnet18", "train.epochs": 1, "train.threads": 1, "train.device": "cpu"}
        model = api.load(api.fit((x, np.arange(24) % 2), tmp_path / "run", settings=settings))
        onnx.write_onnx(model, tmp_path / "m.onnx")
        found, _ = run_onnx(tmp_path / "m.onnx", x[:5])
        assert np.abs(found["probability"] - model.predict_proba(x[:5])).max() < 1e-5

    def test_a_place_that_cannot_be_written(self, tiny, tmp_path):
        model = api.load(api.fit(tiny("cross_entropy", train__epochs=1), tmp_path / "run"))
        for path in (tmp_path / "no" / "m.onnx", tmp_path / "m.bin"):
            with pytest.raises(ConfigError, match=r"expected FILE\.onnx in a folder that exists"):
                onnx.write_onnx(model, path)


def test_missing_packages_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx, "find_spec", lambda _: None)
    with pytest.raises(
        ConfigError, match=r"--onnx needs onnx, onnxscript, onnxruntime: pip install 'surelabel\[export\]'"
    ):
        onnx.write_onnx(None, tmp_path / "m.onnx")
