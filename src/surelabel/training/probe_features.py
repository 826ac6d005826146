"""Fixed features of the training rows for the second opinion: none of them has seen a label."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from surelabel.data.corpus import Examples
from surelabel.models import TINY_SIDE
from surelabel.models.patches import draw_filters

SIDE = 32
"""Larger images are scaled down to this many pixels on the longer side."""
NUM_FILTERS = 128
PATCH_SIDE = 6
ROWS_AT_ONCE = 1000
ROWS_TO_DRAW_FROM = 5000
"""Images that filters are drawn from."""


def probe_features(rows: Examples, seed: int) -> np.ndarray:
    """Return (N, D) float32 features: vectors and tiny images as they are, other images by random patches."""
    if not rows.is_image or max(rows.x.shape[2:]) <= TINY_SIDE:
        return torch.cat([rows.x[part].float().flatten(1) for part in _parts(len(rows))]).numpy()
    some = torch.linspace(0, len(rows) - 1, min(len(rows), ROWS_TO_DRAW_FROM)).long()
    filters = draw_filters(_shrunk(rows.x[some]), NUM_FILTERS, PATCH_SIDE, seed)
    return torch.cat([filters.features(_shrunk(rows.x[part])) for part in _parts(len(rows))]).numpy()


def _parts(num_rows: int) -> tuple[Tensor, ...]:
    return torch.arange(num_rows).split(ROWS_AT_ONCE)


def _shrunk(images: Tensor) -> Tensor:
    """Return (B, C, h, w) uint8 images whose longer side has at most SIDE pixels."""
    height, width = images.shape[2:]
    longer = max(height, width)
    if longer <= SIDE:
        return images
    size = [max(2 * PATCH_SIDE, round(side * SIDE / longer)) for side in (height, width)]
    return F.interpolate(images.float(), size, mode="area").round().to(torch.uint8)
