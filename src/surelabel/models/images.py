"""What image networks ask of their input."""

import torch
from torch import Tensor, nn

from surelabel.errors import ConfigError

SMALL_SIDE = 64
"""Images of at most this many pixels a side keep their size in a network's first layers."""

PixelScale = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and standard deviation of the channels that weights were trained with, of pixels in 0..1."""

IMAGENET: PixelScale = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def image_shape(input_shape: tuple[int, ...], network: str) -> tuple[int, int, int]:
    """(C, H, W), or an error that says what to use instead."""
    if len(input_shape) != 3:
        raise ConfigError(
            f"model.name: {network} takes images (channels, height, width), and these inputs have the shape "
            f"{tuple(input_shape)}; use mlp"
        )
    channels, height, width = input_shape
    return channels, height, width


def is_large(input_shape: tuple[int, ...]) -> bool:
    """Whether images are large enough to be shrunk by the first layers."""
    return max(input_shape[1:]) > SMALL_SIDE


def get_pixel_scale(backbone: nn.Module, input_shape: tuple[int, ...]) -> tuple[Tensor, Tensor] | None:
    """(C, 1, 1) mean and deviation, of pixels in 0..255, that a backbone's weights expect; None where it does not say."""
    known: PixelScale | None = getattr(backbone, "pixel_scale", None)
    if known is None:
        return None
    mean, std = (255 * torch.tensor(values) for values in known)
    if input_shape[0] == 1:  # grey images: the first layer sums what it has for the colours
        mean, std = mean.mean(0, keepdim=True), std.mean(0, keepdim=True)
    return (mean.view(-1, 1, 1), std.view(-1, 1, 1)) if len(mean) == input_shape[0] else None
