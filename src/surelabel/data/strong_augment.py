"""Strong views of images: one change of tone, one of geometry, and a square cut out, drawn for each sample of a batch.

In the manner of RandAugment with two operations followed by Cutout (Cubuk et al., 2020; Sohn et al., 2020), in operations that a whole
batch can do at once. The ranges below are ours, near the published ones as far as we remember them; they were not compared.
A row never depends on its batch: every value comes from operations that are rounded element by element.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

NUM_DRAWS = 7
"""Uniform numbers that a sample's strong view takes."""

_TONES = 5  # brightness, contrast, saturation, posterise, solarise
_GEOMETRIES = 5  # rotation, shear along x and y, shift along x and y
_LEAST_FACTOR, _LARGEST_FACTOR = 0.1, 1.9
_MOST_BITS_LOST = 4
_HALF_TURN = 0.27  # tangent of half the largest angle, which is 30 degrees
_SHEAR = 0.3
_SHIFT = 0.6  # of half the side
_CUT = 0.5  # of the side
_GREY = 128


def strong(x: Tensor, draws: Tensor) -> Tensor:
    """(B, C, H, W) uint8 in, the same shape and type out; `draws` (B, NUM_DRAWS) are uniform in [0, 1)."""
    tone, how_much, geometry, how_far, *cut = draws[:, :, None, None].unbind(1)
    x = _toned(x, (tone * _TONES).long()[:, None], how_much[:, None])
    x = _moved(x, (geometry * _GEOMETRIES).long(), 2 * how_far - 1)
    return _cut_out(x, *cut)


def _toned(x: Tensor, kind: Tensor, amount: Tensor) -> Tensor:
    """Brightness, contrast and saturation blend with black, with the mean and with grey; the others look at bits and values."""
    factor = torch.where(kind < 3, _LEAST_FACTOR + (_LARGEST_FACTOR - _LEAST_FACTOR) * amount, 1.0)
    base = _mean(x) * (kind == 1) + _grey(x) * (kind == 2)
    x = (x * factor + base * (1 - factor)).round_().clamp_(0, 255).to(torch.uint8)
    lost = torch.where(kind == 3, (amount * (_MOST_BITS_LOST + 1)).long(), 0).to(torch.uint8)
    x = (x >> lost) << lost
    highest = torch.where(kind == 4, (amount * 256).long(), 255).to(torch.uint8)
    return x ^ 255 * (x > highest).to(torch.uint8)  # above it the negative


def _mean(x: Tensor) -> Tensor:
    """(B, 1, 1, 1) from whole numbers, because a sum of floats depends on how a batch is divided among threads."""
    return (x.flatten(1).sum(1) / x[0].numel()).floor()[:, None, None, None]


def _grey(x: Tensor) -> Tensor:
    """(B, 1, H, W) the mean over channels."""
    channels = x.to(torch.int16).unbind(1)
    return (sum(channels[1:], channels[0]) / len(channels)).floor()[:, None]


def _moved(x: Tensor, kind: Tensor, amount: Tensor) -> Tensor:
    """Rotated, sheared or shifted, with black beyond the edge."""
    down, right = (_positions(length, x.device) for length in x.shape[2:])
    down, right = down[None, :, None], right[None, None, :]
    cosine, sine = _rotation(torch.where(kind == 0, _HALF_TURN * amount, 0.0))
    shear_x, shear_y = (torch.where(kind == number, _SHEAR * amount, 0.0) for number in (1, 2))
    shift_x, shift_y = (torch.where(kind == number, _SHIFT * amount, 0.0) for number in (3, 4))
    from_right = cosine * right + (shear_x - sine) * down + shift_x
    from_down = cosine * down + (shear_y + sine) * right + shift_y
    source = torch.stack([from_right, from_down], dim=3)
    moved = F.grid_sample(x.float().contiguous(), source, padding_mode="zeros", align_corners=False)
    return moved.round_().clamp_(0, 255).to(torch.uint8)


def _positions(length: int, device: torch.device) -> Tensor:
    """The middles of pixels in [-1, 1]."""
    return (2 * torch.arange(length, device=device) + 1) / length - 1


def _rotation(half: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine from the tangent of half the angle: exact arithmetic, where those functions may differ in the last bit."""
    square = half * half
    return (1 - square) / (1 + square), 2 * half / (1 + square)


def _cut_out(x: Tensor, down: Tensor, right: Tensor, size: Tensor) -> Tensor:
    """A grey square of at most half the side; part of it may lie outside."""
    height, width = x.shape[2:]
    half = size * (_CUT / 2 * min(height, width))
    lines, columns = (torch.arange(length, device=x.device) + 0.5 for length in (height, width))
    is_far_down = (lines[None, :, None] - down * height).abs() >= half
    is_far_right = (columns[None, None, :] - right * width).abs() >= half
    kept = (is_far_down | is_far_right)[:, None].to(torch.uint8)
    return x * kept + _GREY * (1 - kept)
