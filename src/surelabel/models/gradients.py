"""Fixed image features from histograms of oriented gradients (Dalal and Triggs, 2005).

Every pixel votes for the orientation of its brightness gradient, as strongly as the gradient is
steep, in the cell that it lies in. Each block of 2 x 2 cells is normalised, so that the features do
not depend on the lighting. They tell shapes apart, where random patches tell colours and textures.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

NUM_ORIENTATIONS = 9
"""The authors' value: bins over 180 degrees."""
NUM_CELLS = 4
"""Cells along each side of the image."""
BLOCK = 2
"""Cells along each side of a block."""
CLIP = 0.2
"""The authors' value: no component of a normalised block exceeds it."""
FLOOR = 1e-5
IMAGES_AT_ONCE = 256


def gradient_features(images: Tensor) -> Tensor:
    """Return the (N, 324) features of uint8 images (N, C, H, W)."""
    return torch.cat([_chunk_features(chunk.float() / 255) for chunk in torch.split(images, IMAGES_AT_ONCE)])


def _chunk_features(images: Tensor) -> Tensor:
    votes = _votes(images)
    cells = F.adaptive_avg_pool2d(votes, NUM_CELLS)
    blocks = F.unfold(cells, BLOCK)  # (B, orientations x 4, positions)
    return _normalise(_normalise(blocks).clamp(max=CLIP)).flatten(1)


def _normalise(blocks: Tensor) -> Tensor:
    return blocks / (blocks.square().sum(1, keepdim=True) + FLOOR**2).sqrt()


def _votes(images: Tensor) -> Tensor:
    """Return (B, orientations, H, W): the steepness of each pixel, shared by the two next bins."""
    padded = F.pad(images, (1, 1, 1, 1), mode="replicate")
    across = padded[:, :, 1:-1, 2:] - padded[:, :, 1:-1, :-2]
    down = padded[:, :, 2:, 1:-1] - padded[:, :, :-2, 1:-1]
    # Of several channels the one with the steepest gradient votes.
    steepness, channel = (across.square() + down.square()).sqrt().max(1, keepdim=True)
    across, down = across.gather(1, channel), down.gather(1, channel)
    angle = torch.atan2(down, across) / math.pi * NUM_ORIENTATIONS - 0.5
    lower = angle.floor()
    share = angle - lower
    votes = torch.zeros(len(images), NUM_ORIENTATIONS, *images.shape[2:])
    votes.scatter_add_(1, lower.long() % NUM_ORIENTATIONS, steepness * (1 - share))
    return votes.scatter_add_(1, (lower.long() + 1) % NUM_ORIENTATIONS, steepness * share)
