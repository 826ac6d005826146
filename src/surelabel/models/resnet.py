"""Residual networks of He et al. (2016), for small images and for large ones.

Small images get the stem of the CIFAR literature, a 3x3 convolution of stride 1 without pooling.
torchvision's networks of the same names always have the ImageNet stem, a 7x7 convolution of stride
2 and max-pooling, which only large images get here. As in torchvision, the stride of a bottleneck
is in its 3x3 convolution.
"""

from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from surelabel.models.images import IMAGENET, image_shape, is_large

Stem = Literal["auto", "small", "large"]


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, which is a 1x1 convolution if the shape changes."""

    expansion: ClassVar[int] = 1

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.convolution1 = nn.Conv2d(before, width, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.convolution2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.shortcut = _shortcut(before, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, C', H', W')."""
        inner = F.relu(self.norm1(self.convolution1(x)), inplace=True)
        return F.relu(self.norm2(self.convolution2(inner)) + self.shortcut(x), inplace=True)


class Bottleneck(nn.Module):
    """A 3x3 convolution between two 1x1 ones, the last four times as wide, and a shortcut."""

    expansion: ClassVar[int] = 4

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.convolution1 = nn.Conv2d(before, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.convolution2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.convolution3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(4 * width)
        self.shortcut = _shortcut(before, 4 * width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, C', H', W')."""
        inner = F.relu(self.norm1(self.convolution1(x)), inplace=True)
        inner = F.relu(self.norm2(self.convolution2(inner)), inplace=True)
        return F.relu(self.norm3(self.convolution3(inner)) + self.shortcut(x), inplace=True)


def _shortcut(before: int, after: int, stride: int) -> nn.Module:
    if stride == 1 and before == after:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))


class ResNet(nn.Module):
    """A stem, four stages of blocks, 64 to 512 wide, then global average pooling.

    Each stage after the first halves the resolution.
    """

    file_names = (
        (r"conv1\.", "stem.0."),
        (r"bn1\.", "stem.1."),
        (r"layer1\.", "stages.0."),
        (r"layer2\.", "stages.1."),
        (r"layer3\.", "stages.2."),
        (r"layer4\.", "stages.3."),
        (r"(stages\.\d+\.\d+)\.conv(\d)\.", r"\1.convolution\2."),
        (r"(stages\.\d+\.\d+)\.bn(\d)\.", r"\1.norm\2."),
        (r"(stages\.\d+\.\d+)\.downsample\.", r"\1.shortcut."),
    )
    """Patterns for the beginning of the names in torchvision and timm, and the names used here."""
    classifier_names = ("fc",)

    def __init__(
        self,
        num_channels: int,
        block: type[BasicBlock] | type[Bottleneck],
        blocks: tuple[int, int, int, int],
        large_stem: bool,
        hub_id: str,
    ) -> None:
        super().__init__()
        self.hub_id = hub_id if large_stem else None
        self.num_features = 512 * block.expansion
        self.pixel_scale = IMAGENET if large_stem else None
        self.stem = _large_stem(num_channels) if large_stem else _small_stem(num_channels)
        stages, before = [], 64
        for number, count in enumerate(blocks):
            width, stride = 64 * 2**number, 1 if number == 0 else 2
            after = width * block.expansion
            rest = (block(after, width, 1) for _ in range(count - 1))
            stages.append(nn.Sequential(block(before, width, stride), *rest))
            before = after
        self.stages = nn.Sequential(*stages)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (B, C, H, W) to features (B, M)."""
        features: Tensor = self.stages(self.stem(x)).mean((2, 3))
        return features


def _small_stem(num_channels: int) -> nn.Sequential:
    convolution = nn.Conv2d(num_channels, 64, 3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(64), nn.ReLU(inplace=True))


def _large_stem(num_channels: int) -> nn.Sequential:
    convolution = nn.Conv2d(num_channels, 64, 7, 2, padding=3, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1))


def _resnet(
    input_shape: tuple[int, ...],
    stem: Stem,
    name: str,
    block: type[BasicBlock] | type[Bottleneck],
    blocks: tuple[int, int, int, int],
) -> ResNet:
    shape = image_shape(input_shape, name)
    large = is_large(shape) if stem == "auto" else stem == "large"
    # torchvision's IMAGENET1K_V1, which papers of that time mean by pre-trained weights.
    return ResNet(shape[0], block, blocks, large, f"timm/{name}.tv_in1k")


def resnet18(input_shape: tuple[int, ...], stem: Stem = "auto") -> ResNet:
    """Make a ResNet-18."""
    return _resnet(input_shape, stem, "resnet18", BasicBlock, (2, 2, 2, 2))


def resnet34(input_shape: tuple[int, ...], stem: Stem = "auto") -> ResNet:
    """Make a ResNet-34; with the small stem it is the paper's network for CIFAR."""
    return _resnet(input_shape, stem, "resnet34", BasicBlock, (3, 4, 6, 3))


def resnet50(input_shape: tuple[int, ...], stem: Stem = "auto") -> ResNet:
    """Make a ResNet-50; with the large stem it is the paper's network for Clothing1M."""
    return _resnet(input_shape, stem, "resnet50", Bottleneck, (3, 4, 6, 3))
