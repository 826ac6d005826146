"""Images that are not decoded yet: files, or bytes in a table."""

import functools
import hashlib
import io
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff"})


def is_image(path: Path) -> bool:
    """Whether the name ends like an image's."""
    return path.suffix.lower() in SUFFIXES


class Encoded(ABC):
    """N images that are not decoded yet."""

    is_in_memory: bool
    """Whether nothing has to be read before decoding."""

    @abstractmethod
    def __len__(self) -> int:
        """N."""

    @abstractmethod
    def open(self, position: int) -> BinaryIO:
        """The bytes, as a file that can be closed."""

    @abstractmethod
    def name(self, position: int) -> str:
        """What to call the image in messages."""

    @abstractmethod
    def subset(self, positions: np.ndarray) -> "Encoded":
        """The images at `positions`."""

    @abstractmethod
    def digest(self) -> str:
        """A hash that changes whenever an image may have changed: decoded images are found again by it."""

    @abstractmethod
    def stamp(self) -> str:
        """A hash that stays when the images are moved elsewhere as they are: a run recognises its data by it."""


class Files(Encoded):
    """Image files."""

    is_in_memory = False

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = list(paths)

    def __len__(self) -> int:
        return len(self.paths)

    def open(self, position: int) -> BinaryIO:
        """The file."""
        return self.paths[position].open("rb")

    def name(self, position: int) -> str:
        """The path."""
        return str(self.paths[position])

    def subset(self, positions: np.ndarray) -> "Files":
        """The files at `positions`."""
        return Files([self.paths[position] for position in positions])

    def digest(self) -> str:
        """Of places, sizes and times: reading every file would take nearly as long as decoding it.

        With the time of the last change of any kind, which no copying tool sets back.
        """
        folder = functools.cache(Path.resolve)
        return _hashed(
            f"{folder(path.parent)}\0{path.name}\0{status}"
            for path, status in zip(self.paths, self._statuses("st_size", "st_mtime_ns", "st_ctime_ns"), strict=True)
        )

    def stamp(self) -> str:
        """Of sizes and times of writing."""
        return _hashed(map(str, self._statuses("st_size", "st_mtime_ns")))

    def _statuses(self, *fields: str) -> Iterator[tuple[int, ...]]:
        for path in self.paths:
            try:
                status = path.stat()
                yield tuple(getattr(status, field) for field in fields)
            except OSError:  # whoever decodes it will say so
                yield ()


class Blobs(Encoded):
    """Images as bytes, as tables hold them; `names` are what to call them in messages."""

    is_in_memory = True

    def __init__(self, blobs: "Sequence[bytes] | ArrowBytes", names: Sequence[str]) -> None:
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
        lengths = self.blobs.lengths() if isinstance(self.blobs, ArrowBytes) else [len(blob) for blob in self.blobs]
        digest = hashlib.sha256(np.asarray(lengths, dtype="<i8").tobytes())
        for part in self.blobs.parts() if isinstance(self.blobs, ArrowBytes) else self.blobs:
            digest.update(part)
        return digest.hexdigest()

    def stamp(self) -> str:
        """Of the bytes."""
        return self.digest()


class ArrowBytes:
    """A binary column without blanks of a pyarrow table, whose bytes are not copied: ten times as fast as a list of them."""

    def __init__(self, column: Any) -> None:
        self._column = column if str(column.type) in ("binary", "large_binary") else column.cast("large_binary")
        chunks = getattr(self._column, "chunks", [self._column])
        self._parts = [_offsets_and_data(chunk) for chunk in chunks]
        self._ends = list(accumulate(map(len, chunks)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, position: int) -> bytes:
        part = bisect_right(self._ends, position)
        offsets, data = self._parts[part]
        row = position - (self._ends[part - 1] if part else 0)
        return bytes(data[offsets[row] : offsets[row + 1]])

    def __reduce__(self) -> Any:
        return ArrowBytes, (self._column,)

    def lengths(self) -> np.ndarray:
        """(N,) bytes of each."""
        return np.concatenate([np.diff(offsets) for offsets, _ in self._parts])

    def parts(self) -> Iterator[memoryview]:
        """All bytes in a few pieces."""
        for offsets, data in self._parts:
            yield data[offsets[0] : offsets[-1]]


def _offsets_and_data(chunk: Any) -> tuple[np.ndarray, memoryview]:
    _, offsets, data = chunk.buffers()
    kind = np.int64 if str(chunk.type).startswith("large") else np.int32
    places = (
        np.frombuffer(offsets, kind)[chunk.offset : chunk.offset + len(chunk) + 1] if len(chunk) else np.zeros(1, kind)
    )
    return places, memoryview(b"") if data is None else memoryview(data)


def _hashed(lines: Iterator[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()
