"""Networks by name.

A backbone is a module that maps inputs to features (B, M) and has M as `num_features`. `Network`
adds the normalisation, the classifier and the indicator branch.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn

from surelabel.config import shorten
from surelabel.data.inputs import available_memory
from surelabel.errors import ConfigError, did_you_mean
from surelabel.models.cnn import CNN
from surelabel.models.fast_cnn import FastCNN
from surelabel.models.images import get_pixel_scale, is_large
from surelabel.models.indicator import add_indicator
from surelabel.models.mlp import MLP
from surelabel.models.network import Extractor, Network
from surelabel.models.preact_resnet import preact_resnet18
from surelabel.models.resnet import resnet18, resnet34, resnet50
from surelabel.models.timm_models import PREFIX, timm_backbone, timm_size
from surelabel.models.weights import fetch_weights, load_weights, read_weights
from surelabel.models.wide_resnet import WideResNet

__all__ = [
    "BACKBONES",
    "IMAGENET_SIZE",
    "PREFIX",
    "PRETRAINED",
    "Extractor",
    "Network",
    "add_indicator",
    "auto_name",
    "backbone_options",
    "get_pixel_scale",
    "intended_size",
    "make_backbone",
    "note_on_size",
    "start_from",
]

BACKBONES: Mapping[str, Callable[..., nn.Module]] = {
    "mlp": MLP,
    "cnn": CNN,
    "fast_cnn": FastCNN,
    "resnet18": resnet18,
    "resnet34": resnet34,
    "resnet50": resnet50,
    "preact_resnet18": preact_resnet18,
    "wide_resnet": WideResNet,
}
"""Name to a callable of the input shape; its further parameters are the options of the backbone."""

TINY_SIDE = 16
"""Up to this many pixels per side an mlp does as well, and images are not augmented by default."""
IMAGENET_SIZE = 224
PRETRAINED = "pretrained"
"""In place of a file: the weights that the authors of the network published on the hub."""


def auto_name(input_shape: tuple[int, ...]) -> str:
    """Choose the backbone for inputs of this shape.

    The mlp is for features and tiny images, resnet18 for large images, fast_cnn for those between.
    """
    if len(input_shape) != 3 or max(input_shape[1:]) <= TINY_SIDE:
        return "mlp"
    return "resnet18" if is_large(input_shape) else "fast_cnn"


def make_backbone(name: str, input_shape: tuple[int, ...], options: Mapping[str, Any] | None = None) -> nn.Module:
    """Make the named backbone for inputs of this shape, with `options` checked first."""
    if name == "auto":
        name = auto_name(input_shape)
    if name.startswith(PREFIX):
        return timm_backbone(name, tuple(input_shape), options or {})
    if name not in BACKBONES:
        raise ConfigError(f"model.name: there is no {name!r}{_near(name, BACKBONES)}, {PREFIX}NAME")
    checked = _check_options(name, options or {})
    _refuse_too_large(name, tuple(input_shape), checked)
    return BACKBONES[name](tuple(input_shape), **checked)


def _refuse_too_large(name: str, input_shape: tuple[int, ...], options: Mapping[str, Any]) -> None:
    """Raise if the weights, their gradients and their momentum do not fit into free memory."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):  # shapes only
        network = BACKBONES[name](input_shape, **options)
    weights = sum(weight.numel() for weight in network.parameters())
    if 12 * weights > available_memory():
        chosen = ", ".join(f"{option}={value}" for option, value in options.items()) or "inputs this large"
        raise ConfigError(
            f"model.options: {name} with {shorten(chosen)} has {weights:,} weights, which take "
            f"{12 * weights / 2**30:,.0f} GiB to train; {available_memory() / 2**30:,.0f} GiB are free"
        )


def start_from(network: nn.Module, weights: str) -> str | None:
    """Load a file of weights into a backbone, or those of its authors for `pretrained`.

    Returns a note about the weights in the file that were not used, or None.
    """
    hub_id = getattr(network, "hub_id", None)
    if weights != PRETRAINED:
        return load_weights(network, read_weights(weights), weights)
    if hub_id is None:
        raise ConfigError(
            "model.weights: this network has no pretrained weights; expected the path of a .safetensors or .pth file"
        )
    return load_weights(network, read_weights(fetch_weights(hub_id)), hub_id)


def intended_size(name: str, weights: str) -> int | None:
    """Return the pixels per side that a network with these weights was made for, if known."""
    if name.startswith(PREFIX):
        return timm_size(name)
    return IMAGENET_SIZE if weights == PRETRAINED and name.startswith("resnet") else None


def note_on_size(name: str, size: int, intended: int | None) -> list[str]:
    """Warn if a network is to see images at less than half of the size that it was made for."""
    if intended is None or 2 * size >= intended:
        return []
    return [
        f"model.feature_size: {name} was made for images of {intended} pixels and recognises little at {size}; "
        f"{intended // 2} or more is better"
    ]


def backbone_options(name: str) -> dict[str, inspect.Parameter]:
    """Return the options of a backbone: the parameters of its callable after the input shape."""
    _, *parameters = inspect.signature(BACKBONES[name]).parameters.values()
    return {parameter.name: parameter for parameter in parameters}


def _check_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return `options` in the types of the backbone's signature."""
    known = backbone_options(name)
    for option in options:
        if option not in known:
            raise ConfigError(f"model.options.{option}: {name} has no such option{_near(str(option), known)}")
    return {option: _validate(option, known[option].annotation, value) for option, value in options.items()}


def _validate(option: str, annotation: Any, value: Any) -> Any:
    try:
        return TypeAdapter(annotation).validate_python(value)
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        raise ConfigError(
            f"model.options.{option}: {message[0].lower() + message[1:]}, got {shorten(repr(value))}"
        ) from None


def _near(name: str, known: Iterable[str]) -> str:
    known = list(known)
    meant = did_you_mean(name, known)
    return f"{f', {meant}' if meant else '; '}available: {', '.join(known) or 'none'}"
