"""Load encoded images as inputs: decoded once and cached, or streamed."""

import logging
import math
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from surelabel.config import DataConfig
from surelabel.data import cache
from surelabel.data.images.decode import UnexpectedHeader, Unreadable, decode, map_positions, to_pixels
from surelabel.data.images.encode import SUFFIXES, ArrowBytes, Blobs, Encoded, Files, is_image
from surelabel.data.images.stream import StreamedImages
from surelabel.data.images.survey import LARGEST_DEFAULT_SIDE, Survey, TargetSize, survey_all, survey_sample
from surelabel.data.inputs import Inputs, MappedInputs, Shape, available_memory, select_rows
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
_NAMES_SHOWN = 5

_log = logging.getLogger("surelabel")


class _Job(NamedTuple):
    """Images to load, their target size, and whether the result is cached."""

    encoded: Encoded
    target: TargetSize
    is_cached: bool
    digest: str

    def key(self, kind: str) -> str:
        return cache.make_key(kind, _VERSION, self.digest, *self.target)

    def entry(self, kind: str, make: cache.Make) -> cache.Entry:
        return cache.load_or_make(self.key(kind), make) if self.is_cached else cache.make_in_memory(make)


def load_images(encoded: Encoded, config: DataConfig, shape: Shape | None, where: str) -> tuple[Inputs, np.ndarray]:
    """Return images (n, C, H, W) uint8 and the positions (n,) of those that could be read.

    Images are made to fit `shape` if it is given. Otherwise greyscale sets have one channel and
    others three, and `config.image_size` is the side. Without either, a common size is kept, and
    different sizes are brought to the smallest side, at most 64. Unreadable images are an error,
    or with `config.unreadable` "skip" are logged and left out. `config.decode` tells whether images
    are decoded now, into the cache, or each time they are used.
    """
    if shape is not None and len(shape) != 3:
        raise DataError(f"{where}: holds images; expected {_describe(shape)}")
    if not len(encoded):
        raise DataError(f"{where}: no images to train on")
    job = _Job(encoded, TargetSize(shape, config.image_size), config.cache, encoded.digest() if config.cache else "")
    survey = _survey_for_streaming(job, config.decode)
    if survey is None:
        x, survey = _decode_once(job)
    else:
        x = StreamedImages(encoded, survey.shape, config.workers)
    kept = _select_readable(survey, encoded, config.unreadable == "skip", where)
    if survey.sides is not None:
        _warn_about_sizes(survey, where)
    return x if len(kept) == len(encoded) else select_rows(x, kept), kept


def fit_to_shape(x: Inputs, shape: Shape | None, where: str) -> Inputs:
    """Resize images (N, C, H, W) to `shape`; features must already have it; None keeps all."""
    found = tuple(x.shape[1:])
    if shape is None or found == shape:
        return x
    if len(found) != 3 or len(shape) != 3 or not isinstance(x, Tensor):
        raise DataError(f"{where}: holds {_describe(found)}; expected {_describe(shape)}")
    images = (Image.fromarray(row[0] if len(row) == 1 else np.moveaxis(row, 0, 2)) for row in x.numpy())
    return torch.from_numpy(np.stack([to_pixels(image, shape) for image in images]))


def square_shape(x: Inputs, image_size: int | None) -> Shape | None:
    """Return the shape of images in memory after resizing; None for features or without a size."""
    return (x.shape[1], image_size, image_size) if image_size and len(x.shape) == 4 else None


def _survey_for_streaming(job: _Job, mode: str) -> Survey | None:
    """Survey images that are to be streamed; return None if they are to be decoded once.

    With "auto" the size of all decoded images decides; cached images are not opened for that.
    """
    if mode != "auto":
        return _survey_cached(job) if mode == "stream" else None
    known = cache.find(job.key("images")) if job.is_cached else None
    if known is None:
        guess = survey_sample(job.encoded, job.target)
        num_bytes = _num_bytes(job, (3, LARGEST_DEFAULT_SIDE, LARGEST_DEFAULT_SIDE) if guess is None else guess.shape)
    else:
        num_bytes = known.array.nbytes
    survey = _survey_cached(job) if num_bytes > IN_MEMORY else None
    return survey if survey is not None and _num_bytes(job, survey.shape) > IN_MEMORY else None


def _num_bytes(job: _Job, shape: Shape) -> int:
    return len(job.encoded) * math.prod(shape)


