"""What image networks require of their input: its shape, size and pixel scale."""

import torch
from torch import Tensor, nn

from surelabel.errors import ConfigError

SMALL_SIDE = 64
"""Images of up to this many pixels per side keep their size in the first layers of a network."""

PixelScale = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation per channel that weights were trained with, for pixels in 0..1."""

IMAGENET: PixelScale = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def image_shape(input_shape: tuple[int, ...], network: str) -> tuple[int, int, int]:
    """Return the shape as (C, H, W); raise ConfigError if the inputs are not images."""
    if len(input_shape) != 3:
        raise ConfigError(
            f"model.name: {network} takes images (channels, height, width), but these inputs have the shape "
            f"{tuple(input_shape)}; use mlp"
        )
    channels, height, width = input_shape
    return channels, height, width


def is_large(input_shape: tuple[int, ...]) -> bool:
    """Return whether images are large enough for the first layers to shrink them."""
    return max(input_shape[1:]) > SMALL_SIDE


def get_pixel_scale(backbone: nn.Module, input_shape: tuple[int, ...]) -> tuple[Tensor, Tensor] | None:
    """Return the mean and standard deviation (C, 1, 1) of pixels in 0..255 that the weights expect.

    None if the backbone has no `pixel_scale`, or one for another number of channels.
    """
    known: PixelScale | None = getattr(backbone, "pixel_scale", None)
    if known is None:
        return None
    mean, std = (255 * torch.tensor(values) for values in known)
    if input_shape[0] == 1:  # grey images: the first layer's weights are summed over the colours
        mean, std = mean.mean(0, keepdim=True), std.mean(0, keepdim=True)
    return (mean.view(-1, 1, 1), std.view(-1, 1, 1)) if len(mean) == input_shape[0] else None
