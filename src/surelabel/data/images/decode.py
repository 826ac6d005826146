"""One image from its bytes to pixels: upright, without transparency, 8 bits, of the size and channels that were asked for."""

import errno
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

import numpy as np
from PIL import Image, ImageOps

from surelabel.data.images.encode import Encoded
from surelabel.data.inputs import Shape
from surelabel.errors import DataError

_ORIENTATION = 0x0112
"""The EXIF tag; its values from 5 on swap width and height."""
_FORMATS = ("PNG", "JPEG", "WEBP", "MPO", "BMP", "GIF", "TIFF", "PPM", "JPEG2000", "AVIF")
"""By Pillow's names. Not all that it knows: to try them all takes as long as decoding, and some hand the file to other programs."""
_ENDS = {"JPEG": b"\xff\xd9", "PNG": b"IEND\xaeB`\x82", "GIF": b";"}
"""How whole files end, by Pillow's name of the format."""


_PASSING = (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT)
"""Faults of the machine, of which nothing is to be remembered about the image."""


class Unreadable(Exception):
    """Why an image cannot be read."""


class Header(NamedTuple):
    """What is known of an image before it is decoded."""

    height: int
    width: int
    is_grey: bool


class Unexpected(Exception):
    """An image that is not like the few which were looked at first."""


def header(encoded: Encoded, position: int, thorough: bool = False) -> Header:
    """Size and kind, without decoding the pixels; a thorough look decodes files whose end seems to be missing."""
    with opened(encoded, position) as (image, file):
        found = _header(image)
        if thorough and not _has_its_end(image, file):
            image.load()
        return found


def decoded(
    encoded: Encoded, position: int, shape: Shape, agrees: Callable[[Header], bool] = lambda _: True
) -> np.ndarray:
    """(C, H, W) uint8; an image whose header does not agree raises Unexpected before it is decoded."""
    with opened(encoded, position) as (image, _):
        if not agrees(_header(image)):
            raise Unexpected
        _shrink_while_decoding(image, shape[1:])
        return pixels(_upright(image), shape)


def windows(encoded: Encoded, position: int, shape: Shape, side: int, places: np.ndarray) -> np.ndarray:
    """(n, C, side, side) uint8 windows of an image that is as large as it must be to cover `shape`.

    `places` (n, 2) are where in the free space each one begins, from the top and from the left, in [0, 1).
    """
    with opened(encoded, position) as (image, _):
        _header(image)
        _shrink_while_decoding(image, shape[1:])
        whole = _in_colours(_upright(image), shape[0])
        return np.stack([_window(whole, _covering(whole, shape[1:]), side, place) for place in places])


def pixels(image: Image.Image, shape: Shape) -> np.ndarray:
    """(C, H, W) uint8: resized until it covers the shape, then cropped about the centre."""
    channels, height, width = shape
    flat = _in_colours(image, channels)
    if flat.size != (width, height):
        flat = ImageOps.fit(flat, (width, height), Image.Resampling.BICUBIC)
    return _planes(flat)


@contextmanager
def opened(encoded: Encoded, position: int) -> Iterator[tuple[Image.Image, BinaryIO]]:
    """An image and its file; whatever Pillow stumbles over becomes Unreadable, but not what will be over another time."""
    try:
        with encoded.open(position) as file, Image.open(file, formats=_formats()) as image:
            yield image, file
    except (Unreadable, Unexpected, MemoryError):
        raise
    except Image.DecompressionBombError:
        limit = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        raise Unreadable(f"more than {limit} pixels, Pillow's limit against decompression bombs") from None
    # Damaged files make Pillow's readers raise nearly anything: OSError, SyntaxError, struct.error, zlib.error.
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _PASSING:
            raise DataError(f"{encoded.name(position)}: {error.strerror}") from None
        raise Unreadable(f"not readable as an image ({_reason(error)})") from None


@functools.cache
def _formats() -> tuple[str, ...]:
    """Those that this Pillow can open."""
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _reason(error: Exception) -> str:
    """Without the file's name, which Pillow gives as the address of an object."""
    if isinstance(error, Image.UnidentifiedImageError):
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
    return image.getexif().get(_ORIENTATION, 1)


def _has_its_end(image: Image.Image, file: BinaryIO) -> bool:
    """Whether the bytes end as this format does; False where that is not known."""
    end = _ENDS.get(image.format or "")
    if end is None:
        return False
    here = file.tell()
    file.seek(-len(end), 2)
    found = file.read()
    file.seek(here)
    return found == end


def _upright(image: Image.Image) -> Image.Image:
    """As the camera was held; Pillow's own function would copy images that need no turn."""
    return image if _orientation(image) == 1 else ImageOps.exif_transpose(image)


def _in_colours(image: Image.Image, channels: int) -> Image.Image:
    flat, mode = _flat(image), "L" if channels == 1 else "RGB"
    return flat if flat.mode == mode else flat.convert(mode)


def _flat(image: Image.Image) -> Image.Image:
    """8 bits and no transparency: on white, as viewers show it, because colours nobody sees mean nothing."""
    if image.mode.startswith("I"):
        # Pillow cuts 16-bit values off at 255 in some versions, which would leave white images.
        return Image.fromarray((np.asarray(image).clip(0, 65535) >> 8).astype(np.uint8))
    if not image.has_transparency_data:
        return image
    solid = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", solid.size, "white"), solid)


def _planes(image: Image.Image) -> np.ndarray:
    values = np.asarray(image)
    return values[None] if values.ndim == 2 else values.transpose(2, 0, 1)


def _shrink_while_decoding(image: Image.Image, least: tuple[int, ...]) -> None:
    """Let a JPEG be decoded at half, a quarter or an eighth of its size where that still covers (height, width)."""
    height, width = least if _orientation(image) < 5 else least[::-1]
    scale = max(height / image.height, width / image.width)
    if scale <= 0.5:
        image.draft(None, (round(image.width * scale), round(image.height * scale)))


def _covering(image: Image.Image, least: tuple[int, ...]) -> tuple[int, int]:
    """(height, width) of the image when it is resized until it covers `least`."""
    scale = max(least[0] / image.height, least[1] / image.width)
    return max(least[0], round(image.height * scale)), max(least[1], round(image.width * scale))


def _window(image: Image.Image, frame: tuple[int, int], side: int, place: np.ndarray) -> np.ndarray:
    """A window of the image resized to `frame`, without resizing the rest of it."""
    top, left = (int(float(share) * (length - side + 1)) for share, length in zip(place, frame, strict=True))
    if frame == (image.height, image.width):
        return _planes(image.crop((left, top, left + side, top + side)))
    down, right = image.height / frame[0], image.width / frame[1]
    box = left * right, top * down, min((left + side) * right, image.width), min((top + side) * down, image.height)
    return _planes(image.resize((side, side), Image.Resampling.BICUBIC, box))
