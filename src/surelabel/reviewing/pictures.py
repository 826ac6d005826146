"""A sample's image as PNG, drawn from the data in memory: no path comes from outside."""

import io

import torch

from surelabel.data.corpus import Examples
from surelabel.data.images.decode import to_image


def png(rows: Examples, position: int) -> bytes:
    """The image at a position."""
    file = io.BytesIO()
    shown = to_image(rows.x[torch.tensor([position])][0])
    shown.save(file, "PNG", compress_level=1)  # it travels a few centimetres
    return file.getvalue()
