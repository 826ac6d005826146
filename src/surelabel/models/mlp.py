"""A fully connected network, for features and tiny images."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor, nn

Norm = Literal["batch", "layer", "none"]
Width = Annotated[int, Field(gt=0, le=2**20)]
"""Features of a layer, or channels of a convolution."""
Widths = Annotated[tuple[Width, ...], Field(max_length=100)]

NORMS: dict[Norm, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm1d,
    "layer": nn.LayerNorm,
    "none": nn.Identity,
}


class MLP(nn.Module):
    """A Linear layer, a normalisation and a ReLU for each of `widths`, on the flattened input."""

    def __init__(self, input_shape: tuple[int, ...], widths: Widths = (256, 256), norm: Norm = "batch") -> None:
        super().__init__()
        sizes = (math.prod(input_shape), *widths)
        self.num_features = sizes[-1]
        layers = [
            # Batch norm subtracts the mean, and any bias with it.
            part
            for before, after in pairwise(sizes)
            for part in (nn.Linear(before, after, bias=norm != "batch"), NORMS[norm](after), nn.ReLU())
        ]
        self.layers = nn.Sequential(nn.Flatten(), *layers)

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs (B, ...) to features (B, M)."""
        features: Tensor = self.layers(x)
        return features
