"""Survey the headers of many images: their channels, their size and which are unreadable."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from surelabel.data.images.decode import Header, Unreadable, map_positions, read_header
from surelabel.data.images.encode import Encoded
from surelabel.data.inputs import Shape

LARGEST_DEFAULT_SIDE = 64
"""Largest default side in pixels of images that differ in size."""
_SMALLEST_SIDE = 4
_SAMPLE_SIZE = 16


class TargetSize(NamedTuple):
    """The size to which images are brought."""

    shape: Shape | None
    """(C, H, W); None takes what the images have in common."""
    image_size: int | None
    """Side in pixels if `shape` is None; None keeps a size that all images share."""


@dataclass(frozen=True)
class Survey:
    """What the headers tell about a set of images."""

    shape: Shape
    """(C, H, W) to which the images are brought."""
    sides: tuple[int, int] | None = None
    """The smallest and the largest side if sizes differ and the configuration sets none."""
    unreadable: dict[int, str] = field(default_factory=dict)
    """Reasons by position."""
    is_guess: bool = False
    """Whether the shape was guessed from a sample and other images may contradict it."""
    keeps_size: bool = False
    """Whether height and width are those of the images."""

    def agrees(self, found: Header) -> bool:
        """Return whether an image with this header confirms the shape."""
        channels, *size = self.shape
        has_size = not self.keeps_size or [found.height, found.width] == size
        return not self.is_guess or (has_size and (channels == 3 or found.is_grey))


def survey_sample(encoded: Encoded, target: TargetSize) -> Survey | None:
    """Guess from a few images; None if their sizes differ with none set, or all are damaged."""
    if target.shape is not None:
        return Survey(target.shape)
    positions = np.unique(np.linspace(0, len(encoded) - 1, _SAMPLE_SIZE).astype(int))
    headers = {found for position in positions if isinstance(found := _try_header(encoded, int(position)), Header)}
    guess = _summarise(headers, target.image_size)
    return None if guess.sides or not headers else replace(guess, is_guess=True)


def survey_all(encoded: Encoded, target: TargetSize, thorough: bool = False) -> Survey:
    """Read all headers; `thorough` also finds truncated files."""
    found = list(
        map_positions(lambda p: _try_header(encoded, p, thorough), len(encoded), f"looking at {len(encoded):,} images")
    )
    headers = {header for header in found if isinstance(header, Header)}
    common = _summarise(headers, target.image_size) if target.shape is None else Survey(target.shape)
    return replace(common, unreadable={p: reason for p, reason in enumerate(found) if isinstance(reason, str)})


def _try_header(encoded: Encoded, position: int, thorough: bool = False) -> Header | str:
    """Read a header, or return why it cannot be read."""
    try:
        return read_header(encoded, position, thorough)
    except Unreadable as error:
        return str(error)


def _summarise(headers: set[Header], image_size: int | None) -> Survey:
    channels = 1 if all(header.is_grey for header in headers) else 3
    sizes = {(header.height, header.width) for header in headers}
    if image_size is not None:
        return Survey((channels, image_size, image_size))
    if len(sizes) == 1:
        return Survey((channels, *sizes.pop()), keeps_size=True)
    sides = min(map(min, sizes), default=0), max(map(max, sizes), default=0)
    side = max(_SMALLEST_SIDE, min(LARGEST_DEFAULT_SIDE, sides[0]))
    return Survey((channels, side, side), sides)
