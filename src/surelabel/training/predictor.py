"""Predict with the model of a finished run: new inputs in, probabilities or a table of them out."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surelabel.config import RunConfig
from surelabel.core.tables import TableForm
from surelabel.data import read_inputs
from surelabel.data.cells import Cells
from surelabel.data.corpus import refuse_not_finite
from surelabel.data.encodable import UNENCODED, Encodable, Encoder
from surelabel.data.inputs import Inputs, LazyInputs
from surelabel.data.pictures import Pictures
from surelabel.data.sources.tables import frames
from surelabel.encoding import stored
from surelabel.encoding.features import features_of
from surelabel.errors import RunError
from surelabel.files import replace_csv
from surelabel.runs.locate import config_from_here
from surelabel.runs.run_dir import RECORDED, RunDir
from surelabel.training import build


class TrainedModel:
    """The model of a finished run: raw inputs in, probabilities and tau out.

    A pickle of it holds its weights and no path.
    """

    def __init__(
        self,
        config: RunConfig,
        class_names: tuple[str, ...],
        input_shape: tuple[int, ...],
        given: Tensor,
        weights: dict[str, Tensor],
        device: str = "cpu",
        encoder: Encoder | None = None,
    ) -> None:
        """Build the method and load its weights.

        `given` (N,) are the labels of the training rows: buffers of some methods are as long.
        """
        self.config, self.class_names, self.input_shape = config, class_names, input_shape
        self.device, self.encoder = torch.device(device), encoder
        shape = self.seen_shape = input_shape if encoder is None else (encoder.num_features,)
        scale_shape = (shape[0], *[1] * (len(shape) - 1))
        scale = torch.zeros(scale_shape), torch.ones(scale_shape)
        task = build.task(config, given, len(class_names), shape, config.train.seed, scale, reads_weights=False)
        self.method = build.method(config, replace(task, form=TableForm("topk", 2)))  # tables are not needed
        own = self.method.state_dict()
        wrong = [name for name in own if name not in weights and not name.endswith(".rows")]
        wrong += [name for name, value in weights.items() if name not in own or own[name].shape != value.shape]
        if wrong:
            raise RunError(f"the weights do not fit the run's configuration ({wrong[0]})")
        self.method.load_state_dict(weights, strict=False)
        self._names = tuple(weights)
        self.method.to(self.device).eval()

    @classmethod
    def read(cls, run_dir: RunDir, device: str = "cpu") -> "TrainedModel":
        """Read the model of a run directory."""
        data, config = run_dir.data(), config_from_here(run_dir)
        run_dir.require_done()
        if RECORDED in data and not run_dir.has_model:
            raise RunError(f"{run_dir.path}: recorded by another training loop; it has no model of its own")
        given = torch.from_numpy(run_dir.labels()["given"].to_numpy()[: data["num_train"]].copy())
        shape, whole = tuple(data["input_shape"]), tuple(data.get("stored_shape", data["input_shape"]))
        parts = _with_image_size(config, shape, whole), tuple(data["class_names"]), shape, given
        weights = run_dir.tensors(run_dir.weights_file.name)
        try:
            return cls(*parts, weights, device, stored.read(run_dir))
        except RunError as error:
            raise RunError(f"{run_dir.weights_file}: {error}") from None

    def weights(self) -> dict[str, Tensor]:
        """Return the saved weights: the state of the method without per-sample tables."""
        state = self.method.state_dict()
        return {name: state[name].cpu() for name in self._names}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the parts to build it from: a module would include its per-sample tables."""
        parts = self.config, self.class_names, self.input_shape, self.method.given.cpu(), self.weights()
        return type(self), (*parts, "cpu", self.encoder)

    @torch.no_grad()
    def predict_proba(self, x: Any, batch_size: int = 512) -> np.ndarray:
        """Return (N, K) class probabilities of inputs (N, *input_shape), of texts or of a frame.

        A model that was trained on the features of images takes images of any size.
        """
        return self._sweep(self.method.predict, x, batch_size)

    def predict(self, x: Any, batch_size: int = 512) -> np.ndarray:
        """Return (N,) class names."""
        names: np.ndarray = np.array(self.class_names)[self.predict_proba(x, batch_size).argmax(1)]
        return names

    @torch.no_grad()
    def tau(self, x: Any, batch_size: int = 512) -> np.ndarray | None:
        """Return (N,) tau of raw inputs; None for methods without.

        It says how far training trusts such inputs, and not how likely a prediction is right.
        """
        inputs = self._check(x)
        if not self.has_tau(inputs):
            return None
        return self._sweep(self.method.tau, inputs, batch_size)

    @torch.no_grad()
    def has_tau(self, x: Any) -> bool:
        """Return whether the method says how far it trusts such inputs."""
        inputs = self._check(x)
        return self.method.tau(inputs[torch.arange(min(1, len(inputs)))].to(self.device)) is not None

    def encode(self, x: Any) -> Inputs:
        """Return what the network sees, to predict more than once; slow features are cached."""
        inputs = self._check(x)
        return features_of([inputs])[0] if isinstance(inputs, Encodable) else inputs

    def _check(self, x: Any) -> Inputs:
        if isinstance(x, Encodable):
            return x
        if self.encoder is not None and isinstance(x, LazyInputs | Tensor) and tuple(x.shape[1:]) == self.seen_shape:
            return x  # features that `encode` has made
        if self.encoder is not None and self.encoder.columns and not isinstance(x, LazyInputs | Tensor):
            x = self._as_cells(x, self.encoder)
        inputs = x if isinstance(x, LazyInputs) else torch.as_tensor(x)
        if self.encoder is not None and not self.encoder.columns and not isinstance(inputs, Encodable):
            return Pictures(self._check_images(inputs), self.encoder)
        if tuple(inputs.shape[1:]) != self.input_shape:
            raise ValueError(
                f"inputs must have shape (N, {', '.join(map(str, self.input_shape))}), got {tuple(inputs.shape)}"
            )
        # float64 is the default of NumPy, and networks cannot multiply it with their weights.
        return inputs.float() if isinstance(inputs, Tensor) and inputs.dtype == torch.float64 else inputs

    def _check_images(self, x: Inputs) -> Inputs:
        if len(x.shape) != 4 or x.shape[1] not in (1, 3) or x.dtype != torch.uint8:
            raise ValueError(
                f"inputs must be images (N, C, H, W) of 1 or 3 channels, uint8, got {tuple(x.shape)}, {x.dtype}"
            )
        return x

    def _as_cells(self, x: Any, encoder: Encoder) -> Any:
        """Return texts, or the rows of a frame, as inputs; features are returned as they are."""
        if frames.accepts(x):
            cells, _ = frames.read_inputs(x, self.config.data.model_copy(update=encoder.settings), UNENCODED)
            return cells.with_encoder(encoder) if isinstance(cells, Cells) else cells
        is_text = len(x) and isinstance(next(iter(x)), str)
        return Cells.of_texts(list(x)).with_encoder(encoder) if is_text else x

    def _sweep(self, function: Callable[[Tensor], Any], x: Any, batch_size: int) -> np.ndarray:
        inputs = self._check(x)
        # By positions, because inputs may be larger than memory; no rows make one empty part.
        rows = torch.split(torch.arange(len(inputs)), batch_size)
        return torch.cat([function(inputs[part].to(self.device)).float().cpu() for part in rows]).numpy()


