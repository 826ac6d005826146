"""A small convolutional network for images of 8 to 64 pixels, fast on a CPU."""

from collections.abc import Callable

from torch import Tensor, nn

from surelabel.models.images import image_shape
from surelabel.models.mlp import Norm, Width

NORMS: dict[Norm, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm2d,
    "layer": lambda width: nn.GroupNorm(1, width),
    "none": nn.Identity,
}


class CNN(nn.Module):
    """Three stages of two 3x3 convolutions, with max-pooling between, then global average pooling.

    The stages are 1, 2 and 4 times `width` wide.
    """

    def __init__(self, input_shape: tuple[int, ...], width: Width = 32, norm: Norm = "batch") -> None:
        super().__init__()
        channels, *sides = image_shape(input_shape, "cnn")
        self.num_features = 4 * width
        stages: list[nn.Module] = []
        side, before = min(sides), channels
        for factor in (1, 2, 4):
            if stages and side >= 4:  # leaves at least 2 x 2 pixels
                stages.append(nn.MaxPool2d(2))
                side //= 2
            stages += [_convolution(before, factor * width, norm), _convolution(factor * width, factor * width, norm)]
            before = factor * width
        self.stages = nn.Sequential(*stages)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (B, C, H, W) to features (B, M)."""
        features: Tensor = self.stages(x).mean((2, 3))
        return features


def _convolution(before: int, after: int, norm: Norm) -> nn.Sequential:
    convolution = nn.Conv2d(before, after, 3, padding=1, bias=norm != "batch")
    return nn.Sequential(convolution, NORMS[norm](after), nn.ReLU(inplace=True))
