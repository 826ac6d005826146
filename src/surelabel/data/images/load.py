"""Load encoded images as inputs: decoded once and cached, or streamed."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from surelabel.config import DataConfig
from surelabel.data import cache
from surelabel.data.images.decode import UnexpectedHeader, Unreadable, decode, decode_frame, map_positions, to_pixels
from surelabel.data.images.encode import SUFFIXES, ArrowBytes, Blobs, Encoded, Files, is_image
from surelabel.data.images.frames import FramedImages
from surelabel.data.images.stream import StreamedImages
from surelabel.data.images.survey import LARGEST_DEFAULT_SIDE, Survey, TargetSize, survey_all, survey_sample
from surelabel.data.images.windows import frame_size
from surelabel.data.inputs import ANY_SIZE, Inputs, MappedInputs, Shape, available_memory, select_rows
from surelabel.errors import DataError

__all__ = [
    "SUFFIXES",
    "ArrowBytes",
    "Blobs",
    "Encoded",
    "Files",
    "fit_to_shape",
    "is_image",
    "load_images",
    "square_shape",
]

IN_MEMORY = 2 * 2**30
"""Largest number of bytes of decoded images that are held in memory."""
_SMALL_IMAGE = 64 * 64
"""Pixels up to which images in memory are decoded by one thread; more would wait for the GIL."""

_VERSION = 1
"""Version of the decoding; a new number invalidates all decoded images in the cache."""
_SIZE_RULE = "median"
"""How the size of images that differ in it is chosen; another word invalidates the cache too."""
_NAMES_SHOWN = 5

_log = logging.getLogger("surelabel")


class Images(NamedTuple):
    """Images that could be read."""

    x: Inputs
    """(n, C, H, W) uint8."""
    kept: np.ndarray
    """(n,) which of the encoded images they are."""
    encoded: Encoded | None
    """The same images as they are stored; None if `x` has all there is."""


class _Job(NamedTuple):
    """Images to load, their target size, and whether the result is cached."""

    encoded: Encoded
    target: TargetSize
    is_cached: bool
    digest: str

    def key(self, kind: str) -> str:
        # Images for windows are other ones: their long sides are whole.
        suffix = ["windows"] if self.target.has_windows else []
        suffix += [] if self.target.largest is None else [f"at most {self.target.largest}"]
        size = (self.target.shape, self.target.image_size)
        return cache.make_key(kind, _VERSION, _SIZE_RULE, self.digest, *size, *suffix)

    def entry(self, kind: str, make: cache.Make) -> cache.Entry:
        return cache.load_or_make(self.key(kind), make) if self.is_cached else cache.make_in_memory(make)


def load_images(encoded: Encoded, config: DataConfig, shape: Shape | None, where: str) -> Images:
    """Return the images that can be read.

    Images are made to fit `shape` if it is given. Otherwise greyscale sets have one channel and
    others three, and `config.image_size` is the side. Without either, a common size is kept, and
    different sizes are brought to the median of their short sides, at most 64, or at most
    `config.largest_size` in both cases. With `config.crop` images are not cut to that shape, but
    keep their long side, of which windows can be cut.

    Unreadable images are an error, or with `config.unreadable` "skip" are logged and left out.
    `config.decode` tells whether images are decoded now, into the cache, or whenever they are used.
    """
    if shape is not None and len(shape) != 3:
        raise DataError(f"{where}: holds images; expected {_describe(shape)}")
    if not len(encoded):
        raise DataError(f"{where}: no images to train on")
    own = None if shape == ANY_SIZE else shape
    target = TargetSize(own, config.image_size, has_windows=config.crop is not None, largest=config.largest_size)
    job = _Job(encoded, target, config.cache, encoded.digest() if config.cache else "")
    survey = _survey_for_streaming(job, config.decode)
    if survey is None:
        x, survey = _decode_once(job)
    else:
        x = StreamedImages(encoded, survey.shape, config.workers, target.has_windows)
    kept = _select_readable(survey, encoded, config.unreadable == "skip", where)
    if survey.sides is not None and shape != ANY_SIZE:
        _warn_about_sizes(survey, encoded, where, target.has_windows)
    if len(kept) < len(encoded):
        x, encoded = select_rows(x, kept), encoded.subset(kept)
    return Images(x, kept, encoded)


def fit_to_shape(x: Inputs, shape: Shape | None, where: str, crop: int | None = None) -> Inputs:
    """Resize images (N, C, H, W) to `shape`; features must already have it; None keeps all.

    If windows of side `crop` will be cut, images keep their whole long side.
    """
    found = tuple(x.shape[1:])
    if shape is None or found == shape or (shape == ANY_SIZE and len(found) == 3):
        return x
    if shape == ANY_SIZE or len(found) != 3 or len(shape) != 3 or not isinstance(x, Tensor):
        raise DataError(f"{where}: holds {_describe(found)}; expected {_describe(shape)}")
    size = shape[1:] if crop is None else frame_size((found[1], found[2]), (shape[1], shape[2]))
    images = (Image.fromarray(row[0] if len(row) == 1 else np.moveaxis(row, 0, 2)) for row in x.numpy())
    pixels = np.stack([to_pixels(image, (shape[0], *size)) for image in images])
    if size == shape[1:]:
        return torch.from_numpy(pixels)
    return FramedImages(pixels.reshape(-1), np.tile(size, (len(x), 1)), shape)


def square_shape(x: Inputs, image_size: int | None) -> Shape | None:
    """Return the shape of images in memory after resizing; None for features or without a size."""
    return (x.shape[1], image_size, image_size) if image_size and len(x.shape) == 4 else None


def _survey_for_streaming(job: _Job, mode: str) -> Survey | None:
    """Survey images that are to be streamed; return None if they are to be decoded once.

    With "auto" the size of all decoded images decides; cached images are not opened for that.
    """
    if mode != "auto":
        return _survey_cached(job) if mode == "stream" else None
    survey = _survey_cached(job) if _estimate_bytes(job) > IN_MEMORY else None
    return survey if survey is not None and survey.num_bytes(len(job.encoded)) > IN_MEMORY else None


def _estimate_bytes(job: _Job) -> int:
    """Estimate the bytes of all decoded images, from the cache or a few headers if possible."""
    known = cache.find(job.key("images")) if job.is_cached else None
    if known is not None:
        return known.array.nbytes
    guess = survey_sample(job.encoded, job.target)
    if guess is None and job.target.has_windows:
        guess = _survey_cached(job)
    default = Survey((3, LARGEST_DEFAULT_SIDE, LARGEST_DEFAULT_SIDE))
    return (guess or default).num_bytes(len(job.encoded))


def _survey_cached(job: _Job) -> Survey:
    """Survey the headers, or take the survey of an earlier run from the cache."""

    def make(allocate: cache.Allocate) -> dict[str, object]:
        found = survey_all(job.encoded, job.target, thorough=True)
        frames = () if found.frames is None else found.frames.flatten()
        out = allocate((len(found.shape) + len(frames),), np.int64)
        out[:] = (*found.shape, *frames)
        return _survey_to_dict(found)

    numbers, about = job.entry("survey", make)
    frames = np.array(numbers[3:]).reshape(-1, 2)
    return _survey_from_dict(tuple(map(int, numbers[:3])), about, frames if len(frames) else None)


def _decode_once(job: _Job) -> tuple[Inputs, Survey]:
    """Decode images into the cache, or take them from there."""

    def make(allocate: cache.Allocate) -> dict[str, object]:
        guess = survey_sample(job.encoded, job.target)
        try:
            return _decode_into(allocate, job.encoded, guess or survey_all(job.encoded, job.target))
        except UnexpectedHeader:  # the sample was not like all
            return _decode_into(allocate, job.encoded, survey_all(job.encoded, job.target))

    array, about = job.entry("images", make)
    if "frames" not in about:
        return _make_inputs(array, job), _survey_from_dict(tuple(array.shape[1:]), about)
    shape, frames = tuple(about["shape"]), np.array(about["frames"], dtype=np.int64).reshape(-1, 2)
    return _make_framed(array, frames, shape, job), _survey_from_dict(shape, about, frames)


def _decode_into(allocate: cache.Allocate, encoded: Encoded, survey: Survey) -> dict[str, object]:
    """Decode every image to its position, and describe them; unreadable ones stay zero."""
    shape, frames = survey.shape, survey.frames
    if frames is None:
        whole = allocate((len(encoded), *shape), np.uint8)

        def fill(position: int) -> None:
            whole[position] = decode(encoded, position, shape, survey.agrees)

        return _survey_to_dict(replace(survey, unreadable=_decode_all(encoded, shape, fill)))
    framed = FramedImages(allocate((survey.num_bytes(len(encoded)),), np.uint8), frames, shape)

    def fill_frame(position: int) -> None:
        framed.frame(position)[:] = decode_frame(encoded, position, shape)

    about = _survey_to_dict(replace(survey, unreadable=_decode_all(encoded, shape, fill_frame)))
    return {**about, "shape": shape, "frames": frames.tolist()}


def _decode_all(encoded: Encoded, shape: Shape, fill: Callable[[int], None]) -> dict[int, str]:
    """Call `fill` for every position, and return why images could not be read."""
    unreadable = dict[int, str]()

    def try_to_fill(position: int) -> None:
        try:
            fill(position)
        except Unreadable as error:
            unreadable[position] = str(error)

    in_threads = not encoded.is_in_memory or math.prod(shape[1:]) > _SMALL_IMAGE
    for _ in map_positions(try_to_fill, len(encoded), f"decoding {len(encoded):,} images", in_threads):
        pass
    return dict(sorted(unreadable.items()))


def _make_framed(array: np.ndarray, frames: np.ndarray, shape: Shape, job: _Job) -> FramedImages:
    """Return frames in memory, or mapped from disk if they are too large."""
    if not isinstance(array, np.memmap) or _has_room_for(array):
        return FramedImages(np.array(array), frames, shape)
    return FramedImages(array, frames, shape, cache.make_key("frames", _VERSION, job.encoded.stamp(), shape))


def _make_inputs(array: np.ndarray, job: _Job) -> Inputs:
    """Return decoded images in memory, or mapped from disk if they are too large."""
    if not isinstance(array, np.memmap):
        return torch.from_numpy(array)
    if _has_room_for(array):
        return torch.from_numpy(np.array(array))
    stamp = cache.make_key("images", _VERSION, job.encoded.stamp(), array.shape)
    return MappedInputs(cache.array_path(job.key("images")), array, stamp=stamp)


def _has_room_for(array: np.ndarray) -> bool:
    return array.nbytes <= min(IN_MEMORY, available_memory() // 2)


def _survey_to_dict(survey: Survey) -> dict[str, object]:
    return {"sides": survey.sides, "small": survey.small, "unreadable": list(survey.unreadable.items())}


def _survey_from_dict(shape: Shape, about: dict[str, Any], frames: np.ndarray | None = None) -> Survey:
    sides = about["sides"]
    sides = None if sides is None else tuple(sides)
    return Survey(shape, sides, tuple(about["small"]), dict(about["unreadable"]), frames=frames)


def _select_readable(survey: Survey, encoded: Encoded, may_skip: bool, where: str) -> np.ndarray:
    """Return the positions of readable images; report the others."""
    kept = np.delete(np.arange(len(encoded)), list(survey.unreadable))
    if not survey.unreadable:
        return kept
    bad = list(survey.unreadable)
    listed = (
        f"{where}: {len(bad):,} of {len(encoded):,} images cannot be read: {_list(encoded, bad, survey.unreadable)}"
    )
    if not may_skip or not len(kept):
        raise DataError(f"{listed}; data.unreadable=skip leaves them out" if len(kept) else listed)
    _log.warning("%s; they are left out", listed)
    return kept


def _warn_about_sizes(survey: Survey, encoded: Encoded, where: str, has_windows: bool) -> None:
    assert survey.sides is not None
    _log.warning(
        "%s: images differ in size (sides from %d to %d): all are resized %s %d x %d; "
        "data.image_size sets another side",
        *(where, *survey.sides, "to cover" if has_windows else "and centre-cropped to", *survey.shape[1:]),
    )
    if survey.small:
        _log.warning(
            "%s: %s less than half as large, and will be blurred: %s",
            *(where, "1 image is" if len(survey.small) == 1 else f"{len(survey.small):,} images are"),
            _list(encoded, survey.small),
        )


def _list(encoded: Encoded, positions: Sequence[int], reasons: Mapping[int, str] | None = None) -> str:
    """Name the first images, the first of them with its reason, and count the others."""
    names = list(map(encoded.name, positions[:_NAMES_SHOWN]))
    if reasons is not None:
        names[0] = f"{names[0]}: {reasons[positions[0]]}"
    more = f" and {len(positions) - _NAMES_SHOWN:,} more" if len(positions) > _NAMES_SHOWN else ""
    return "; ".join(names) + more


def _describe(shape: Shape) -> str:
    if len(shape) == 1:
        return f"{shape[0]} features per row" if shape[0] else "text"
    channels, height, width = shape
    return f"images of {height} x {width} pixels with {channels} channel(s)"
