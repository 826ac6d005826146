"""Images from files or bytes to inputs: decoded once and kept, or decoded again whenever they are looked at."""

import logging
import math
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from surelabel.config import DataConfig
from surelabel.data import cache
from surelabel.data.images.decode import Unexpected, Unreadable, decoded, pixels
from surelabel.data.images.encode import SUFFIXES, ArrowBytes, Blobs, Encoded, Files, is_image
from surelabel.data.images.stream import StreamedImages
from surelabel.data.images.survey import LARGEST_DEFAULT_SIDE, Survey, Wanted, sampled, surveyed
from surelabel.data.images.threads import each
from surelabel.data.inputs import Inputs, MappedInputs, Shape, available_memory, select_rows
from surelabel.errors import DataError

__all__ = ["SUFFIXES", "ArrowBytes", "Blobs", "Encoded", "Files", "fitted", "is_image", "load_images", "square"]

IN_MEMORY = 2 * 2**30
"""Bytes of decoded images up to which they are decoded once and held in memory."""
SMALL = 64 * 64
"""Pixels up to which images whose bytes are in memory are decoded by one thread: for the interpreter, others would wait."""

_VERSION = 1
"""Of the decoding; another number makes all decoded images on disk be made anew."""
_NAMES_SHOWN = 5

_log = logging.getLogger("surelabel")


class _Job(NamedTuple):
    """Images, what they are to become, and whether that is kept on disk."""

    encoded: Encoded
    wanted: Wanted
    is_kept: bool
    digest: str

    def key(self, kind: str) -> str:
        return cache.make_key(kind, _VERSION, self.digest, *self.wanted)

    def entry(self, kind: str, make: cache.Make) -> cache.Entry:
        return cache.load_or_make(self.key(kind), make) if self.is_kept else cache.make_in_memory(make)


def load_images(encoded: Encoded, config: DataConfig, shape: Shape | None, where: str) -> tuple[Inputs, np.ndarray]:
    """The images as (n, C, H, W) uint8, and the positions (n,) of those that could be read.

    With `shape` they are made to fit it. Otherwise greyscale sets have one channel, others three; `image_size` is the
    side; without it an equal size is kept, and different ones are brought to the smallest side seen, at most 64. Those that cannot be
    read are an error, or with `config.unreadable` "skip" are left out and listed. `config.decode` says whether they are
    decoded now, and found again in `caches.folder()` by the next run, or when they are looked at.
    """
    if shape is not None and len(shape) != 3:
        raise DataError(f"{where}: holds images; expected {_described(shape)}")
    if not len(encoded):
        raise DataError(f"{where}: no images to train on")
    job = _Job(encoded, Wanted(shape, config.image_size), config.cache, encoded.digest() if config.cache else "")
    survey = _survey_for_streaming(job, config.decode)
    if survey is None:
        x, survey = _decoded_once(job)
    else:
        x = StreamedImages(encoded, survey.shape, config.workers)
    kept = _readable(survey, encoded, config.unreadable == "skip", where)
    if survey.sides is not None:
        _tell_size(survey, where)
    return x if len(kept) == len(encoded) else select_rows(x, kept), kept


def fitted(x: Inputs, shape: Shape | None, where: str) -> Inputs:
    """Inputs (N, ...) in `shape`: images are resized and change their channels, features must agree; None keeps all."""
    found = tuple(x.shape[1:])
    if shape is None or found == shape:
        return x
    if len(found) != 3 or len(shape) != 3 or not isinstance(x, Tensor):
        raise DataError(f"{where}: holds {_described(found)}; expected {_described(shape)}")
    images = (Image.fromarray(row[0] if len(row) == 1 else np.moveaxis(row, 0, 2)) for row in x.numpy())
    return torch.from_numpy(np.stack([pixels(image, shape) for image in images]))


def square(x: Inputs, image_size: int | None) -> Shape | None:
    """The shape that `image_size` asks of images already in memory."""
    return (x.shape[1], image_size, image_size) if image_size and len(x.shape) == 4 else None


