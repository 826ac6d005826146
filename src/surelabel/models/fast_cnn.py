"""A network for images of 17 to 64 pixels that trains fast, modelled on the CIFAR-10 speed records.

Its shape follows cifar10-airbench (Jordan, 2024): a 2x2 convolution, then blocks that pool right
after their first convolution, so that most of the work is done at half the resolution. As there,
the first layer may be set from the data: then its outputs are uncorrelated from the first step on,
and only its bias is trained. Everything runs in the channels-last memory format, which is faster
for convolutions of this size on CPUs and GPUs alike.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from surelabel.core.collective import total
from surelabel.models.images import image_shape
from surelabel.models.mlp import Width, Widths


class WhiteningConvolution(nn.Module):
    """A 2x2 convolution whose filters make the patches of the data uncorrelated.

    They are the eigenvectors of the patches' covariance, divided by the square roots of their
    eigenvalues, and the same with the opposite sign, because what follows cuts off negative
    values. The first batch in training decides, on all processes together. The filters are
    buffers: no optimiser moves them.
    """

    SIDE = 2
    LEAST = 5e-4
    """Added to eigenvalues, so that directions in which patches hardly vary are not blown up."""

    weight: Tensor
    is_set: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.num_outputs = 2 * channels * self.SIDE**2
        first = nn.Conv2d(channels, self.num_outputs, self.SIDE)
        self.register_buffer("weight", first.weight.detach().clone())
        self.register_buffer("is_set", torch.tensor(False))
        self.bias = nn.Parameter(torch.zeros(self.num_outputs))
        self._knows_it_is_set = False  # looking at the buffer would make a GPU wait in every step

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, 8 C, H - 1, W - 1)."""
        if self.training and not self._knows_it_is_set:
            if not self.is_set:
                self._set_filters(x.detach())
            self._knows_it_is_set = True
        return F.conv2d(x, self.weight.to(x.dtype), self.bias.to(x.dtype))

    @torch.no_grad()
    def _set_filters(self, x: Tensor) -> None:
        patches = F.unfold(x.float(), self.SIDE).transpose(1, 2).flatten(0, 1)
        product = total(patches.T @ patches) / total(patches.new_tensor(float(len(patches))))
        values, vectors = torch.linalg.eigh(product.double())
        filters = (vectors / (values.clamp(min=0) + self.LEAST).sqrt()).T.reshape(-1, *self.weight.shape[1:])
        self.weight.copy_(torch.cat([filters, -filters]))
        self.is_set.fill_(True)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._knows_it_is_set = False


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

    Each block halves the resolution. With `whiten` the convolution is set from the data, and has
    as many outputs as that takes instead of `stem`.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        widths: Widths = (32, 96, 128),
        stem: Width = 24,
        whiten: bool = False,
    ) -> None:
        super().__init__()
        channels, *sides = image_shape(input_shape, "fast_cnn")
        self.stem = WhiteningConvolution(channels) if whiten else nn.Conv2d(channels, stem, 2)
        before = self.stem.num_outputs if isinstance(self.stem, WhiteningConvolution) else stem
        self.num_features, side = (before, *widths)[-1], min(sides) - 1
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
