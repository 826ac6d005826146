"""Survey the headers of many images: their channels, their size and which are unreadable."""

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from surelabel.data.images.decode import Header, Unreadable, map_positions, read_header
from surelabel.data.images.encode import Encoded
from surelabel.data.images.windows import frame_size
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
    has_windows: bool = False
    """Whether windows will be cut, so that long sides must not be cut off before."""
    largest: int | None = None
    """The most pixels per side without both; None is LARGEST_DEFAULT_SIDE if sizes differ."""


@dataclass(frozen=True)
class Survey:
    """What the headers tell about a set of images."""

    shape: Shape
    """(C, H, W) to which the images are brought."""
    sides: tuple[int, int] | None = None
    """The smallest and the largest side if sizes differ and the configuration sets none."""
    small: tuple[int, ...] = ()
    """Positions of images less than half as large as `shape`, which are blown up."""
    unreadable: dict[int, str] = field(default_factory=dict)
    """Reasons by position."""
    is_guess: bool = False
    """Whether the shape was guessed from a sample and other images may contradict it."""
    keeps_size: bool = False
    """Whether height and width are those of the images."""
    keeps_ratio: bool = False
    """Whether all images have the ratio of `shape`, so that no side is cut off."""
    frames: np.ndarray | None = None
    """(N, 2) height and width of images from which windows are cut; None if all are as `shape`."""

    def agrees(self, found: Header) -> bool:
        """Return whether an image with this header confirms the shape."""
        channels, *size = self.shape
        has_size = not self.keeps_size or [found.height, found.width] == size
        has_ratio = not self.keeps_ratio or _has_ratio(found, self.shape)
        return not self.is_guess or (has_size and has_ratio and (channels == 3 or found.is_grey))

    def num_bytes(self, num_images: int) -> int:
        """Return the bytes of that many decoded images."""
        if self.frames is None:
            return num_images * math.prod(self.shape)
        return self.shape[0] * int(self.frames.prod(1, dtype=np.int64).sum())


def survey_sample(encoded: Encoded, target: TargetSize) -> Survey | None:
    """Guess from a few images; None if they differ in what must be known, or all are damaged."""
    if target.shape is not None and not target.has_windows:
        return Survey(target.shape)
    positions = np.unique(np.linspace(0, len(encoded) - 1, _SAMPLE_SIZE).astype(int))
    headers = [found for position in positions if isinstance(found := _try_header(encoded, int(position)), Header)]
    guess = _summarise(headers, target)
    if guess.sides or not headers or (target.has_windows and not guess.keeps_ratio):
        return None
    return replace(guess, is_guess=True)


def survey_all(encoded: Encoded, target: TargetSize, thorough: bool = False) -> Survey:
    """Read all headers; `thorough` also finds truncated files."""
    found = list(
        map_positions(lambda p: _try_header(encoded, p, thorough), len(encoded), f"looking at {len(encoded):,} images")
    )
    common = _summarise([header for header in found if isinstance(header, Header)], target)
    if common.sides:
        common = replace(common, small=_find_small(found, common.shape[1]))
    unreadable = {position: reason for position, reason in enumerate(found) if isinstance(reason, str)}
    needs_frames = target.has_windows and not common.keeps_ratio
    return replace(common, unreadable=unreadable, frames=_frames(found, common.shape) if needs_frames else None)


def _find_small(found: list[Header | str], side: int) -> tuple[int, ...]:
    headers = ((position, header) for position, header in enumerate(found) if isinstance(header, Header))
    return tuple(position for position, header in headers if 2 * _short_side(header) < side)


def _short_side(header: Header) -> int:
    return min(header.height, header.width)


def _frames(found: list[Header | str], shape: Shape) -> np.ndarray:
    """Return the size (N, 2) of each image resized to cover `shape`; unreadable ones have none."""
    _, height, width = shape
    sizes = [
        frame_size((header.height, header.width), (height, width)) if isinstance(header, Header) else (0, 0)
        for header in found
    ]
    return np.array(sizes, dtype=np.int64).reshape(-1, 2)


def _try_header(encoded: Encoded, position: int, thorough: bool = False) -> Header | str:
    """Read a header, or return why it cannot be read."""
    try:
        return read_header(encoded, position, thorough)
    except Unreadable as error:
        return str(error)


def _summarise(headers: list[Header], target: TargetSize) -> Survey:
    common = _find_shape(headers, target)
    keeps_ratio = target.has_windows and all(_has_ratio(header, common.shape) for header in headers)
    return replace(common, keeps_ratio=keeps_ratio)


def _has_ratio(header: Header, shape: Shape) -> bool:
    """Return whether an image can be resized to `shape` without cutting anything off."""
    return header.height * shape[2] == header.width * shape[1]


def _find_shape(headers: list[Header], target: TargetSize) -> Survey:
    if target.shape is not None:
        return Survey(target.shape)
    channels = 1 if all(header.is_grey for header in headers) else 3
    sizes = {(header.height, header.width) for header in headers}
    if target.image_size is not None:
        return Survey((channels, target.image_size, target.image_size))
    sides = min(map(min, sizes), default=0), max(map(max, sizes), default=0)
    if len(sizes) == 1:
        if target.largest is not None and sides[1] > target.largest:
            return Survey((channels, target.largest, target.largest))
        return Survey((channels, *sizes.pop()), keeps_size=True)
    # The median: one thumbnail among photos decides nothing.
    usual = sorted(map(_short_side, headers))[(len(headers) - 1) // 2] if headers else 0
    side = max(_SMALLEST_SIDE, min(target.largest or LARGEST_DEFAULT_SIDE, usual))
    return Survey((channels, side, side), sides)
