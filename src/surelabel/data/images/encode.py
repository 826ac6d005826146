"""Encoded images: files, or bytes in a table."""

import functools
import hashlib
import io
import os
import stat
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from surelabel.data.sources.checks import download_stores, resolve_inside

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff"})


def is_image(path: Path) -> bool:
    """Return whether the file name has the suffix of an image."""
    return path.suffix.lower() in SUFFIXES


class Encoded(ABC):
    """N encoded images."""

    is_in_memory: bool
    """Whether the bytes are in memory already."""

    @abstractmethod
    def __len__(self) -> int:
        """Return N."""

    @abstractmethod
    def open(self, position: int) -> BinaryIO:
        """Open the bytes of an image as a file."""

    @abstractmethod
    def name(self, position: int) -> str:
        """Return what messages call the image."""

    @abstractmethod
    def subset(self, positions: np.ndarray) -> "Encoded":
        """Return the images at `positions`."""

    @abstractmethod
    def digest(self) -> str:
        """Return a hash that changes whenever an image may have changed; the key of the cache."""

    def hashes(self) -> list[bytes]:
        """Hash the bytes of each image, wherever they are stored."""
        found = []
        for position in range(len(self)):
            with self.open(position) as file:
                found.append(hashlib.blake2b(file.read(), digest_size=16).digest())
        return found

    @abstractmethod
    def stamp(self) -> str:
        """Return a hash that survives moving the images, by which a run recognises its data."""


class Files(Encoded):
    """Image files; none is opened that leads out of `root`, also by a link that came later."""

    is_in_memory = False

    def __init__(self, paths: Sequence[Path], root: Path | None = None) -> None:
        self.paths, self.root = list(paths), root

    def __len__(self) -> int:
        return len(self.paths)

    def open(self, position: int) -> BinaryIO:
        """Open the file; a pipe, on which reading would wait for ever, is refused."""
        if self.root is not None:
            resolve_inside(self.paths[position], self.root, download_stores(self.root))
        # A pipe would block already here without O_NONBLOCK, which regular files ignore.
        file = open(self.paths[position], "rb", opener=_open_without_waiting)  # noqa: SIM115
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise OSError("not a regular file")
        return file

    def name(self, position: int) -> str:
        """Return the path."""
        return str(self.paths[position])

    def subset(self, positions: np.ndarray) -> "Files":
        """Return the files at `positions`."""
        return Files([self.paths[position] for position in positions], self.root)

    def digest(self) -> str:
        """Hash paths, sizes and times; reading every file would take nearly as long as decoding it.

        The times include that of the last change of any kind, which no copying tool can set back.
        """
        folder = functools.cache(Path.resolve)
        return _hash(
            f"{folder(path.parent)}\0{path.name}\0{status}"
            for path, status in zip(self.paths, self._statuses("st_size", "st_mtime_ns", "st_ctime_ns"), strict=True)
        )

    def stamp(self) -> str:
        """Hash sizes and modification times."""
        return _hash(map(str, self._statuses("st_size", "st_mtime_ns")))

    def _statuses(self, *fields: str) -> Iterator[tuple[int, ...]]:
        for path in self.paths:
            try:
                status = path.stat()
                yield tuple(getattr(status, field) for field in fields)
            except OSError:  # decoding reports the missing file
                yield ()


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


class Blobs(Encoded):
    """Images as bytes, as in tables; messages call them by `names`."""

    is_in_memory = True

    def __init__(self, blobs: "Sequence[bytes] | ArrowBytes | Selected", names: Sequence[str]) -> None:
        self.blobs, self.names = blobs, names

    def __len__(self) -> int:
        return len(self.blobs)

    def open(self, position: int) -> BinaryIO:
        """Open the bytes as a file."""
        return io.BytesIO(self.blobs[position])

    def name(self, position: int) -> str:
        """Return the name."""
        return self.names[position]

    def subset(self, positions: np.ndarray) -> "Blobs":
        """Return the images at `positions`."""
        return Blobs(Selected(self.blobs, positions), Selected(self.names, positions))

    def digest(self) -> str:
        """Hash the bytes."""
        lengths = self.blobs.lengths() if isinstance(self.blobs, ArrowBytes) else [len(blob) for blob in self.blobs]
        digest = hashlib.sha256(np.asarray(lengths, dtype="<i8").tobytes())
        for part in self.blobs.parts() if isinstance(self.blobs, ArrowBytes) else self.blobs:
            digest.update(part)
        return digest.hexdigest()

    def stamp(self) -> str:
        """Hash the bytes."""
        return self.digest()


class Selected(Sequence[Any]):
    """Some items of a sequence, which are not copied; other processes get only these."""

    def __init__(self, items: "Sequence[Any] | ArrowBytes", positions: np.ndarray) -> None:
        self.items: Sequence[Any] | ArrowBytes = items
        self.positions: np.ndarray = positions
        if isinstance(items, Selected):  # not a chain of them
            self.items, self.positions = items.items, items.positions[positions]

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, position: Any) -> Any:
        return self.items[int(self.positions[position])]

    def __reduce__(self) -> Any:
        return list, (list(self),)


class ArrowBytes:
    """A binary pyarrow column without nulls, not copied: ten times as fast as a list of bytes."""

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
        """Return the number of bytes of each image (N,)."""
        return np.concatenate([np.diff(offsets) for offsets, _ in self._parts])

    def parts(self) -> Iterator[memoryview]:
        """Yield all bytes in a few pieces."""
        for offsets, data in self._parts:
            yield data[offsets[0] : offsets[-1]]


def _offsets_and_data(chunk: Any) -> tuple[np.ndarray, memoryview]:
    _, offsets, data = chunk.buffers()
    kind = np.int64 if str(chunk.type).startswith("large") else np.int32
    places = (
        np.frombuffer(offsets, kind)[chunk.offset : chunk.offset + len(chunk) + 1] if len(chunk) else np.zeros(1, kind)
    )
    return places, memoryview(b"") if data is None else memoryview(data)


def _hash(lines: Iterator[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()
