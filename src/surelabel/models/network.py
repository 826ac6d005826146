"""The network of a run: a backbone with normalisation, classifier and indicator branch."""

from collections.abc import Sequence
from typing import Any, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from surelabel.core.batch import Outputs
from surelabel.models.indicator import make_indicator


def _at_least_float32(x: Tensor) -> Tensor:
    """Convert half precision (from autocast) and integers to float32; keep float64."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def scale_to(x: Tensor, size: int) -> Tensor:
    """Scale images (B, C, H, W) to squares of `size` pixels, bicubic and with antialiasing."""
    if tuple(x.shape[2:]) == (size, size):
        return x
    return F.interpolate(x, (size, size), mode="bicubic", antialias=True)


class Extractor(nn.Module):
    """Maps raw inputs to features (B, M): normalisation and backbone.

    `mean` and `std` are in units of the raw input, in a shape that broadcasts to it: (C, 1, 1) for
    pixels in 0..255, (D,) for features. They are buffers, so a saved network needs nothing else to
    predict. A std of 0 (a constant input) counts as 1. A frozen backbone gets no gradient and
    stays in evaluation mode while the rest trains, so its weights and batch-norm statistics do not
    change. With a `size`, images are scaled to that many pixels per side first.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        *,
        mean: Tensor | Sequence[float] | None = None,
        std: Tensor | Sequence[float] | None = None,
        frozen: bool = False,
        size: int | None = None,
    ) -> None:
        super().__init__()
        mean = torch.as_tensor((0.0,) if mean is None else mean, dtype=torch.float32)
        std = torch.as_tensor((1.0,) if std is None else std, dtype=torch.float32)
        self.register_buffer("mean", mean.clone())
        self.register_buffer("std", torch.where(std > 0, std, 1.0))
        self.frozen, self.size = frozen, size
        self.backbone = backbone.requires_grad_(False).eval() if frozen else backbone

    @property
    def num_features(self) -> int:
        """M, from the backbone."""
        return cast(int, self.backbone.num_features)

    def train(self, mode: bool = True) -> Self:
        """Set the training mode; a frozen backbone stays in evaluation mode."""
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    def features(self, x: Tensor) -> Tensor:
        """Return features (B, M), in half precision under autocast."""
        x = _at_least_float32(x)
        if self.size is not None:
            x = scale_to(x, self.size)
        features: Tensor = self.backbone((x - self.mean) / self.std)
        return features

    def forward(self, x: Tensor) -> Any:
        """Return features (B, M), never in half precision."""
        return _at_least_float32(self.features(x))


class Network(Extractor):
    """Maps raw inputs to Outputs: adds a classifier and, optionally, an indicator branch.

    With `mirror` its outputs in evaluation mode are means over an image and its mirror image.
    """

    def __init__(
        self,
        backbone: nn.Module,
        num_outputs: int,
        *,
        mean: Tensor | Sequence[float] | None = None,
        std: Tensor | Sequence[float] | None = None,
        frozen: bool = False,
        size: int | None = None,
        indicator: bool = False,
        indicator_layers: int = 1,
        mirror: bool = False,
    ) -> None:
        super().__init__(backbone, mean=mean, std=std, frozen=frozen, size=size)
        self.mirror = mirror
        self.classifier = nn.Linear(self.num_features, num_outputs)
        # Made last, so that a seed yields the same backbone and classifier with and without it.
        self.indicator = make_indicator(self.num_features, indicator_layers) if indicator else None

    def forward(self, x: Tensor) -> Outputs:
        """Return logits (B, K), features (B, M) and, with an indicator, its logit (B,).

        They are never in half precision.
        """
        seen = self._look(x)
        if not self.mirror or self.training or x.dim() != 4:
            return seen
        mirrored = self._look(x.flip(3))
        confidence = None
        if seen.confidence_logit is not None and mirrored.confidence_logit is not None:
            confidence = (seen.confidence_logit + mirrored.confidence_logit) / 2
        return Outputs((seen.logits + mirrored.logits) / 2, (seen.features + mirrored.features) / 2, confidence)

    def _look(self, x: Tensor) -> Outputs:
        features = self.features(x)
        confidence_logit = None
        if self.indicator is not None:
            confidence_logit = _at_least_float32(self.indicator(features).squeeze(1))
        logits = _at_least_float32(self.classifier(features))
        return Outputs(logits, _at_least_float32(features), confidence_logit)