def _with_image_size(config: RunConfig, shape: tuple[int, ...], stored: tuple[int, ...]) -> RunConfig:
    """Add the image size and crop of a named data set, so that new images are treated alike."""
    if shape == stored:
        return config
    window = {"image_size": min(stored[1:]), "crop": shape[1]}
    return config.model_copy(update={"data": config.data.model_copy(update=window)})


FIXED_COLUMNS = ("id", "predicted", "tau")
"""Columns before those of the classes; tau only where the method has one."""


def predictions(model: TrainedModel, source: str) -> dict[str, np.ndarray]:
    """Return the columns id, predicted, tau, and one with the probability of each class."""
    config = model.config.data.model_copy(update={"source": source, "test": None})
    x, ids = read_inputs(config, model.input_shape, model.encoder)
    refuse_not_finite(x, ids, source)
    seen = model.encode(x)
    probability, tau = model.predict_proba(seen), model.tau(seen)
    columns = {"id": ids, "predicted": np.array(model.class_names)[probability.argmax(1)]}
    if tau is not None:
        columns["tau"] = tau
    return columns | {class_column(name): probability[:, number] for number, name in enumerate(model.class_names)}


def class_column(name: str) -> str:
    """Return the name of the class, made distinct from those of the fixed columns."""
    return f"probability of {name}" if name in FIXED_COLUMNS else name


def write_csv(path: Path, columns: dict[str, np.ndarray]) -> None:
    """Write one line per row, numbers with six digits."""
    lines = zip(*columns.values(), strict=True)
    rows = ([f"{value:.6g}" if isinstance(value, np.floating) else value for value in line] for line in lines)
    replace_csv(path, columns, rows)
