"""Start networks from a finished run, for example to train again after its labels were cleaned.

A network takes the weights of the network with the same name, else of `network`, else of the first
one. Averages and other copies of a network take the same weights as the network. The classifier is
reused only for the same list of classes, and the indicator only if both runs have one. Stages that
reset weights draw them from the seed as always. No code of the run is executed: only its JSON and
safetensors files are read.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from surelabel.config import ModelConfig, RunConfig
from surelabel.core.method import Method
from surelabel.errors import ConfigError
from surelabel.runs.run_dir import RunDir
from surelabel.training.pretrained import FEATURES

_CLASSIFIER = ".classifier."
"""Part of the names of weights that every network has; a linear one has no backbone weights."""
_DEFAULT_NAME = "network"


@dataclass(frozen=True)
class WarmStart:
    """Weights of a finished run to start the networks of a new one from."""

    path: str
    weights: dict[str, Tensor]
    same_classes: bool

    @torch.no_grad()
    def apply(self, method: Method) -> list[str]:
        """Copy the weights into the networks of the method, and return notes for the user."""
        own = method.state_dict()
        sources, fresh = self._sources(method, own), set()
        for name, value in own.items():
            prefix = next((p for p in sources if name.startswith(f"{p}.")), None)
            if prefix is None or name.endswith(".rows"):  # a per-sample table
                continue
            part = name.removeprefix(f"{prefix}.")
            found = self.weights.get(f"{sources[prefix]}.{part}")
            if self._check_reusable(part, found, value):
                value.copy_(found)  # state_dict shares its memory with the method
            else:
                fresh.add(part.partition(".")[0])
        return [f"{self.path}: not reused: {', '.join(sorted(fresh))}"] if fresh else []

    def _sources(self, method: Method, own: dict[str, Tensor]) -> dict[str, str]:
        """Map the prefix of each of our networks to that of the network it starts from."""
        ours, theirs, networks = prefixes(own), prefixes(self.weights), set(method.networks())
        default = _DEFAULT_NAME if _DEFAULT_NAME in theirs else theirs[0]
        by_name = {prefix: prefix if prefix in theirs else default for prefix in ours if prefix in networks}
        copies = {prefix: _find_original(prefix, by_name, own) for prefix in ours if prefix not in networks}
        return by_name | {prefix: by_name.get(source or "", default) for prefix, source in copies.items()}

    def _check_reusable(self, part: str, found: Tensor | None, value: Tensor) -> bool:
        """Return whether to reuse a weight; raise ConfigError if the backbones differ."""
        if found is not None and found.shape == value.shape:
            return self.same_classes or not part.startswith("classifier.")
        if part.startswith(("classifier.", "indicator.")):
            return False
        kind = "there is no such part" if found is None else f"it is {tuple(found.shape)} there"
        raise ConfigError(
            f"train.warm_start: {self.path}: its network differs: {part} is {tuple(value.shape)} here and {kind}; "
            "choose the same model and options"
        )


def train_as_long(config: RunConfig) -> tuple[RunConfig, str | None]:
    """Return the configuration, with the epochs of the run it starts from unless it has its own.

    A note says so if that changes the epochs.
    """
    place = config.train.warm_start
    if place is None or "epochs" in config.train.model_fields_set:
        return config, None
    before = RunDir.open(Path(place)).config().train.epochs
    if before == config.train.epochs:
        return config, None
    train = config.train.model_copy(update={"epochs": before})
    return config.model_copy(update={"train": train}), f"training for {before} epochs, as {place} was"


def read(config: RunConfig, class_names: tuple[str, ...], input_shape: tuple[int, ...]) -> WarmStart | None:
    """Read the run that `train.warm_start` names; None if it names none."""
    if config.train.warm_start is None:
        return None
    run = RunDir.open(Path(config.train.warm_start))
    run.require_done()
    data, before = run.data(), run.config()
    if FEATURES in (before.model.train_on, config.model.train_on):
        _require_equal(run.path, "network was trained on", _trained_on(before.model), _trained_on(config.model))
    else:
        _require_equal(run.path, "inputs have the shape", tuple(data["input_shape"]), tuple(input_shape))
    weights = run.tensors(run.weights_file.name)
    if not prefixes(weights):
        raise ConfigError(f"train.warm_start: {run.path}: holds no network to start from")
    return WarmStart(str(run.path), weights, tuple(data["class_names"]) == tuple(class_names))


def _trained_on(model: ModelConfig) -> str:
    if model.train_on != FEATURES:
        return model.train_on
    size = "" if model.feature_size is None else f" at {model.feature_size} pixels"
    return f"the features of {model.features}{size}"


def prefixes(state: dict[str, Tensor]) -> list[str]:
    """Return the sorted prefixes of the names of each network's weights."""
    return sorted({name.partition(_CLASSIFIER)[0] for name in state if _CLASSIFIER in name})


def _find_original(copy: str, networks: dict[str, str], own: dict[str, Tensor]) -> str | None:
    """Return the network that a copy was made from: the one with equal weights."""
    values = {name.removeprefix(copy): value for name, value in own.items() if name.startswith(f"{copy}.")}
    for network in networks:
        if all(torch.equal(own[network + name], value) for name, value in values.items() if network + name in own):
            return network
    return None


def _require_equal(path: Path, what: str, theirs: Any, ours: Any) -> None:
    if theirs != ours:
        raise ConfigError(
            f"train.warm_start: {path}: its {what} {theirs}, but those of this run {ours}; they must agree"
        )
