"""Random views of images, drawn for each sample, and the statistics that normalise inputs."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from surelabel.core.stages import seed_of
from surelabel.data.strong_augment import NUM_DRAWS, augment_strongly

# The increment and the two multipliers of splitmix64 (Steele, Lea and Flood, 2014), as int64.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST = 0xBF58476D1CE4E5B9 - 2**64
_SECOND = 0x94D049BB133111EB - 2**64

_CHUNK = 2**22
"""Input values that are copied at once."""
_PIXELS = 2**15
"""Pixels that are counted at once: PyTorch splits more among threads, which is slower."""


def draw_uniform(seed: int, epoch: int, index: Tensor, view: int, count: int) -> Tensor:
    """Draw uniform numbers in [0, 1), (B, count) float32.

    They are a hash of (seed, epoch, index, view, column) rather than the output of a generator, so
    that the draws of a sample do not depend on its rank, its batch or a restart.
    """
    column = torch.arange(1, count + 1, device=index.device)
    row_key = _mix(index.long() * _GOLDEN + seed_of("draws", seed, epoch, view))
    bits = _mix(row_key[:, None] + column * _GOLDEN)
    # A float32 holds 24 bits exactly, so that no draw rounds up to 1.
    return _shift_right(bits, 40).float() * 2.0**-24


def _mix(z: Tensor) -> Tensor:
    """Apply the finaliser of splitmix64; int64 products wrap as the unsigned ones do."""
    z = (z ^ _shift_right(z, 30)) * _FIRST
    z = (z ^ _shift_right(z, 27)) * _SECOND
    return z ^ _shift_right(z, 31)


def _shift_right(z: Tensor, bits: int) -> Tensor:
    """Shift right and fill with zeros; int64 would fill with the sign."""
    mask: int = 2 ** (64 - bits) - 1
    return (z >> bits) & mask


@dataclass(frozen=True)
class Augment:
    """Random crops of the zero-padded image and random flips, drawn for each sample of a batch.

    Zeros are padded to raw pixels, before normalisation, as usual for CIFAR. `crop` is the side of
    the window; None is the size of the image.
    """

    crop_padding: int
    flip: bool | Literal["alternate"]
    """At random, or in every other epoch: two epochs in a row then show both views of an image."""
    seed: int
    crop: int | None = None

    def __call__(
        self, x: Tensor, index: Tensor, epoch: int, view: int, is_strong: bool = False, turn: int = 0
    ) -> Tensor:
        """Augment images (B, C, H, W) uint8; `index` (B,) is -1 for padding rows.

        Images that already have the size of the window are not cropped again. `epoch` is part of
        the seed, and `turn` counts the epochs.
        """
        drawn = draw_uniform(self.seed, epoch, index, view, 3 + NUM_DRAWS * is_strong)
        top, left, mirror = drawn[:, :3].unbind(1)
        if self.crop_padding or self.crop:
            x = _crop(x, self.crop_padding, self.crop, top, left)
        if self.flip == "alternate":
            first = draw_uniform(self.seed, 0, index, view, 1)[:, 0] < 0.5
            x = _flip(x, first if turn % 2 else ~first)
        elif self.flip:
            x = _flip(x, mirror < 0.5)
        return augment_strongly(x, drawn[:, 3:]) if is_strong else x

    def places(self, index: Tensor, epoch: int, view: int) -> Tensor:
        """Return where windows begin (B, 2), as fractions of the free space above and to the left.

        Decoders use it to cut out windows themselves.
        """
        return draw_uniform(self.seed, epoch, index, view, 2)


def _flip(x: Tensor, is_flipped: Tensor) -> Tensor:
    """Flip the images that `is_flipped` (B,) marks.

    Whole images are copied, which takes a third of the time of choosing pixel by pixel.
    """
    own = torch.arange(len(x), device=x.device)
    return torch.cat([x, x.flip(3)]).index_select(0, own + len(x) * is_flipped)


def _crop(x: Tensor, padding: int, side: int | None, top: Tensor, left: Tensor) -> Tensor:
    """Cut a window out of each padded image; (top, left), in [0, 1), are where it begins."""
    padded = (F.pad(x, (padding,) * 4) if padding else x).contiguous()
    _, channels, *sides = padded.shape
    height, width = (side, side) if side else x.shape[2:]
    image, plane, line, _ = padded.stride()
    # Every position of memory seen as the start of a (C, H, W) window: selecting windows then
    # copies whole lines, several times as fast as indexing the unfolded image.
    window_span = (channels - 1) * plane + (height - 1) * line + width
    shape = (padded.numel() - window_span + 1, channels, height, width)
    windows = padded.as_strided(shape, (1, plane, line, 1))
    top, left = (top * (sides[0] - height + 1)).long(), (left * (sides[1] - width + 1)).long()
    return windows.index_select(0, torch.arange(len(x), device=x.device) * image + top * line + left)


def input_statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation: (C,) in raw 0..255 units for images, (D,) for features.

    The standard deviation of a constant is 1.
    """
    mean, variance = _pixel_moments(x) if x.dim() == 4 else _feature_moments(x)
    std = variance.clamp(min=0).sqrt()
    return mean.float(), torch.where(std > 0, std, 1.0).float()


def _pixel_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Compute mean and variance from a histogram per channel.

    This is exact, and ten times as fast as sums of floats.
    """
    counts = torch.stack([_histogram(x[:, channel]) for channel in range(x.shape[1])]).double()
    fraction = counts / counts.sum(1, keepdim=True)
    value = torch.arange(256, device=x.device).double()
    mean = fraction @ value
    return mean, (fraction * (value - mean[:, None]).square()).sum(1)


def _histogram(plane: Tensor) -> Tensor:
    """Count how often each of 0..255 occurs in (N, H, W)."""
    return torch.stack([torch.bincount(chunk.flatten(), minlength=256) for chunk in _chunks(plane, _PIXELS)]).sum(0)


def _feature_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    # Differences to the first row are exactly zero for a constant, and avoid cancellation in the
    # sum of squares.
    origin = x[0].double()
    first, second = torch.zeros_like(origin), torch.zeros_like(origin)
    for chunk in _chunks(x, _CHUNK):
        delta = chunk.double() - origin
        first += delta.sum(0)
        second += delta.square().sum(0)
    shift = first / len(x)
    return origin + shift, second / len(x) - shift.square()


def _chunks(x: Tensor, num_values: int) -> tuple[Tensor, ...]:
    return torch.split(x, max(1, num_values // max(1, x[0].numel())))
