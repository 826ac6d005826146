"""The pre-activation ResNet-18 of the noisy-label literature, for small images.

DivideMix, ELR+ and Arazo et al. use it. It differs from the textbook network (He et al., 2016b)
and from most files called preact_resnet.py: the stem ends in a batch norm and a ReLU, every
shortcut starts from ReLU(BN(x)), identity shortcuts included, and no norm follows the last block.
A parameter count reveals only the first of these.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from surelabel.models.images import image_shape


class PreActBlock(nn.Module):
    """Batch norm, ReLU and a 3x3 convolution, twice, and a shortcut from the first ReLU."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(before)
        self.convolution1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.convolution2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, C', H', W')."""
        active = F.relu(self.norm1(x))
        inner = self.convolution1(active)
        result: Tensor = self.convolution2(F.relu(self.norm2(inner), inplace=True)) + self.shortcut(active)
        return result


class PreActResNet(nn.Module):
    """A stem, four stages of blocks, 64 to 512 wide, then global average pooling.

    Each stage after the first halves the resolution.
    """

    num_features = 512

    def __init__(self, num_channels: int, blocks: tuple[int, int, int, int]) -> None:
        super().__init__()
        convolution = nn.Conv2d(num_channels, 64, 3, padding=1, bias=False)
        self.stem = nn.Sequential(convolution, nn.BatchNorm2d(64), nn.ReLU(inplace=True))
        stages, before = [], 64
        for number, count in enumerate(blocks):
            width, stride = 64 * 2**number, 1 if number == 0 else 2
            rest = (PreActBlock(width, width, 1) for _ in range(count - 1))
            stages.append(nn.Sequential(PreActBlock(before, width, stride), *rest))
            before = width
        self.stages = nn.Sequential(*stages)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (B, C, H, W) to features (B, 512)."""
        features: Tensor = self.stages(self.stem(x)).mean((2, 3))
        return features


def preact_resnet18(input_shape: tuple[int, ...]) -> PreActResNet:
    """Make the pre-activation ResNet-18 of DivideMix and ELR+."""
    return PreActResNet(image_shape(input_shape, "preact_resnet18")[0], (2, 2, 2, 2))
