"""Export the model of a finished run as an ONNX file that maps raw inputs to probabilities.

    write_onnx(surelabel.load("runs/mine"), Path("mine.onnx"))

The input `x` takes any number of rows, not normalised: images (N, C, H, W) uint8 or features (N, D)
float32. The outputs are `probability` (N, K) and, if the method has it, `tau` (N,). The metadata of
the file contain the class names, as a JSON list under class_names. A run on pretrained
features takes images of the size that the network sees, and one that fine-tunes a network scales
them in the file.
"""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from surelabel.data.pictures import in_colour
from surelabel.encoding.pictures import PictureEncoder
from surelabel.errors import ConfigError, RunError
from surelabel.files import replace
from surelabel.training.predictor import TrainedModel

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
MAX_DIFFERENCE = 1e-4
"""The file is kept only if both models' outputs on random inputs agree to within this."""
_NUM_ROWS = 3


class _ExportedModel(nn.Module):
    """The computation from raw inputs to the outputs of the file."""

    def __init__(self, model: TrainedModel, has_tau: bool) -> None:
        super().__init__()
        self.method, self.has_tau = model.method, has_tau
        self.extractor = model.encoder.extractor if isinstance(model.encoder, PictureEncoder) else None

    def forward(self, x: Tensor) -> Any:
        seen = x if self.extractor is None else self.extractor(in_colour(x))
        probability = self.method.predict(seen).float()
        if not self.has_tau:
            return probability
        tau = self.method.tau(seen)
        assert tau is not None
        return probability, tau.float()


def write_onnx(model: TrainedModel, path: Path) -> float:
    """Write the file and return its largest difference to the model, measured by onnxruntime."""
    _check(path)
    x = _random_inputs(model)
    with torch.no_grad():
        exported = _ExportedModel(model, model.has_tau(x)).eval()
        expected = exported(x.to(model.device))
    differences = []

    def write(temporary: Path) -> None:
        _convert(exported, x.to(model.device), temporary, model.class_names)
        differences.append(_difference(temporary, x, expected))

    replace(path, write)
    return differences[0]


def _check(path: Path) -> None:
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ConfigError(f"--onnx needs {', '.join(missing)}: pip install 'surelabel[export]'")
    if path.suffix != ".onnx" or path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"--onnx {path}: expected FILE.onnx in a folder that exists")


def _random_inputs(model: TrainedModel) -> Tensor:
    """Return three random inputs (3, ...): uniform pixels or normally distributed features.

    A pretrained network gets images of its own size, whatever the size of those of the run.
    """
    rng = np.random.default_rng(0)
    side = model.encoder.known.size if isinstance(model.encoder, PictureEncoder) else None
    shape = (_NUM_ROWS, *(model.input_shape if side is None else (3, side, side)))
    if len(shape) == 4:
        return torch.from_numpy(rng.integers(0, 256, shape, dtype=np.uint8))
    return torch.from_numpy(rng.normal(size=shape).astype(np.float32))


def _convert(model: _ExportedModel, x: Tensor, path: Path, class_names: tuple[str, ...]) -> None:
    import onnx

    names = ["probability", "tau"][: 2 if model.has_tau else 1]
    with _quiet():
        torch.onnx.export(
            model,
            (x,),
            str(path),
            dynamo=True,
            input_names=["x"],
            output_names=names,
            dynamic_shapes={"x": {0: torch.export.Dim("rows", min=1)}},
            external_data=False,
            verbose=False,
        )
    made = onnx.load(str(path))
    onnx.helper.set_model_props(made, {"class_names": json.dumps(list(class_names))})
    onnx.save(made, str(path))


def _difference(path: Path, x: Tensor, expected: Any) -> float:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": x.numpy()})
    wanted = expected if isinstance(expected, tuple) else (expected,)
    largest = max(float(np.abs(a - b.cpu().numpy()).max()) for a, b in zip(found, wanted, strict=True))
    if not largest <= MAX_DIFFERENCE:
        raise RunError(f"{path.name}: differs by {largest:.2g} from the model, more than {MAX_DIFFERENCE:g}; not kept")
    return largest


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's messages about its internals, which users cannot act on."""
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)
