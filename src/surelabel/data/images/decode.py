"""Decode images: upright, without transparency, 8 bits, with the requested size and channels.

Also the way back from pixels to a picture, and the threads that decode many images.
"""

import errno
import functools
import io
import logging
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeVar

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from surelabel.data.images.encode import Encoded
from surelabel.data.images.windows import frame_size
from surelabel.errors import DataError

if TYPE_CHECKING:  # worker processes start without PyTorch
    from torch import Tensor

    from surelabel.data.inputs import Shape

_ORIENTATION = 0x0112
"""EXIF tag; values of 5 and more swap width and height."""
_FORMATS = ("PNG", "JPEG", "WEBP", "MPO", "BMP", "GIF", "TIFF", "PPM", "JPEG2000", "AVIF")
"""Pillow's names of the formats we try.

Trying all of Pillow's formats takes as long as decoding, and some pass the file to other programs.
"""
_ENDS = {"JPEG": b"\xff\xd9", "PNG": b"IEND\xaeB`\x82", "GIF": b";"}
"""Last bytes of complete files, by Pillow's name of the format."""
_TRANSIENT = (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT)
"""Errors of the machine, which must not mark the image as unreadable."""
PROGRESS_INTERVAL = 5.0
"""Seconds between two lines of progress in the log."""
MAX_SHOWN_PIXELS = 50 * 10**6
"""Of a picture that is decoded to be looked at; JPEGs are decoded at a fraction of their size."""
_ITEMS_PER_TASK = 64
_MAX_THREADS = 8

_log = logging.getLogger("surelabel")
_Result = TypeVar("_Result")


class Unreadable(Exception):
    """An image cannot be read; the text says why."""


class Header(NamedTuple):
    """Properties of an image that are known before it is decoded."""

    height: int
    width: int
    is_grey: bool


class UnexpectedHeader(Exception):
    """An image differs from the sample whose shape was assumed for all."""


def read_header(encoded: Encoded, position: int, thorough: bool = False) -> Header:
    """Read size and kind without decoding; `thorough` decodes files that look truncated."""
    with _open_image(encoded, position) as (image, file):
        found = _header(image)
        if thorough and not _is_complete(image, file):
            image.load()
        return found


def decode(
    encoded: Encoded, position: int, shape: "Shape", agrees: Callable[[Header], bool] = lambda _: True
) -> np.ndarray:
    """Decode an image to (C, H, W) uint8; raise UnexpectedHeader if its header does not agree."""
    with _open_image(encoded, position) as (image, _):
        if not agrees(_header(image)):
            raise UnexpectedHeader
        _shrink_while_decoding(image, shape[1:])
        return to_pixels(_upright(image), shape)


def decode_frame(encoded: Encoded, position: int, shape: "Shape") -> np.ndarray:
    """Decode an image that is resized to cover (C, H, W), with its whole long side, to uint8."""
    with _open_image(encoded, position) as (image, _):
        found = _header(image)
        height, width = frame_size((found.height, found.width), (shape[1], shape[2]))
        _shrink_while_decoding(image, shape[1:])
        whole = _convert_channels(_upright(image), shape[0])
        return _planes(whole.resize((width, height), Image.Resampling.BICUBIC))


def decode_whole(encoded: Encoded, position: int, side: int) -> np.ndarray:
    """Decode an image, scaled to a square in colour, (3, side, side) uint8."""
    with _open_image(encoded, position) as (image, _):
        _header(image)
        _shrink_while_decoding(image, (side, side))
        return _planes(_convert_channels(_upright(image), 3).resize((side, side), Image.Resampling.BICUBIC))


def decode_to_look_at(encoded: Encoded, position: int, max_side: int) -> Image.Image:
    """Decode an image to a picture for people, L or RGB, with sides of at most `max_side`."""
    with _open_image(encoded, position) as (image, _):
        _header(image)  # refuses kinds of pixels that cannot be shown
        if max(image.size) > max_side:
            image.draft(None, (max_side, max_side))
        if image.width * image.height > MAX_SHOWN_PIXELS:
            raise Unreadable(f"more than {MAX_SHOWN_PIXELS // 10**6} megapixels, which would take too much memory")
        whole = _flatten(_upright(image))
        picture = whole if whole.mode in ("L", "RGB") else whole.convert("RGB")
        picture.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
        return picture.copy()


def to_pixels(image: Image.Image, shape: "Shape") -> np.ndarray:
    """Resize an image to cover (C, H, W), crop it about the centre and return uint8 pixels."""
    channels, height, width = shape
    flat = _convert_channels(image, channels)
    if flat.size != (width, height):
        flat = ImageOps.fit(flat, (width, height), Image.Resampling.BICUBIC)
    return _planes(flat)


