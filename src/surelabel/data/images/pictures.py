"""Pixels as a picture to look at."""

import numpy as np
from PIL import Image
from torch import Tensor


def picture(pixels: Tensor) -> Image.Image:
    """(C, H, W) uint8: one or two channels are shown as grey, of more than three the first three."""
    array = pixels.numpy()
    return Image.fromarray(array[0] if len(array) < 3 else np.ascontiguousarray(array[:3].transpose(1, 2, 0)))
