"""What many images have in common, from their headers: one number of channels, one size, and which of them cannot be read."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from surelabel.data.images.decode import Header, Unreadable, header
from surelabel.data.images.encode import Encoded
from surelabel.data.images.threads import each
from surelabel.data.inputs import Shape

LARGEST_DEFAULT_SIDE = 64
"""Pixels, of images that differ in size."""
_SMALLEST_SIDE = 4
_SAMPLED = 16


class Wanted(NamedTuple):
    """What the images are to become."""

    shape: Shape | None
    """(C, H, W); None is what they have in common."""
    image_size: int | None
    """The side, where there is no shape; None keeps a size that all share."""


@dataclass(frozen=True)
class Survey:
    """What is known of a set of images."""

    shape: Shape
    """(C, H, W) that they are brought to."""
    sides: tuple[int, int] | None = None
    """The smallest and the largest side, where sizes differ and nobody said which to take."""
    unreadable: dict[int, str] = field(default_factory=dict)
    """Why, by position."""
    is_guess: bool = False
    """Whether only a few images were looked at, and the others may show that the shape is another."""
    keeps_size: bool = False
    """Whether height and width are those of the images themselves."""

    def agrees(self, found: Header) -> bool:
        """Whether an image with this header leaves the shape what it is."""
        channels, *size = self.shape
        has_size = not self.keeps_size or [found.height, found.width] == size
        return not self.is_guess or (has_size and (channels == 3 or found.is_grey))


def sampled(encoded: Encoded, wanted: Wanted) -> Survey | None:
    """A guess from a few images; None where their sizes differ and nobody said which to take, or none can be read."""
    if wanted.shape is not None:
        return Survey(wanted.shape)
    positions = np.unique(np.linspace(0, len(encoded) - 1, _SAMPLED).astype(int))
    seen = {found for position in positions if isinstance(found := _looked_at(encoded, int(position)), Header)}
    guess = _of_headers(seen, wanted.image_size)
    return None if guess.sides or not seen else replace(guess, is_guess=True)


def surveyed(encoded: Encoded, wanted: Wanted, thorough: bool = False) -> Survey:
    """From all headers; a thorough one also finds files whose end is missing."""
    found = list(each(lambda p: _looked_at(encoded, p, thorough), len(encoded), f"looking at {len(encoded):,} images"))
    seen = {one for one in found if isinstance(one, Header)}
    common = _of_headers(seen, wanted.image_size) if wanted.shape is None else Survey(wanted.shape)
    return replace(common, unreadable={p: reason for p, reason in enumerate(found) if isinstance(reason, str)})


def _looked_at(encoded: Encoded, position: int, thorough: bool = False) -> Header | str:
    """The header, or why there is none."""
    try:
        return header(encoded, position, thorough)
    except Unreadable as error:
        return str(error)


def _of_headers(seen: set[Header], image_size: int | None) -> Survey:
    channels = 1 if all(one.is_grey for one in seen) else 3
    sizes = {(one.height, one.width) for one in seen}
    if image_size is not None:
        return Survey((channels, image_size, image_size))
    if len(sizes) == 1:
        return Survey((channels, *sizes.pop()), keeps_size=True)
    sides = min(map(min, sizes), default=0), max(map(max, sizes), default=0)
    side = max(_SMALLEST_SIDE, min(LARGEST_DEFAULT_SIDE, sides[0]))
    return Survey((channels, side, side), sides)
