"""Strong views of images: one change of colour, one of geometry, and a square cut out.

They follow RandAugment with two operations and then Cutout (Cubuk et al., 2020; Sohn et al., 2020),
in operations that work on a whole batch at once. The ranges below are ours; they were chosen close
to the published ones from memory and not compared with them. An image never depends on its batch:
all arithmetic is rounded element by element.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

NUM_DRAWS = 7
"""Uniform numbers that the strong view of a sample takes."""

_COLOURS = 5  # brightness, contrast, saturation, posterise, solarise
_GEOMETRIES = 5  # rotation, shear along x and y, shift along x and y
_MIN_FACTOR, _MAX_FACTOR = 0.1, 1.9
_MAX_BITS_LOST = 4
_HALF_ANGLE = 0.27  # tangent of half the largest angle, which is 30 degrees
_SHEAR = 0.3
_SHIFT = 0.6  # of half the side
_CUT = 0.5  # of the side
_GREY = 128


def augment_strongly(x: Tensor, draws: Tensor) -> Tensor:
    """Augment images (B, C, H, W) uint8; `draws` (B, NUM_DRAWS) are uniform in [0, 1)."""
    colour, how_much, geometry, how_far, *cut = draws[:, :, None, None].unbind(1)
    x = _change_colour(x, (colour * _COLOURS).long()[:, None], how_much[:, None])
    x = _move(x, (geometry * _GEOMETRIES).long(), 2 * how_far - 1)
    return _cut_out(x, *cut)


def _change_colour(x: Tensor, kind: Tensor, amount: Tensor) -> Tensor:
    """Change one of brightness, contrast, saturation, bits and inversion.

    The first three blend with black, with the mean and with grey.
    """
    factor = torch.where(kind < 3, _MIN_FACTOR + (_MAX_FACTOR - _MIN_FACTOR) * amount, 1.0)
    base = _mean(x) * (kind == 1) + _grey(x) * (kind == 2)
    x = (x * factor + base * (1 - factor)).round_().clamp_(0, 255).to(torch.uint8)
    lost = torch.where(kind == 3, (amount * (_MAX_BITS_LOST + 1)).long(), 0).to(torch.uint8)
    x = (x >> lost) << lost
    highest = torch.where(kind == 4, (amount * 256).long(), 255).to(torch.uint8)
    return x ^ 255 * (x > highest).to(torch.uint8)  # invert the values above it


def _mean(x: Tensor) -> Tensor:
    """Return the mean (B, 1, 1, 1).

    Whole numbers are summed: a sum of floats depends on how threads divide a batch.
    """
    return (x.flatten(1).sum(1) / x[0].numel()).floor()[:, None, None, None]


def _grey(x: Tensor) -> Tensor:
    """Return the mean (B, 1, H, W) over channels."""
    channels = x.to(torch.int16).unbind(1)
    return (sum(channels[1:], channels[0]) / len(channels)).floor()[:, None]


def _move(x: Tensor, kind: Tensor, amount: Tensor) -> Tensor:
    """Rotate, shear or shift, with black beyond the edge."""
    down, right = (_positions(length, x.device) for length in x.shape[2:])
    down, right = down[None, :, None], right[None, None, :]
    cosine, sine = _rotation(torch.where(kind == 0, _HALF_ANGLE * amount, 0.0))
    shear_x, shear_y = (torch.where(kind == number, _SHEAR * amount, 0.0) for number in (1, 2))
    shift_x, shift_y = (torch.where(kind == number, _SHIFT * amount, 0.0) for number in (3, 4))
    from_right = cosine * right + (shear_x - sine) * down + shift_x
    from_down = cosine * down + (shear_y + sine) * right + shift_y
    source = torch.stack([from_right, from_down], dim=3)
    moved = F.grid_sample(x.float().contiguous(), source, padding_mode="zeros", align_corners=False)
    return moved.round_().clamp_(0, 255).to(torch.uint8)


def _positions(length: int, device: torch.device) -> Tensor:
    """Return the centres of pixels in [-1, 1]."""
    return (2 * torch.arange(length, device=device) + 1) / length - 1


def _rotation(half: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosine and sine from the tangent of half the angle.

    This is exact arithmetic; torch.cos and torch.sin may differ in the last bit.
    """
    square = half * half
    return (1 - square) / (1 + square), 2 * half / (1 + square)


def _cut_out(x: Tensor, down: Tensor, right: Tensor, size: Tensor) -> Tensor:
    """Cut out a grey square of at most half the side, which may be partly outside."""
    height, width = x.shape[2:]
    half = size * (_CUT / 2 * min(height, width))
    lines, columns = (torch.arange(length, device=x.device) + 0.5 for length in (height, width))
    is_far_down = (lines[None, :, None] - down * height).abs() >= half
    is_far_right = (columns[None, None, :] - right * width).abs() >= half
    kept = (is_far_down | is_far_right)[:, None].to(torch.uint8)
    return x * kept + _GREY * (1 - kept)
