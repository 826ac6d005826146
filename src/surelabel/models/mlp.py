"""Fully connected layers, for features and for tiny images."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Literal

from pydantic import PositiveInt
from torch import Tensor, nn

Norm = Literal["batch", "layer", "none"]

NORMS: dict[Norm, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm1d,
    "layer": nn.LayerNorm,
    "none": nn.Identity,
}


class MLP(nn.Module):
    """Flatten, then a Linear layer, a normalisation and a ReLU for each of `widths`."""

    def __init__(
        self, input_shape: tuple[int, ...], widths: tuple[PositiveInt, ...] = (256, 256), norm: Norm = "batch"
    ) -> None:
        super().__init__()
        sizes = (math.prod(input_shape), *widths)
        self.num_features = sizes[-1]
        layers = [
            # Batch norm takes the mean away, and a bias with it.
            part
            for before, after in pairwise(sizes)
            for part in (nn.Linear(before, after, bias=norm != "batch"), NORMS[norm](after), nn.ReLU())
        ]
        self.layers = nn.Sequential(nn.Flatten(), *layers)

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) inputs to (B, M) features."""
        return self.layers(x)
