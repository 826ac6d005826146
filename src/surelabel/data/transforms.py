"""Random views of images, drawn per sample, and the statistics that inputs are normalised with."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from surelabel.core.plan import seed_of

# The increment and the two multipliers of splitmix64 (Steele, Lea and Flood, 2014), as signed 64-bit numbers.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST = 0xBF58476D1CE4E5B9 - 2**64
_SECOND = 0x94D049BB133111EB - 2**64

_CHUNK = 2**22
"""Input values of which a copy is held at once."""


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

    Zeros are padded in raw pixels, before normalisation, as the usual CIFAR augmentation does.
    """

    crop_padding: int
    flip: bool
    seed: int

    def __call__(self, x: Tensor, index: Tensor, epoch: int, view: int) -> Tensor:
        """(B, C, H, W) uint8 in, the same shape and type out; `index` (B,) is -1 for padding rows."""
        top, left, mirror = draws(self.seed, epoch, index, view, 3).unbind(1)
        if self.crop_padding:
            num_offsets = 2 * self.crop_padding + 1
            x = _cropped(x, self.crop_padding, (top * num_offsets).long(), (left * num_offsets).long())
        if self.flip:
            x = torch.where((mirror < 0.5)[:, None, None, None], x.flip(3), x)
        return x


def _cropped(x: Tensor, padding: int, top: Tensor, left: Tensor) -> Tensor:
    """The window of each padded image that starts at its (top, left)."""
    _, channels, height, width = x.shape
    padded = F.pad(x, (padding,) * 4).contiguous()
    image, plane, line, _ = padded.stride()
    # Every position of memory seen as the start of a (C, H, W) window: choosing windows then copies whole lines, faster
    # than indexing the unfolded image.
    window_span = (channels - 1) * plane + (height - 1) * line + width
    shape = (padded.numel() - window_span + 1, channels, height, width)
    windows = padded.as_strided(shape, (1, plane, line, 1))
    return windows[torch.arange(len(x), device=x.device) * image + top * line + left]


def statistics(x: Tensor) -> tuple[Tensor, Tensor]:
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
    return torch.stack([torch.bincount(chunk.flatten(), minlength=256) for chunk in _chunks(plane)]).sum(0)


def _feature_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    # Differences to the first row are exactly zero where all are equal, and keep the sum of squares from cancelling.
    origin = x[0].double()
    first, second = torch.zeros_like(origin), torch.zeros_like(origin)
    for chunk in _chunks(x):
        delta = chunk.double() - origin
        first += delta.sum(0)
        second += delta.square().sum(0)
    shift = first / len(x)
    return origin + shift, second / len(x) - shift.square()


def _chunks(x: Tensor) -> tuple[Tensor, ...]:
    return x.split(max(1, _CHUNK // max(1, x[0].numel())))
