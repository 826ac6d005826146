"""Features of rows from a slow encoder: computed once per content, and kept in the cache.

Rows are known by a hash of their content, so that the features of a picture are found again under
another name, in another split, and beside new pictures. A file of the cache belongs to one encoder
and only grows: a run that was killed goes on where it stopped. Each record has a checksum, and one
that is damaged counts as missing.
"""

import logging
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np
import torch

from surelabel import files
from surelabel.data import cache
from surelabel.data.encodable import Encodable, Encoder
from surelabel.data.inputs import Inputs, MappedInputs
from surelabel.errors import RunError

CHUNK = 256
"""Rows between looks at the clock."""
SAVE_EVERY, TELL_EVERY = 5.0, 10.0
"""Seconds between saves and between reports of progress."""
IN_MEMORY_BELOW = 2 * 2**30
"""Bytes up to which features are read into memory; larger ones stay in a file."""

Say = Callable[[str], None]
_log = logging.getLogger("surelabel")


def features_of(parts: Sequence[Encodable], say: Say = _log.info) -> list[Inputs]:
    """Return the features (N, D) float32 of parts of a data set that have the same encoder."""
    encoder = parts[0].encoder
    assert encoder is not None
    if encoder.cache_key is None:
        return [part.features() for part in parts]
    hashes = [part.hashes() for part in parts]
    with _alone(encoder):
        store = _Store(encoder)
        store.forget_damaged(row for part in hashes for row in part)
        wanted = _first_places(hashes, store.places)
        if wanted:
            _compute(parts, wanted, store, say)
    return [_take(store, each) for each in hashes]


def count_missing(parts: Sequence[Encodable]) -> int:
    """Return how many rows `features_of` would have to encode; none if their encoder is fast."""
    encoder = parts[0].encoder
    assert encoder is not None
    if encoder.cache_key is None:
        return 0
    return len(_first_places([part.hashes() for part in parts], _Store(encoder).places))


@contextmanager
def _alone(encoder: Encoder) -> Iterator[None]:
    """Wait for other processes that use this encoder: they may be computing the same features."""
    with ExitStack() as stack:
        with suppress(OSError, RunError):  # a folder that cannot be written to
            _file(encoder).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(files.locked(_file(encoder).with_suffix(".lock")))
        yield


def _file(encoder: Encoder) -> Path:
    return cache.folder() / f"{cache.make_key('features', encoder.cache_key, encoder.num_features)}.features"


Place = tuple[bytes, int, int]
"""The hash of a row, its part and its position there."""


def _first_places(hashes: Sequence[list[bytes]], known: dict[bytes, int]) -> list[Place]:
    """Return where each content that is not known occurs first."""
    found: dict[bytes, Place] = {}
    for number, part in enumerate(hashes):
        for position, row in enumerate(part):
            if row not in known:
                found.setdefault(row, (row, number, position))
    return list(found.values())


def _compute(parts: Sequence[Encodable], wanted: list[Place], store: "_Store", say: Say) -> None:
    began = told = saved = time.monotonic()
    if len(wanted) > CHUNK:
        say(f"computing the features of {len(wanted):,} rows, once; they are kept in {cache.folder()}")
    done = 0
    while done < len(wanted):
        number = wanted[done][1]
        rows = [place for place in wanted[done : done + CHUNK] if place[1] == number]
        store.add([row for row, _, _ in rows], parts[number].encode(np.array([place[2] for place in rows])))
        done, now = done + len(rows), time.monotonic()
        if now - saved >= SAVE_EVERY:
            saved = now
            store.save()
        if len(wanted) > CHUNK and now - told >= TELL_EVERY:
            told, pace = now, done / (now - began)
            left = (len(wanted) - done) / pace
            say(f"features: {done:,} of {len(wanted):,} rows, {pace:,.0f} a second, {left:,.0f} s left")
    store.save()


def _take(store: "_Store", hashes: list[bytes]) -> Inputs:
    """Return the features of rows, in memory unless they are too many."""
    places = np.array([store.places[row] for row in hashes], dtype=np.int64)
    shape = (len(places), store.width)
    if 4 * shape[0] * shape[1] <= IN_MEMORY_BELOW:
        return torch.from_numpy(store.read(places))
    key = cache.make_key("features", store.file.stem, b"".join(hashes))

    def fill(out: np.ndarray) -> None:
        for start in range(0, len(places), 2**14):
            out[start : start + 2**14] = store.read(places[start : start + 2**14])

    found = cache.load_or_fill(key, shape, np.float32, fill)
    return MappedInputs(cache.array_path(key), found, stamp=key)


class _Store:
    """The known features of an encoder: records in a file, and new ones in memory until saved."""

    def __init__(self, encoder: Encoder) -> None:
        self.width = encoder.num_features
        self.record = np.dtype([("row", "V16"), ("check", "<u4"), ("features", "<f4", (self.width,))])
        self.file = _file(encoder)
        self.saved = _read(self.file, self.record)
        # A damaged record may have been computed again, further down in the file.
        self.places = {bytes(row): place for place, row in enumerate(self.saved["row"])}
        self.new: list[np.ndarray] = []

    def forget_damaged(self, rows: Iterable[bytes]) -> None:
        """Forget those of the rows whose record differs from its checksum."""
        for row in set(rows):
            place = self.places.get(row)
            if place is not None:
                record = self.saved[place]
                if zlib.crc32(record["features"].tobytes()) != record["check"]:
                    del self.places[row]

    def add(self, rows: list[bytes], features: np.ndarray) -> None:
        """Add the features (B, D) of rows."""
        made = np.empty(len(rows), dtype=self.record)
        made["row"], made["features"] = np.array([np.void(row) for row in rows], dtype="V16"), features
        made["check"] = [zlib.crc32(values.data) for values in made["features"]]
        first = len(self.saved) + sum(map(len, self.new))
        self.places |= {row: first + number for number, row in enumerate(rows)}
        self.new.append(made)

    def save(self) -> None:
        """Append what is new to the file; a folder that cannot be written to is no error."""
        if not self.new:
            return
        with suppress(OSError):
            with self.file.open("ab") as file:
                # A record that was cut off when its writer was killed is written over.
                first = file.tell() // self.record.itemsize
                file.truncate(first * self.record.itemsize)
                file.write(b"".join(part.tobytes() for part in self.new))
            rows = (bytes(row) for part in self.new for row in part["row"])
            self.places |= {row: first + number for number, row in enumerate(rows)}
            self.saved, self.new = _read(self.file, self.record), []

    def read(self, places: np.ndarray) -> np.ndarray:
        """Return the features (B, D) at `places`, counted over saved and new ones."""
        out = np.empty((len(places), self.width), dtype=np.float32)
        is_new = places >= len(self.saved)
        out[~is_new] = self.saved["features"][places[~is_new]]
        if is_new.any():
            new = np.concatenate(self.new)["features"]
            out[is_new] = new[places[is_new] - len(self.saved)]
        return out


def _read(file: Path, record: np.dtype) -> np.ndarray:
    """Map the whole records of a file; none if there is no such file."""
    with suppress(OSError, ValueError):
        count = file.stat().st_size // record.itemsize if file.is_file() else 0
        if count:
            return np.memmap(file, dtype=record, mode="r", shape=(count,))
    return np.empty(0, dtype=record)
