"""Residual networks of He et al. (2016) with the CIFAR stem: a 3x3 convolution of stride 1 and no max-pooling."""

import torch.nn.functional as F
from torch import Tensor, nn

from surelabel.models.images import image_shape


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.convolution1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.convolution2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to (B, C', H', W')."""
        inner = F.relu(self.norm1(self.convolution1(x)), inplace=True)
        return F.relu(self.norm2(self.convolution2(inner)) + self.shortcut(x), inplace=True)


class ResNet(nn.Module):
    """Four stages of basic blocks, 64 to 512 wide, each after the first at half the size, then the mean over pixels."""

    num_features = 512

    def __init__(self, num_channels: int, blocks: tuple[int, int, int, int]) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(num_channels, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)
        )
        widths = (64, 64, 128, 256, 512)
        self.stages = nn.Sequential(
            *(_stage(widths[i], widths[i + 1], 1 if i == 0 else 2, blocks[i]) for i in range(4))
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) images to (B, 512) features."""
        return self.stages(self.stem(x)).mean((2, 3))


def _stage(before: int, after: int, stride: int, blocks: int) -> nn.Sequential:
    first = BasicBlock(before, after, stride)
    return nn.Sequential(first, *(BasicBlock(after, after, 1) for _ in range(blocks - 1)))


def resnet18(input_shape: tuple[int, ...]) -> ResNet:
    """ResNet-18 for small images."""
    return ResNet(image_shape(input_shape, "resnet18")[0], (2, 2, 2, 2))


def resnet34(input_shape: tuple[int, ...]) -> ResNet:
    """ResNet-34 for small images, the paper's network for CIFAR."""
    return ResNet(image_shape(input_shape, "resnet34")[0], (3, 4, 6, 3))