def _survey_cached(job: _Job) -> Survey:
    """Survey the headers, or take the survey of an earlier run from the cache."""

    def make(allocate: cache.Allocate) -> dict[str, object]:
        found = survey_all(job.encoded, job.target, thorough=True)
        allocate((len(found.shape),), np.int64)[:] = found.shape
        return _survey_to_dict(found)

    shape, about = job.entry("survey", make)
    return _survey_from_dict(tuple(map(int, shape)), about)


def _decode_once(job: _Job) -> tuple[Inputs, Survey]:
    """Decode images into the cache, or take them from there."""

    def make(allocate: cache.Allocate) -> dict[str, object]:
        guess = survey_sample(job.encoded, job.target)
        try:
            return _survey_to_dict(_decode_into(allocate, job.encoded, guess or survey_all(job.encoded, job.target)))
        except UnexpectedHeader:  # the sample was not like all
            return _survey_to_dict(_decode_into(allocate, job.encoded, survey_all(job.encoded, job.target)))

    array, about = job.entry("images", make)
    return _make_inputs(array, job), _survey_from_dict(tuple(array.shape[1:]), about)


def _decode_into(allocate: cache.Allocate, encoded: Encoded, survey: Survey) -> Survey:
    """Decode every image to its position; unreadable ones stay zero."""
    out, unreadable = allocate((len(encoded), *survey.shape), np.uint8), dict[int, str]()

    def fill(position: int) -> None:
        try:
            out[position] = decode(encoded, position, survey.shape, survey.agrees)
        except Unreadable as error:
            unreadable[position] = str(error)

    in_threads = not encoded.is_in_memory or math.prod(survey.shape[1:]) > _SMALL_IMAGE
    for _ in map_positions(fill, len(encoded), f"decoding {len(encoded):,} images", in_threads):
        pass
    return Survey(survey.shape, survey.sides, dict(sorted(unreadable.items())))


def _make_inputs(array: np.ndarray, job: _Job) -> Inputs:
    """Return decoded images in memory, or mapped from disk if they are too large."""
    if not isinstance(array, np.memmap):
        return torch.from_numpy(array)
    if array.nbytes <= min(IN_MEMORY, available_memory() // 2):
        return torch.from_numpy(np.array(array))
    stamp = cache.make_key("images", _VERSION, job.encoded.stamp(), array.shape)
    return MappedInputs(cache.array_path(job.key("images")), array, stamp=stamp)


def _survey_to_dict(survey: Survey) -> dict[str, object]:
    return {"sides": survey.sides, "unreadable": list(survey.unreadable.items())}


def _survey_from_dict(shape: Shape, about: dict[str, object]) -> Survey:
    sides, unreadable = about["sides"], about["unreadable"]
    assert isinstance(unreadable, list)
    return Survey(shape, tuple(sides) if isinstance(sides, list | tuple) else None, dict(unreadable))


def _select_readable(survey: Survey, encoded: Encoded, may_skip: bool, where: str) -> np.ndarray:
    """Return the positions of readable images; report the others."""
    kept = np.delete(np.arange(len(encoded)), list(survey.unreadable))
    if not survey.unreadable:
        return kept
    bad = list(survey.unreadable)
    names = "; ".join([f"{encoded.name(bad[0])}: {survey.unreadable[bad[0]]}", *map(encoded.name, bad[1:_NAMES_SHOWN])])
    more = f" and {len(bad) - _NAMES_SHOWN:,} more" if len(bad) > _NAMES_SHOWN else ""
    listed = f"{where}: {len(bad):,} of {len(encoded):,} images cannot be read: {names}{more}"
    if not may_skip or not len(kept):
        raise DataError(f"{listed}; data.unreadable=skip goes on without them" if len(kept) else listed)
    _log.warning("%s; going on without them", listed)
    return kept


def _warn_about_sizes(survey: Survey, where: str) -> None:
    assert survey.sides is not None
    _log.warning(
        "%s: images differ in size (sides from %d to %d): all are resized and centre-cropped to %d x %d; "
        "data.image_size sets another side",
        *(where, *survey.sides, *survey.shape[1:]),
    )


def _describe(shape: Shape) -> str:
    if len(shape) == 1:
        return f"{shape[0]} features per row"
    channels, height, width = shape
    return f"images of {height} x {width} pixels with {channels} channel(s)"