def to_image(pixels: "Tensor") -> Image.Image:
    """Make a picture of pixels (C, H, W) uint8.

    One or two channels are shown as grey; of more than three, the first three are shown.
    """
    array = pixels.numpy()
    return Image.fromarray(array[0] if len(array) < 3 else np.ascontiguousarray(array[:3].transpose(1, 2, 0)))


def num_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_positions(
    function: Callable[[int], _Result], count: int, task: str, in_threads: bool = True
) -> Iterator[_Result]:
    """Yield `function` of 0, 1, ... `count` - 1 in order, and log the progress of long tasks.

    `task` is what the log calls it, as in "decoding 10 images".
    """

    def run(start: int) -> list[_Result]:
        return [function(position) for position in range(start, min(start + _ITEMS_PER_TASK, count))]

    last_log, num_done, starts = time.monotonic(), 0, range(0, count, _ITEMS_PER_TASK)
    with ThreadPoolExecutor(min(_MAX_THREADS, num_cores())) as pool:
        for results in pool.map(run, starts) if in_threads else map(run, starts):
            yield from results
            num_done += len(results)
            if time.monotonic() - last_log >= PROGRESS_INTERVAL:
                last_log = time.monotonic()
                _log.info("%s: %d %%", task, 100 * num_done // count)


@contextmanager
def _open_image(encoded: Encoded, position: int) -> Iterator[tuple[Image.Image, BinaryIO]]:
    """Open an image and its file; raise Unreadable for damaged images, not for transient errors."""
    try:
        with encoded.open(position) as file, Image.open(file, formats=_formats()) as image:
            yield image, file
    except (Unreadable, UnexpectedHeader):
        raise
    except MemoryError:
        with encoded.open(position) as file:
            size = file.seek(0, io.SEEK_END)
        raise DataError(f"{encoded.name(position)}: does not fit into memory ({size:,} bytes on disk)") from None
    except Image.DecompressionBombError:
        limit = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        raise Unreadable(f"more than {limit} pixels, Pillow's limit against decompression bombs") from None
    # Damaged files make Pillow raise OSError, SyntaxError, struct.error, zlib.error and others.
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _TRANSIENT:
            raise DataError(f"{encoded.name(position)}: {error.strerror}") from None
        raise Unreadable(f"not readable as an image ({_reason(error)})") from None


@functools.cache
def _formats() -> tuple[str, ...]:
    """Return the formats that this build of Pillow can open."""
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _reason(error: Exception) -> str:
    """Describe an error without the file's name, for which Pillow writes an object's address."""
    if isinstance(error, UnidentifiedImageError):
        return "of no known format"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()) or type(error).__name__


def _header(image: Image.Image) -> Header:
    if image.mode == "F":
        raise Unreadable("pixels are 32-bit floats; 8-bit and 16-bit images are allowed")
    width, height = image.size
    if _orientation(image) >= 5:
        width, height = height, width
    return Header(height, width, image.mode in ("1", "L", "LA", "La") or image.mode.startswith("I"))


def _orientation(image: Image.Image) -> int:
    return int(image.getexif().get(_ORIENTATION, 1))


def _is_complete(image: Image.Image, file: BinaryIO) -> bool:
    """Return whether the file ends as its format demands; False if that is unknown."""
    end = _ENDS.get(image.format or "")
    if end is None:
        return False
    here = file.tell()
    file.seek(-len(end), 2)
    found = file.read()
    file.seek(here)
    return found == end


def _upright(image: Image.Image) -> Image.Image:
    """Turn an image as the camera was held; Pillow would copy even images that need no turn."""
    return image if _orientation(image) == 1 else ImageOps.exif_transpose(image)


def _convert_channels(image: Image.Image, channels: int) -> Image.Image:
    flat, mode = _flatten(image), "L" if channels == 1 else "RGB"
    return flat if flat.mode == mode else flat.convert(mode)


def _flatten(image: Image.Image) -> Image.Image:
    """Reduce to 8 bits and put transparent images on white, as viewers show them."""
    if image.mode.startswith("I"):
        # Some versions of Pillow clip 16-bit values at 255, which would yield white images.
        return Image.fromarray((np.asarray(image).clip(0, 65535) >> 8).astype(np.uint8))
    if not image.has_transparency_data:
        return image
    solid = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", solid.size, "white"), solid)


def _planes(image: Image.Image) -> np.ndarray:
    values = np.asarray(image)
    return values[None] if values.ndim == 2 else values.transpose(2, 0, 1)


def _shrink_while_decoding(image: Image.Image, min_size: tuple[int, ...]) -> None:
    """Decode a JPEG at 1/2, 1/4 or 1/8 of its size if that covers `min_size` (height, width)."""
    height, width = min_size if _orientation(image) < 5 else min_size[::-1]
    scale = max(height / image.height, width / image.width)
    if scale <= 0.5:
        image.draft(None, (round(image.width * scale), round(image.height * scale)))
