"""The networks of the timm package, as `timm:NAME`; timm is imported when one is requested."""

import contextlib
import difflib
import importlib.util
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from surelabel.core.torchvision_import import import_torchvision
from surelabel.errors import ConfigError, missing_package
from surelabel.models.images import PixelScale, image_shape

PREFIX = "timm:"
_OURS = ("num_classes", "in_chans", "pretrained", "features_only", "checkpoint_path", "cache_dir")
"""Arguments of timm.create_model that follow from the data and from model.weights."""


class TimmBackbone(nn.Module):
    """A timm network without its classifier."""

    file_names = ((r"(?!model\.)", "model."),)

    def __init__(self, model: nn.Module, num_features: int) -> None:
        super().__init__()
        self.model, self.num_features = model, num_features
        settings: Mapping[str, Any] = model.pretrained_cfg  # type: ignore[assignment]
        names = settings.get("classifier") or ()
        # Next to a classifier called head.linear there may be a norm, head.bn.
        roots = {name.split(".")[0] for name in ((names,) if isinstance(names, str) else names)}
        self.classifier_names = tuple(f"model.{root}" for root in sorted(roots))
        self.pixel_scale: PixelScale = (tuple(settings["mean"]), tuple(settings["std"]))
        self.hub_id: str | None = settings.get("hf_hub_id")

    def forward(self, x: Tensor) -> Tensor:
        """Map images (B, C, H, W) to features (B, M)."""
        features: Tensor = self.model(x)
        return features

    def adapt(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Convert a state in an older or the authors' layout, as timm would, if it can."""
        bare = {name.removeprefix("model."): value for name, value in state.items()}
        convert = getattr(sys.modules[type(self.model).__module__], "checkpoint_filter_fn", None)
        if convert is not None:
            with contextlib.suppress(Exception):  # a state of another network; load_weights reports it
                bare = convert(bare, self.model)
        return {f"model.{name}": value for name, value in bare.items()}


def timm_backbone(name: str, input_shape: tuple[int, ...], options: Mapping[str, Any]) -> TimmBackbone:
    """Make `timm:NAME` for images of this shape; `options` are passed to timm.create_model."""
    shape = image_shape(input_shape, name)
    timm = _import_timm()
    timm_name = name.removeprefix(PREFIX)
    _check(timm, timm_name, options)
    try:
        settings = timm.get_pretrained_cfg(timm_name)
        # Transformers are built for one image size, by default that of their weights.
        size = {"img_size": shape[1:]} if settings is not None and settings.fixed_input_size else {}
        model = timm.create_model(timm_name, num_classes=0, in_chans=shape[0], **{**size, **options})
        return TimmBackbone(model, _num_features(model, shape))
    except Exception as error:  # a thousand constructors, each with different errors
        reason = " ".join(str(error).split()) or type(error).__name__
        advice = f" with {dict(options)}: {reason}" if options else f": {reason}{_suggest_size(timm, timm_name, shape)}"
        raise ConfigError(f"model.name: {name} does not work for inputs of shape {shape}{advice}") from None


def timm_size(name: str) -> int | None:
    """Return the pixels per side that timm:NAME was made for, if timm knows."""
    timm = _import_timm()
    _check(timm, name.removeprefix(PREFIX), {})
    settings = timm.get_pretrained_cfg(name.removeprefix(PREFIX))
    return None if settings is None else int(settings.input_size[-1])


def _suggest_size(timm: Any, name: str, shape: tuple[int, int, int]) -> str:
    """Suggest the image size that the network was made for, if these images have another."""
    settings = timm.get_pretrained_cfg(name.split(".")[0])
    if settings is None or tuple(settings.input_size[1:]) == shape[1:]:
        return ""
    return f"; it was made for {settings.input_size[-1]} pixels: data.image_size={settings.input_size[-1]}"


@torch.no_grad()
def _num_features(model: nn.Module, shape: tuple[int, int, int]) -> int:
    """Count features on one input: model.num_features may ignore layers after the pooling."""
    was_training = model.training
    features: Tensor = model.eval()(torch.zeros(1, *shape))
    model.train(was_training)
    if features.dim() != 2:
        raise ValueError(f"it gives features of shape {tuple(features.shape)} instead of (1, M)")
    return features.shape[1]


def _check(timm: Any, name: str, options: Mapping[str, Any]) -> None:
    if ":" in name or not timm.is_model(name):
        near = difflib.get_close_matches(name.split(".")[0], timm.list_models(), 1)
        meant = f", did you mean {PREFIX}{near[0]}?" if near else ";"
        raise ConfigError(f"model.name: timm has no network {name!r}{meant} timm.list_models() names them all")
    for option in options:
        if option in _OURS:
            raise ConfigError(f"model.options.{option}: follows from the data and from model.weights; leave it out")


def _import_timm() -> Any:
    """Import timm; raise ConfigError with the command that installs it if that fails."""
    if importlib.util.find_spec("timm") is None:
        raise missing_package("model.name: timm:NAME", "timm", "photos")
    try:
        import_torchvision()
        import timm
    except (ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        hint = "try pip install 'surelabel[photos]'"
        raise ConfigError(f"model.name: the package timm cannot be imported: {reason}; {hint}") from None
    return timm