def _survey_for_streaming(job: _Job, decode: str) -> Survey | None:
    """What is known of images that are to be streamed; None if they are to be decoded once.

    Where it is up to us the size of all decoded images decides; those in the cache are not opened for that.
    """
    if decode != "auto":
        return _surveyed(job) if decode == "stream" else None
    known = cache.find(job.key("images")) if job.is_kept else None
    if known is None:
        guess = sampled(job.encoded, job.wanted)
        num_bytes = _num_bytes(job, (3, LARGEST_DEFAULT_SIDE, LARGEST_DEFAULT_SIDE) if guess is None else guess.shape)
    else:
        num_bytes = known.array.nbytes
    survey = _surveyed(job) if num_bytes > IN_MEMORY else None
    return survey if survey is not None and _num_bytes(job, survey.shape) > IN_MEMORY else None


def _num_bytes(job: _Job, shape: Shape) -> int:
    return len(job.encoded) * math.prod(shape)


def _surveyed(job: _Job) -> Survey:
    """From headers alone; the next run finds it again."""

    def make(allocate: cache.Allocate) -> dict[str, object]:
        found = surveyed(job.encoded, job.wanted, thorough=True)
        allocate((len(found.shape),), np.int64)[:] = found.shape
        return _about(found)

    shape, about = job.entry("survey", make)
    return _recalled(tuple(map(int, shape)), about)


def _decoded_once(job: _Job) -> tuple[Inputs, Survey]:
    """Decoded into the cache, or taken from there."""

    def make(allocate: cache.Allocate) -> dict[str, object]:
        guess = sampled(job.encoded, job.wanted)
        try:
            return _about(_decoded_into(allocate, job.encoded, guess or surveyed(job.encoded, job.wanted)))
        except Unexpected:  # the few that were looked at first were not like all
            return _about(_decoded_into(allocate, job.encoded, surveyed(job.encoded, job.wanted)))

    array, about = job.entry("images", make)
    return _inputs(array, job), _recalled(tuple(array.shape[1:]), about)


def _decoded_into(allocate: cache.Allocate, encoded: Encoded, survey: Survey) -> Survey:
    """Every image at its position; zeros stand for those that cannot be read."""
    out, unreadable = allocate((len(encoded), *survey.shape), np.uint8), dict[int, str]()

    def fill(position: int) -> None:
        try:
            out[position] = decoded(encoded, position, survey.shape, survey.agrees)
        except Unreadable as error:
            unreadable[position] = str(error)

    in_threads = not encoded.is_in_memory or math.prod(survey.shape[1:]) > SMALL
    for _ in each(fill, len(encoded), f"decoding {len(encoded):,} images", in_threads):
        pass
    return Survey(survey.shape, survey.sides, dict(sorted(unreadable.items())))


def _inputs(array: np.ndarray, job: _Job) -> Inputs:
    """In memory, or left on disk where that would take too much of it."""
    if not isinstance(array, np.memmap):
        return torch.from_numpy(array)
    if array.nbytes <= min(IN_MEMORY, available_memory() // 2):
        return torch.from_numpy(np.array(array))
    stamp = cache.make_key("images", _VERSION, job.encoded.stamp(), array.shape)
    return MappedInputs(cache.array_path(job.key("images")), array, stamp=stamp)


def _about(survey: Survey) -> dict[str, object]:
    return {"sides": survey.sides, "unreadable": list(survey.unreadable.items())}


def _recalled(shape: Shape, about: dict[str, object]) -> Survey:
    sides, unreadable = about["sides"], about["unreadable"]
    assert isinstance(unreadable, list)
    return Survey(shape, tuple(sides) if isinstance(sides, list | tuple) else None, dict(unreadable))


def _readable(survey: Survey, encoded: Encoded, may_skip: bool, where: str) -> np.ndarray:
    """Positions of the images that can be read; the others are listed."""
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


def _tell_size(survey: Survey, where: str) -> None:
    assert survey.sides is not None
    _log.warning(
        "%s: images differ in size (sides from %d to %d): all are resized and centre-cropped to %d x %d; "
        "data.image_size sets another side",
        *(where, *survey.sides, *survey.shape[1:]),
    )


def _described(shape: Shape) -> str:
    if len(shape) == 1:
        return f"{shape[0]} features per row"
    channels, height, width = shape
    return f"images of {height} x {width} pixels with {channels} channel(s)"
