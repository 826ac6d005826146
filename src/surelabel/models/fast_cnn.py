"""A network for images of 17 to 64 pixels that trains fast, modelled on the CIFAR-10 speed records.

Its shape follows cifar10-airbench (Jordan, 2024): a 2x2 convolution, then blocks that pool right
after their first convolution, so that most of the work is done at half the resolution. Unlike
there, the first layer is trained like the others, not set from the data. Everything runs in the
channels-last memory format, which is faster for convolutions of this size on CPUs and GPUs alike.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from surelabel.models.images import image_shape
from surelabel.models.mlp import Width, Widths


class FastBlock(nn.Module):
    """A 3x3 convolution, max-pooling, batch norm and GELU, then the same without pooling."""

    def __init__(self, before: int, after: int, pools: bool) -> None:
        super().__init__()
        self.convolution1 = nn.Conv2d(before, after, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.convolution2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.pools = pools

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, C', H', W')."""
        x = self.convolution1(x)
        if self.pools:
            x = F.max_pool2d(x, 2)
        x = F.gelu(self.norm1(x))
        return F.gelu(self.norm2(self.convolution2(x)))


class FastCNN(nn.Module):
    """A 2x2 convolution, one block for each of `widths`, then global average pooling.

    Each block halves the resolution.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        widths: Widths = (32, 96, 128),
        stem: Width = 24,
    ) -> None:
        super().__init__()
        channels, *sides = image_shape(input_shape, "fast_cnn")
        self.num_features, side, before = (stem, *widths)[-1], min(sides) - 1, stem
        self.stem = nn.Conv2d(channels, stem, 2)
        blocks = []
        for width in widths:
            blocks.append(FastBlock(before, width, pools=side >= 4))  # leaves at least 2 x 2 pixels
            side, before = side // 2 if side >= 4 else side, width
        self.blocks = nn.Sequential(*blocks)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        """Map images (B, C, H, W) to features (B, M)."""
        x = F.gelu(self.stem(x.contiguous(memory_format=torch.channels_last)))
        features: Tensor = self.blocks(x).mean((2, 3))
        return features
