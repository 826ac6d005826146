"""Rows that come one by one, gathered into inputs: arrays of one shape, or Pillow images of any size."""

import io
from abc import ABC, abstractmethod

import numpy as np
from PIL import Image, ImageOps

from surelabel.config import DataConfig
from surelabel.data.images.load import Blobs, fitted, load_images, square
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.array_conversion import as_pixels, as_tensor, channels_first
from surelabel.errors import DataError

_CHUNK = 256
"""Rows that are converted at once."""

_ORIENTATION = 0x0112
"""The EXIF tag."""
_PPM = {"L": b"P5", "RGB": b"P6"}
_PNG = ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16")

Content = np.ndarray | Image.Image


class Collected(ABC):
    """Inputs of a known number of rows, added in their order."""

    @abstractmethod
    def add(self, x: Content, row: int) -> None:
        """Keep a copy of the next row."""

    @abstractmethod
    def inputs(self, config: DataConfig, shape: Shape | None) -> tuple[Inputs, np.ndarray]:
        """All rows, and the positions of those that could be read."""


class Pictures(Collected):
    """Pillow images, which may differ in size and mode."""

    def __init__(self, num_rows: int, where: str) -> None:
        self._where = where
        self._blobs: list[bytes] = []

    def add(self, x: Content, row: int) -> None:
        """Keep it uncompressed, in a format that all other code for images can read."""
        if not isinstance(x, Image.Image):
            raise DataError(f"{self._where}: row {row} is no image, as row 0 is, but {type(x).__name__}")
        if x.mode == "F":
            raise DataError(f"{self._where}: row {row}: pixels are 32-bit floats; 8-bit and 16-bit images are allowed")
        self._blobs.append(_encoded(x if x.getexif().get(_ORIENTATION, 1) == 1 else ImageOps.exif_transpose(x)))

    def inputs(self, config: DataConfig, shape: Shape | None) -> tuple[Inputs, np.ndarray]:
        """Decoded once; there is no file that a cache could stand for."""
        names = [f"{self._where}, row {row}" for row in range(len(self._blobs))]
        in_memory = config.model_copy(update={"cache": False, "decode": "once"})
        return load_images(Blobs(self._blobs, names), in_memory, shape, self._where)


def _encoded(image: Image.Image) -> bytes:
    # PPM is a header and the pixels: far faster than PNG, which takes the modes that PPM has not.
    if image.mode in _PPM and not image.has_transparency_data:
        return b"%b %d %d 255\n" % (_PPM[image.mode], *image.size) + image.tobytes()
    plain = image if image.mode in _PNG else image.convert("RGB")
    file = io.BytesIO()
    plain.save(file, "PNG", compress_level=0)
    return file.getvalue()


class Arrays(Collected):
    """Arrays of one shape: feature vectors, or images as pixels or floats in [0, 1]."""

    def __init__(self, num_rows: int, where: str) -> None:
        self._num_rows, self._where = num_rows, where
        self._chunk = np.empty(0)
        self._all = np.empty(0)
        self._num_added = 0

    def add(self, x: Content, row: int) -> None:
        """Copy it, since a data set may use the same memory for its next row."""
        if not isinstance(x, np.ndarray):
            raise DataError(f"{self._where}: row {row} is no array, as row 0 is, but {type(x).__name__}")
        if not self._num_added:
            self._begin(x)
        if x.shape != self._chunk.shape[1:]:
            expected = self._chunk.shape[1:]
            raise DataError(
                f"{self._where}: row {row} has the shape {x.shape} and row 0 {expected}; all must have the same"
            )
        place = self._num_added % _CHUNK
        self._chunk[place] = x
        self._num_added += 1
        if place == _CHUNK - 1 or self._num_added == self._num_rows:
            self._flush(place + 1)

    def inputs(self, config: DataConfig, shape: Shape | None) -> tuple[Inputs, np.ndarray]:
        """In `shape`, or in the size that the configuration asks for."""
        x: Inputs = as_tensor(self._all)
        return fitted(x, shape or square(x, config.image_size), self._where), np.arange(self._num_rows)

    def _begin(self, x: np.ndarray) -> None:
        if x.ndim not in (1, 2, 3) or not x.size or x.dtype.kind not in "biuf":
            raise DataError(
                f"{self._where}: row 0 is {x.dtype} of shape {x.shape}; expected an image (H, W), (H, W, C) or (C, H, W), "
                "or features (D,)"
            )
        self._chunk = np.empty((_CHUNK, *x.shape), dtype=x.dtype)
        inner = x.shape if x.ndim == 1 else channels_first(self._chunk, self._where).shape[1:]
        self._all = np.empty((self._num_rows, *inner), dtype=np.float32 if x.ndim == 1 else np.uint8)

    def _flush(self, count: int) -> None:
        start = self._num_added - count
        rows = self._chunk[:count]
        if rows.ndim == 2:
            with np.errstate(over="ignore"):
                self._all[start : self._num_added] = rows
        else:
            self._all[start : self._num_added] = self._pixels(rows)

    def _pixels(self, rows: np.ndarray) -> np.ndarray:
        try:
            return as_pixels(channels_first(rows, self._where), self._where)
        except DataError as error:
            raise DataError(f"{error}; a normalisation is to be left out, surelabel does its own") from None
