"""Samples as small pictures: images as PNG or JPEG, features as bars."""

import base64
import io

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from surelabel.data.corpus import Examples
from surelabel.data.images.decode import to_image
from surelabel.reporting.markup import Html, element

SMALL_SIDE = 64
"""Pixels up to which an image is kept as it is and drawn larger with sharp edges."""
THUMBNAIL_SIDE = 120
JPEG_QUALITY = 70
MOST_BARS = 64
"""Features of a row that are drawn; of more, neighbours are averaged."""
BAR_HEIGHT = 40
MEASURED_VALUES = 2_000_000
"""Values from which the usual range of features is taken."""


def data_uri(kind: str, content: bytes) -> str:
    """The content in the page itself."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def image(pixels: Tensor, text: str) -> Html:
    """(C, H, W) uint8 as an <img>."""
    drawn = to_image(pixels)
    is_small = max(drawn.size) <= SMALL_SIDE
    uri = data_uri("image/png", _png(drawn)) if is_small else data_uri("image/jpeg", _jpeg(drawn))
    return element("img", src=uri, alt=text, class_="pixels" if is_small else "photo", loading="lazy", decoding="async")


def _png(drawn: Image.Image) -> bytes:
    file = io.BytesIO()
    drawn.save(file, "PNG", optimize=True)
    return file.getvalue()


def _jpeg(drawn: Image.Image) -> bytes:
    drawn.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    file = io.BytesIO()
    drawn.save(file, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return file.getvalue()


class Scale:
    """Where the middle of each feature lies, and how far it spreads; measured on some rows, evenly taken."""

    def __init__(self, train: Examples) -> None:
        size = min(len(train), max(2, MEASURED_VALUES // int(train.x.shape[1])))
        rows = torch.linspace(0, len(train) - 1, size).long()
        low, self.middle, high = np.quantile(train.x[rows].numpy(), (0.05, 0.5, 0.95), axis=0)
        self.spread = np.maximum(high - self.middle, self.middle - low).clip(1e-12)

    def heights(self, values: Tensor) -> np.ndarray:
        """In [-1, 1]: 0 is the middle of all rows, 1 and -1 are its usual extremes."""
        return ((values.numpy() - self.middle) / self.spread).clip(-1, 1)


def bars(values: Tensor, scale: Scale, text: str) -> Html:
    """(D,) features as bars up and down from the middle of all rows."""
    heights = [float(part.mean()) for part in np.array_split(scale.heights(values), min(MOST_BARS, len(values)))]
    half = BAR_HEIGHT / 2
    drawn = [
        element(
            "rect",
            x=at,
            y=f"{half - max(height, 0) * half:.1f}",
            width="0.8",
            height=f"{max(abs(height) * half, 0.5):.1f}",
            class_="up" if height >= 0 else "down",
        )
        for at, height in enumerate(heights)
    ]
    box = f"0 0 {len(heights)} {BAR_HEIGHT}"
    return element("svg", *drawn, role="img", aria_label=text, viewBox=box, preserveAspectRatio="none", class_="bars")
