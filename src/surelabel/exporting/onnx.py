"""The model of a finished run as an ONNX file: raw inputs in, probabilities out, and tau where the method has one.

    write_onnx(surelabel.load("runs/mine"), Path("mine.onnx"))

The input `x` has a free number of rows: (rows, C, H, W) uint8 images or (rows, D) float32 features, not normalised. The outputs are
`probability` (rows, K) and `tau` (rows,). The file's metadata names the classes, as a JSON list under class_names.
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

from surelabel.errors import ConfigError, RunError
from surelabel.files import replace
from surelabel.training.predictor import TrainedModel

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
LARGEST_DIFFERENCE = 1e-4
"""Between both models' probabilities on random inputs, over which the file is not kept."""
_NUM_ROWS = 3


class _Whole(nn.Module):
    """Everything between raw inputs and what a user reads."""

    def __init__(self, model: TrainedModel, has_tau: bool) -> None:
        super().__init__()
        self.method, self.extractor, self.has_tau = model.method, model.extractor, has_tau

    def forward(self, x: Tensor) -> Any:
        seen = x if self.extractor is None else self.extractor(x)
        probability = self.method.predict(seen).float()
        if not self.has_tau:
            return probability
        tau = self.method.tau(seen)
        assert tau is not None
        return probability, tau.float()


def write_onnx(model: TrainedModel, path: Path) -> float:
    """Write the file whole, or not at all; gives the largest difference to the model itself, measured by onnxruntime."""
    _check(path)
    x = _examples(model)
    with torch.no_grad():
        whole = _Whole(model, has_tau=model.method.tau(model.seen(x[:1])) is not None).eval()
        expected = whole(x.to(model.device))
    differences = []

    def write(temporary: Path) -> None:
        _convert(whole, x.to(model.device), temporary, model.class_names)
        differences.append(_difference(temporary, x, expected))

    replace(path, write)
    return differences[0]


def _check(path: Path) -> None:
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ConfigError(f"--onnx needs {', '.join(missing)}: pip install 'surelabel[export]'")
    if path.suffix != ".onnx" or path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"--onnx {path}: expected FILE.onnx in a folder that exists")


def _examples(model: TrainedModel) -> Tensor:
    """(3, ...) random inputs: pixels, or features of a normal distribution."""
    rng = np.random.default_rng(0)
    shape = (_NUM_ROWS, *model.input_shape)
    if len(model.input_shape) == 3:
        return torch.from_numpy(rng.integers(0, 256, shape, dtype=np.uint8))
    return torch.from_numpy(rng.normal(size=shape).astype(np.float32))


def _convert(whole: nn.Module, x: Tensor, path: Path, class_names: tuple[str, ...]) -> None:
    import onnx

    names = ["probability", "tau"][: 2 if getattr(whole, "has_tau", False) else 1]
    with _quiet():
        torch.onnx.export(
            whole,
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
    if not largest <= LARGEST_DIFFERENCE:
        raise RunError(
            f"{path.name}: differs by {largest:.2g} from the model, more than {LARGEST_DIFFERENCE:g}; not kept"
        )
    return largest


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter's remarks on its own workings are nothing that a user could act upon."""
    log = logging.getLogger("torch.onnx")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)
