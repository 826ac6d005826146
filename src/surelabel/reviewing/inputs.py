"""Inputs as the page shows them: an image as PNG, features beside the means of two classes.

Originals are encoded again, so that nothing but pixels of the data set reaches the browser.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from surelabel.data.corpus import Examples
from surelabel.data.images.decode import to_image

MAX_MEASURED_ROWS = 20_000
"""Class means are taken from at most this many training rows, evenly spaced."""
MAX_SIDE = 2560
"""Of an original as the page shows it, in pixels."""
LOSSLESS_SIDE = 256
"""Pictures up to this size are sent without loss."""
JPEG_QUALITY = 92
MAX_VALUES = 200
"""Features that the page lists; the most telling ones come first."""


def encode_png(image: Tensor) -> bytes:
    """Encode an image (C, H, W) uint8."""
    file = io.BytesIO()
    to_image(image).save(file, "PNG", compress_level=1)  # it does not leave this machine
    return file.getvalue()


def encode_picture(picture: Image.Image) -> tuple[bytes, str]:
    """Encode a picture, L or RGB; return the bytes and their media type."""
    file = io.BytesIO()
    if max(picture.size) <= LOSSLESS_SIDE:
        picture.save(file, "PNG", compress_level=1)
        return file.getvalue(), "image/png"
    picture.save(file, "JPEG", quality=JPEG_QUALITY)
    return file.getvalue(), "image/jpeg"


class FeatureTable:
    """Describes feature vectors by name, value, and the mean of two classes."""

    def __init__(self, train: Examples, num_classes: int, names: Sequence[str] | None = None) -> None:
        size = int(train.x.shape[1])
        self.names = list(names) if names is not None and len(names) == size else [f"x{n}" for n in range(size)]
        rows = torch.linspace(0, len(train) - 1, min(MAX_MEASURED_ROWS, len(train))).long()
        x, label = train.x[rows].double(), train.label[rows]
        self.mean = _class_means(x, label, num_classes)
        # Within classes: a feature that tells classes apart varies more between them.
        self.spread = (x - self.mean[label]).square().mean(0).sqrt().clamp(min=1e-12)

    def describe_blindly(self, rows: Examples, position: int, given: int) -> list[Mapping[str, Any]]:
        """Return the features of a row in the order of the data, beside the means of one class."""
        columns = {"value": rows.x[torch.tensor([position])][0], "given_mean": self.mean[given]}
        shown = range(min(len(self.names), MAX_VALUES))
        return [{"name": self.names[n]} | {name: float(column[n]) for name, column in columns.items()} for n in shown]

    def describe(self, rows: Examples, position: int, given: int, suggested: int) -> list[Mapping[str, Any]]:
        """Return the features of a row, those that favour one of the two classes most first.

        `pull` is how much nearer a value is to the mean of the suggested class than to that of the
        given class, in standard deviations.
        """
        value = rows.x[torch.tensor([position])][0].double()
        pull = ((value - self.mean[given]).abs() - (value - self.mean[suggested]).abs()) / self.spread
        order = torch.argsort(-pull.abs(), stable=True)[:MAX_VALUES].tolist()
        columns = {"value": value, "given_mean": self.mean[given], "suggested_mean": self.mean[suggested], "pull": pull}
        return [{"name": self.names[n]} | {name: float(column[n]) for name, column in columns.items()} for n in order]


def _class_means(x: Tensor, label: Tensor, num_classes: int) -> Tensor:
    """Return the class means (K, D); a class without rows gets the mean of all rows."""
    total = torch.zeros(num_classes, x.shape[1], dtype=x.dtype).index_add_(0, label, x)
    count = label.bincount(minlength=num_classes)[:, None]
    return torch.where(count > 0, total / count.clamp(min=1), x.mean(0))
