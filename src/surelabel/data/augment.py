"""Random views of images, drawn per sample, and the statistics that inputs are normalised with."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from surelabel.core.stages import seed_of
from surelabel.data.strong_augment import NUM_DRAWS, strong

# The increment and the two multipliers of splitmix64 (Steele, Lea and Flood, 2014), as signed 64-bit numbers.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST = 0xBF58476D1CE4E5B9 - 2**64
_SECOND = 0x94D049BB133111EB - 2**64

_CHUNK = 2**22
"""Input values of which a copy is held at once."""
_PIXELS = 2**15
"""Pixels that are counted at once: of more, PyTorch would let threads find the extremes, which takes longer than counting."""


def draws(seed: int, epoch: int, index: Tensor, view: int, count: int) -> Tensor:
    """Uniform numbers in [0, 1), (B, count) float32: a pure function of (seed, epoch, index, view, column).

    A hash and not a generator, so that a sample's draws do not depend on its rank, its batch or a restart.
    """
    column = torch.arange(1, count + 1, device=index.device)
    row_key = _mixed(index.long() * _GOLDEN + seed_of("draws", seed, epoch, view))
    bits = _mixed(row_key[:, None] + column * _GOLDEN)
    # 24 bits are what a float32 holds exactly, so that no draw rounds up to 1.
    return _shifted(bits, 40).float() * 2.0**-24


def _mixed(z: Tensor) -> Tensor:
    """The finaliser of splitmix64; int64 products wrap as the unsigned ones do."""
    z = (z ^ _shifted(z, 30)) * _FIRST
    z = (z ^ _shifted(z, 27)) * _SECOND
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, bits: int) -> Tensor:
    """Shift right without the sign, which int64 would drag along."""
    return (z >> bits) & (2 ** (64 - bits) - 1)


@dataclass(frozen=True)
class Augment:
    """A crop out of the zero-padded image and a mirroring, drawn for each sample of a batch.

    Zeros are padded in raw pixels, before normalisation, as the usual CIFAR augmentation does. `crop` is the side of the window;
    None is the image's own size.
    """

    crop_padding: int
    flip: bool
    seed: int
    crop: int | None = None

    def __call__(self, x: Tensor, index: Tensor, epoch: int, view: int, is_strong: bool = False) -> Tensor:
        """(B, C, H, W) uint8 in, the same type out; `index` (B,) is -1 for padding rows. Windows already cut stay as they are."""
        drawn = draws(self.seed, epoch, index, view, 3 + NUM_DRAWS * is_strong)
        top, left, mirror = drawn[:, :3].unbind(1)
        if self.crop_padding or self.crop:
            x = _cropped(x, self.crop_padding, self.crop, top, left)
        if self.flip:
            x = _mirrored(x, mirror < 0.5)
        return strong(x, drawn[:, 3:]) if is_strong else x

    def places(self, index: Tensor, epoch: int, view: int) -> Tensor:
        """(B, 2) where in the free space, from the top and from the left, windows begin: for who cuts them while decoding."""
        return draws(self.seed, epoch, index, view, 2)


def _mirrored(x: Tensor, where: Tensor) -> Tensor:
    """Images mirrored `where` that says so; whole ones are copied, which takes a third of the time of choosing pixels."""
    own = torch.arange(len(x), device=x.device)
    return torch.cat([x, x.flip(3)]).index_select(0, own + len(x) * where)


def _cropped(x: Tensor, padding: int, side: int | None, top: Tensor, left: Tensor) -> Tensor:
    """The window of each padded image that starts where its (top, left), in [0, 1), say."""
    padded = (F.pad(x, (padding,) * 4) if padding else x).contiguous()
    _, channels, *sides = padded.shape
    height, width = (side, side) if side else x.shape[2:]
    image, plane, line, _ = padded.stride()
    # Every position of memory seen as the start of a (C, H, W) window: choosing windows then copies whole lines, several
    # times as fast as indexing the unfolded image.
    window_span = (channels - 1) * plane + (height - 1) * line + width
    shape = (padded.numel() - window_span + 1, channels, height, width)
    windows = padded.as_strided(shape, (1, plane, line, 1))
    top, left = (top * (sides[0] - height + 1)).long(), (left * (sides[1] - width + 1)).long()
    return windows.index_select(0, torch.arange(len(x), device=x.device) * image + top * line + left)


def input_statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation: (C,) in raw 0..255 units for images, (D,) for features; 1 where all are equal."""
    mean, variance = _pixel_moments(x) if x.dim() == 4 else _feature_moments(x)
    std = variance.clamp(min=0).sqrt()
    return mean.float(), torch.where(std > 0, std, 1.0).float()


def _pixel_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """From a histogram per channel: exact, and ten times as fast as sums of floats."""
    counts = torch.stack([_histogram(x[:, channel]) for channel in range(x.shape[1])]).double()
    share = counts / counts.sum(1, keepdim=True)
    value = torch.arange(256, device=x.device).double()
    mean = share @ value
    return mean, (share * (value - mean[:, None]).square()).sum(1)


def _histogram(plane: Tensor) -> Tensor:
    """How often each of 0..255 occurs in (N, H, W)."""
    return torch.stack([torch.bincount(chunk.flatten(), minlength=256) for chunk in _chunks(plane, _PIXELS)]).sum(0)


def _feature_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    # Differences to the first row are exactly zero where all are equal, and keep the sum of squares from cancelling.
    origin = x[0].double()
    first, second = torch.zeros_like(origin), torch.zeros_like(origin)
    for chunk in _chunks(x, _CHUNK):
        delta = chunk.double() - origin
        first += delta.sum(0)
        second += delta.square().sum(0)
    shift = first / len(x)
    return origin + shift, second / len(x) - shift.square()


def _chunks(x: Tensor, num_values: int) -> tuple[Tensor, ...]:
    return x.split(max(1, num_values // max(1, x[0].numel())))
