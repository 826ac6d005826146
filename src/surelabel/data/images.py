"""Images from files or bytes to tensors: decoding, one common size, one number of channels."""

import hashlib
import io
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from surelabel.config import DataConfig
from surelabel.data.inputs import Inputs, Shape
from surelabel.errors import DataError

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff"})

_ORIENTATION = 0x0112
"""The EXIF tag; its values from 5 on swap width and height."""
_LARGEST_DEFAULT_SIDE = 64
_SMALLEST_SIDE = 4
_FILES_PER_TASK = 64

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_log = logging.getLogger("surelabel")


class _Header(NamedTuple):
    height: int
    width: int
    is_grey: bool


def is_image(path: Path) -> bool:
    """Whether the name ends like an image's."""
    return path.suffix.lower() in SUFFIXES


class Encoded(ABC):
    """N images that are not decoded yet."""

    @abstractmethod
    def __len__(self) -> int:
        """N."""

    @abstractmethod
    def open(self, position: int) -> Path | BinaryIO:
        """What Pillow opens."""

    @abstractmethod
    def name(self, position: int) -> str:
        """What to call the image in messages."""

    @abstractmethod
    def subset(self, positions: np.ndarray) -> "Encoded":
        """The images at `positions`."""

    @abstractmethod
    def digest(self) -> str:
        """A hash that changes when an image changes."""


