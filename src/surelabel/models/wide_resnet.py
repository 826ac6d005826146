"""Wide residual networks (Zagoruyko and Komodakis, 2016), for small images: WRN-28-10 and so on."""

from typing import Annotated

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from surelabel.errors import ConfigError
from surelabel.models.images import image_shape
from surelabel.models.mlp import Width

Fraction = Annotated[float, Field(ge=0, lt=1)]
Depth = Annotated[int, Field(gt=0, le=1000)]


class WideBlock(nn.Module):
    """Batch norm, ReLU and a 3x3 convolution, twice, with dropout between, and a shortcut.

    The shortcut is x itself if the shape stays, otherwise a 1x1 convolution after the first ReLU.
    """

    def __init__(self, before: int, after: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(before)
        self.convolution1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.dropout = nn.Dropout(dropout)
        self.convolution2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        changes = stride != 1 or before != after
        self.shortcut = nn.Conv2d(before, after, 1, stride, bias=False) if changes else None

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, C', H', W')."""
        active = F.relu(self.norm1(x))
        inner = F.relu(self.norm2(self.convolution1(active)), inplace=True)
        result: Tensor = self.convolution2(self.dropout(inner))
        return result + (x if self.shortcut is None else self.shortcut(active))


class WideResNet(nn.Module):
    """A 3x3 convolution, three stages of blocks, batch norm and ReLU, then global average pooling.

    The stages are 16, 32 and 64 times `width` wide; `depth` counts the convolutions as in
    WRN-28-10.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        depth: Depth = 28,
        width: Width = 10,
        dropout: Fraction = 0.0,
    ) -> None:
        super().__init__()
        if depth < 10 or depth % 6 != 4:
            raise ConfigError(f"model.options.depth: expected 6 n + 4, such as 10, 16, 22, 28 or 40, got {depth}")
        self.num_features = 64 * width
        stages: list[nn.Module] = [nn.Conv2d(image_shape(input_shape, "wide_resnet")[0], 16, 3, padding=1, bias=False)]
        before = 16
        for number in range(3):
            after = 16 * 2**number * width
            for block in range((depth - 4) // 6):
                stages.append(WideBlock(before, after, 2 if number and not block else 1, dropout))
                before = after
        self.stages = nn.Sequential(*stages)
        self.norm = nn.BatchNorm2d(before)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (B, C, H, W) to features (B, M)."""
        return F.relu(self.norm(self.stages(x)), inplace=True).mean((2, 3))
