"""The normalisation layers that backbones choose from by name."""

from collections.abc import Callable
from typing import Literal

from torch import nn

Norm = Literal["batch", "layer", "none"]

VECTOR_NORMS: dict[Norm, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm1d,
    "layer": nn.LayerNorm,
    "none": nn.Identity,
}

IMAGE_NORMS: dict[Norm, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm2d,
    "layer": lambda width: nn.GroupNorm(1, width),
    "none": nn.Identity,
}
