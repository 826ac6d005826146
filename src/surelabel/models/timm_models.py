"""Any network of the timm package, as `timm:NAME`. The package is imported when one is asked for."""

import contextlib
import difflib
import importlib.util
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from surelabel.errors import ConfigError
from surelabel.models.images import PixelScale, image_shape
from surelabel.models.weights import INSTALL

PREFIX = "timm:"
_OURS = ("num_classes", "in_chans", "pretrained", "features_only", "checkpoint_path", "cache_dir")
"""Arguments of timm.create_model that are no options: they follow from the data and from model.weights."""
_operators: list[torch.library.Library] = []
"""Declarations last as long as the object that made them."""


class TimmBackbone(nn.Module):
    """A network of timm without its classifier."""

    file_names = ((r"(?!model\.)", "model."),)

    def __init__(self, model: nn.Module, num_features: int) -> None:
        super().__init__()
        self.model, self.num_features = model, num_features
        settings: Mapping[str, Any] = model.pretrained_cfg  # type: ignore[assignment]
        names = settings.get("classifier") or ()
        # A classifier called head.linear may have a norm beside it, head.bn.
        roots = {name.split(".")[0] for name in ((names,) if isinstance(names, str) else names)}
        self.classifier_names = tuple(f"model.{root}" for root in sorted(roots))
        self.pixel_scale: PixelScale = (tuple(settings["mean"]), tuple(settings["std"]))
        self.hub_id: str | None = settings.get("hf_hub_id")

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) images to (B, M) features."""
        return self.model(x)

    def adapted(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A state in an older or an author's own layout, as timm itself would convert it, or unchanged if it cannot."""
        bare = {name.removeprefix("model."): value for name, value in state.items()}
        convert = getattr(sys.modules[type(self.model).__module__], "checkpoint_filter_fn", None)
        if convert is not None:
            with contextlib.suppress(Exception):  # a state of another network: what does not fit is named later
                bare = convert(bare, self.model)
        return {f"model.{name}": value for name, value in bare.items()}


def timm_backbone(name: str, input_shape: tuple[int, ...], options: Mapping[str, Any]) -> TimmBackbone:
    """`timm:NAME` for images of this shape; `options` go to timm.create_model."""
    shape = image_shape(input_shape, name)
    timm = _timm()
    known = name.removeprefix(PREFIX)
    _check(timm, known, options)
    try:
        settings = timm.get_pretrained_cfg(known)
        # Transformers are built for one size of images, by default the one of their weights.
        sized = {"img_size": shape[1:]} if settings is not None and settings.fixed_input_size else {}
        made = timm.create_model(known, num_classes=0, in_chans=shape[0], **{**sized, **options})
        return TimmBackbone(made, _num_features(made, shape))
    except Exception as error:  # a thousand constructors, each with errors of its own
        reason = " ".join(str(error).split()) or type(error).__name__
        advice = f" with {dict(options)}: {reason}" if options else f": {reason}{_usual_size(timm, known, shape)}"
        raise ConfigError(f"model.name: {name} does not work for inputs of shape {shape}{advice}") from None


def _usual_size(timm: Any, name: str, shape: tuple[int, int, int]) -> str:
    """Advice for images of a size that a network was not made for."""
    settings = timm.get_pretrained_cfg(name.split(".")[0])
    if settings is None or tuple(settings.input_size[1:]) == shape[1:]:
        return ""
    return f"; it was made for {settings.input_size[-1]} pixels: data.image_size={settings.input_size[-1]}"


@torch.no_grad()
def _num_features(model: nn.Module, shape: tuple[int, int, int]) -> int:
    """Features of one input: what networks say about themselves does not always count the layers after the pooling."""
    was_training = model.training
    features = model.eval()(torch.zeros(1, *shape))
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


def _timm() -> Any:
    """The package, or one line that says what is missing."""
    if importlib.util.find_spec("timm") is None:
        raise ConfigError(f"model.name: networks of timm need the package timm: {INSTALL}")
    try:
        import_torchvision()
        import timm
    except (ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"model.name: the package timm cannot be imported: {reason}; try {INSTALL}") from None
    return timm


def import_torchvision() -> None:
    """Import torchvision also where its compiled part does not fit a CPU build of torch.

    timm cannot be imported without torchvision, and PyPI's torchvision for Linux is compiled against CUDA: with a CPU build of torch
    its library cannot be loaded, and its import ends with "operator torchvision::nms does not exist", because it describes operators that
    nobody declared. No network of timm uses them. Declared without an implementation, as below, they still fail when called, with
    an error and never with a wrong number; everything else of torchvision works. This is done only after that very error, so an
    installation that is whole is left alone.
    """
    try:
        import torchvision
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
        operators = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            operators.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _operators.append(operators)
        import torchvision  # noqa: F401
