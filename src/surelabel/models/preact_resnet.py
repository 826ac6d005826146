"""The pre-activation ResNet-18 of the noisy-label literature (DivideMix, ELR+, Arazo et al.), for small images.

It differs from the textbook network (He et al., 2016b) and from most files called preact_resnet.py: the stem has a batch norm and a
ReLU of its own, every shortcut is fed ReLU(BN(x)), also where it changes nothing, and no norm follows the last block. A parameter
count shows only the first of these.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from surelabel.models.images import image_shape


class PreActBlock(nn.Module):
    """Batch norm, ReLU and a 3x3 convolution, twice, and a shortcut from behind the first ReLU."""

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
        """(B, C, H, W) to (B, C', H', W')."""
        active = F.relu(self.norm1(x))
        inner = self.convolution1(active)
        return self.convolution2(F.relu(self.norm2(inner), inplace=True)) + self.shortcut(active)


class PreActResNet(nn.Module):
    """A stem, four stages of blocks, 64 to 512 wide, each after the first at half the size, then the mean over pixels."""

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
        """(B, C, H, W) images to (B, 512) features."""
        return self.stages(self.stem(x)).mean((2, 3))


def preact_resnet18(input_shape: tuple[int, ...]) -> PreActResNet:
    """The pre-activation ResNet-18 of DivideMix and ELR+."""
    return PreActResNet(image_shape(input_shape, "preact_resnet18")[0], (2, 2, 2, 2))