class Files(Encoded):
    """Image files."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = list(paths)

    def __len__(self) -> int:
        return len(self.paths)

    def open(self, position: int) -> Path:
        """The path."""
        return self.paths[position]

    def name(self, position: int) -> str:
        """The path."""
        return str(self.paths[position])

    def subset(self, positions: np.ndarray) -> "Files":
        """The files at `positions`."""
        return Files([self.paths[position] for position in positions])

    def digest(self) -> str:
        """Of names, sizes and times: reading every file would take as long as decoding it."""
        digest = hashlib.sha256()
        for path in self.paths:
            status = path.stat()
            digest.update(f"{path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
        return digest.hexdigest()


class Blobs(Encoded):
    """Images as bytes, as tables hold them; `names` are what to call them in messages."""

    def __init__(self, blobs: Sequence[bytes], names: Sequence[str]) -> None:
        self.blobs, self.names = blobs, names

    def __len__(self) -> int:
        return len(self.blobs)

    def open(self, position: int) -> BinaryIO:
        """The bytes as a file."""
        return io.BytesIO(self.blobs[position])

    def name(self, position: int) -> str:
        """Its name."""
        return self.names[position]

    def subset(self, positions: np.ndarray) -> "Blobs":
        """The images at `positions`."""
        return Blobs([self.blobs[p] for p in positions], [self.names[p] for p in positions])

    def digest(self) -> str:
        """Of the bytes."""
        digest = hashlib.sha256()
        for blob in self.blobs:
            digest.update(len(blob).to_bytes(8, "little"))
            digest.update(blob)
        return digest.hexdigest()


def load_images(encoded: Encoded, config: DataConfig, shape: Shape | None, where: str) -> tuple[Inputs, np.ndarray]:
    """The images as (n, C, H, W) uint8, and the positions (n,) of those that could be read.

    With `shape` they are made to fit it. Otherwise greyscale sets have one channel, others three; `image_size` is the
    side; without it an equal size is kept, and different ones are brought to the smallest side seen, at most 64. Those that cannot be
    read are an error, or with `config.unreadable` "skip" are left out and listed.
    """
    if shape is not None and len(shape) != 3:
        raise DataError(f"{where}: holds images; expected {_described(shape)}")
    if shape is None:
        shape = _common_shape(_in_threads(lambda p: _header(encoded, p), range(len(encoded))), config.image_size, where)
    pixels = np.empty((len(encoded), *shape), dtype=np.uint8)

    def fill(position: int) -> None:
        pixels[position] = _decoded(encoded, position, shape)

    for _ in _in_threads(fill, range(len(encoded))):
        pass
    return torch.from_numpy(pixels), np.arange(len(encoded))


def fitted(x: Inputs, shape: Shape | None, where: str) -> Inputs:
    """Inputs (N, ...) in `shape`: images are resized and change their channels, features must agree; None keeps all."""
    found = tuple(x.shape[1:])
    if shape is None or found == shape:
        return x
    if len(found) != 3 or len(shape) != 3:
        raise DataError(f"{where}: holds {_described(found)}; expected {_described(shape)}")
    assert isinstance(x, Tensor)
    images = (Image.fromarray(row[0] if len(row) == 1 else np.moveaxis(row, 0, 2)) for row in x.numpy())
    return torch.from_numpy(np.stack([_pixels(image, shape) for image in images]))


def square(x: Inputs, image_size: int | None) -> Shape | None:
    """The shape that `image_size` asks of images already in memory."""
    return (x.shape[1], image_size, image_size) if image_size and len(x.shape) == 4 else None


def _common_shape(headers: Iterator[_Header], image_size: int | None, where: str) -> Shape:
    seen = set(headers)
    if not seen:
        raise DataError(f"{where}: no images to train on")
    channels = 1 if all(header.is_grey for header in seen) else 3
    sizes = {(header.height, header.width) for header in seen}
    if image_size is None and len(sizes) == 1:
        return (channels, *sizes.pop())
    side = image_size or _default_side(sizes, where)
    return channels, side, side


def _default_side(sizes: set[tuple[int, int]], where: str) -> int:
    smallest = min(map(min, sizes))
    side = max(_SMALLEST_SIDE, min(_LARGEST_DEFAULT_SIDE, smallest))
    _log.warning(
        "%s: images differ in size (sides from %d to %d): all are resized and centre-cropped to %d x %d; "
        "data.image_size sets another side",
        *(where, smallest, max(map(max, sizes)), side, side),
    )
    return side


def _in_threads(function: Callable[[_Item], _Result], items: Sequence[_Item]) -> Iterator[_Result]:
    """`map` over threads, in order; Pillow releases the interpreter while it decodes."""

    def task(start: int) -> list[_Result]:
        return [function(item) for item in items[start : start + _FILES_PER_TASK]]

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for results in pool.map(task, range(0, len(items), _FILES_PER_TASK)):
            yield from results


@contextmanager
def _opened(encoded: Encoded, position: int) -> Iterator[Image.Image]:
    """An image; whatever Pillow stumbles over becomes an error that names it."""
    path = encoded.name(position)
    try:
        with Image.open(encoded.open(position)) as image:
            yield image
    except DataError:
        raise
    except Image.DecompressionBombError:
        limit = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        raise DataError(f"{path}: more than {limit} pixels, Pillow's limit against decompression bombs") from None
    # Damaged files make Pillow's readers raise nearly anything: OSError, SyntaxError, struct.error, zlib.error.
    except Exception as error:
        reason = " ".join(str(error).replace(f" {path!r}", "").replace(path, "the file").split())
        raise DataError(f"{path}: not readable as an image ({reason or type(error).__name__})") from None


def _header(encoded: Encoded, position: int) -> _Header:
    """Size and kind without decoding the pixels."""
    with _opened(encoded, position) as image:
        width, height = image.size
        if image.getexif().get(_ORIENTATION, 1) >= 5:
            width, height = height, width
        return _Header(height, width, _is_grey(image))


def _is_grey(image: Image.Image) -> bool:
    return image.mode in ("1", "L", "LA", "La", "F") or image.mode.startswith("I")


def _decoded(encoded: Encoded, position: int, shape: Shape) -> np.ndarray:
    with _opened(encoded, position) as image:
        if image.mode == "F":
            raise DataError(f"{encoded.name(position)}: pixels are 32-bit floats; 8-bit and 16-bit images are allowed")
        return _pixels(ImageOps.exif_transpose(image), shape)


def _pixels(image: Image.Image, shape: Shape) -> np.ndarray:
    """(C, H, W) uint8: resized until it covers the shape, then cropped about the centre."""
    channels, height, width = shape
    flat = _flat(image)
    flat = flat.convert("L" if channels == 1 else "RGB")
    if flat.size != (width, height):
        flat = ImageOps.fit(flat, (width, height), Image.Resampling.BICUBIC)
    pixels = np.asarray(flat)
    return pixels[None] if channels == 1 else np.moveaxis(pixels, 2, 0)


def _flat(image: Image.Image) -> Image.Image:
    """8 bits and no transparency: on white, as viewers show it, because colours nobody sees mean nothing."""
    if image.mode.startswith("I"):
        # Pillow cuts 16-bit values off at 255 in some versions, which would leave white images.
        return Image.fromarray((np.asarray(image).clip(0, 65535) >> 8).astype(np.uint8))
    if not image.has_transparency_data:
        return image
    solid = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", solid.size, "white"), solid)


def _described(shape: Shape) -> str:
    if len(shape) == 1:
        return f"{shape[0]} features per row"
    channels, height, width = shape
    return f"images of {height} x {width} pixels with {channels} channel(s)"
