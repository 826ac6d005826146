"""Arrays on disk that took long to make, under a key that says what is in them.

They are in `folder()`, which may be deleted at any time. An entry is KEY.npy with KEY.json beside it; both are written under another
name first, so that what has its right name is whole. KEY.lock makes a second process wait for the first and then read.
"""

import contextlib
import errno
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from surelabel import files
from surelabel.errors import RunError

_log = logging.getLogger("surelabel")
_told: set[str] = set()


class Entry(NamedTuple):
    """What is kept."""

    array: np.ndarray
    """Mapped from the file, not to be written to; in memory where there is no cache."""
    about: dict[str, Any]
    """Whatever its maker wants to know again, as JSON can hold it."""


class Allocate(Protocol):
    """Gives an array to fill; the last one asked for is kept."""

    def __call__(self, shape: tuple[int, ...], dtype: Any, /) -> np.ndarray:
        """An array of zeros, or of anything."""


Make = Callable[[Allocate], dict[str, Any]]
"""Fills an array that it asks for, and says something about it."""


def folder() -> Path:
    """$SURELABEL_CACHE, else $XDG_CACHE_HOME/surelabel, else ~/.cache/surelabel."""
    if chosen := os.environ.get("SURELABEL_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "surelabel"


def make_key(*parts: object) -> str:
    """A key from whatever decides about the content: digests, shapes, versions."""
    return hashlib.sha256("\n".join(map(repr, parts)).encode()).hexdigest()


def load_or_fill(key: str, shape: tuple[int, ...], dtype: Any, fill: Callable[[np.ndarray], None]) -> np.ndarray:
    """The array of this key, which `fill(out)` writes if it is not there yet."""

    def make(allocate: Allocate) -> dict[str, Any]:
        fill(allocate(shape, dtype))
        return {}

    return load_or_make(
        key, make, lambda found: found.array.shape == shape and found.array.dtype == np.dtype(dtype)
    ).array


def load_or_make(key: str, make: Make, fits: Callable[[Entry], bool] = lambda found: True) -> Entry:
    """The entry of this key if it is whole and `fits`, else a new one; without a writable folder it is only in memory."""
    if (known := find(key, fits)) is not None:
        return known
    with contextlib.ExitStack() as stack:
        try:
            folder().mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(_locked(key))
        except (OSError, RunError) as error:
            _tell_once(error)
            return make_in_memory(make)
        # Another process may have made it while this one waited.
        known = find(key, fits)
        return _made(key, make) if known is None else known


def find(key: str, fits: Callable[[Entry], bool] = lambda found: True) -> Entry | None:
    """The entry of this key, or None if it is missing, damaged, or does not fit."""
    try:
        about = json.loads(_place(key, "json").read_text(encoding="utf-8"))
        content = np.load(_place(key, "npy"), mmap_mode="r", allow_pickle=False)
        is_whole = _place(key, "npy").stat().st_size == content.offset + content.nbytes
    # A damaged file: OSError, EOFError, ValueError (which JSON's and Unicode's errors are), or content without an offset.
    except (OSError, EOFError, ValueError, AttributeError):
        return None
    found = Entry(content, about)
    return found if is_whole and isinstance(about, dict) and fits(found) else None


def array_path(key: str) -> Path:
    """The .npy file of this key."""
    return _place(key, "npy")


def _place(key: str, suffix: str) -> Path:
    return folder() / f"{key}.{suffix}"


@contextlib.contextmanager
def _locked(key: str) -> Iterator[None]:
    """Nobody else makes this entry meanwhile; the lock ends with the process, however that ends."""
    with files.locked(_place(key, "lock"), busy=_tell_wait):
        yield


def _tell_wait() -> None:
    _log.info("waiting for another process that prepares the same data")


def make_in_memory(make: Make) -> Entry:
    """What `make` makes, without a cache."""
    kept: list[np.ndarray] = []

    def allocate(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        kept[:] = [np.zeros(shape, dtype)]
        return kept[0]

    about = make(allocate)
    return Entry(kept[0], about)


def _made(key: str, make: Make) -> Entry:
    _remove_unfinished()
    with contextlib.ExitStack() as stack:
        kept: list[tuple[np.ndarray, Path]] = []

        def allocate(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
            # A new file each time: one that is mapped must keep its length.
            temporary = stack.enter_context(files.new_file(_place(key, "npy")))
            kept[:] = [(_on_disk(temporary, shape, dtype), temporary)]
            return kept[0][0]

        about = make(allocate)
        content, temporary = kept[0]
        return _committed(key, temporary, content, about)


def _on_disk(path: Path, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """A file to be filled, or memory where the disk has no room: writing to a map without room would kill the process."""
    try:
        out = np.lib.format.open_memmap(path, "w+", np.dtype(dtype), shape)
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, max(path.stat().st_size, 1))
        return out
    except (OSError, ValueError) as error:  # an array without elements cannot be mapped
        if isinstance(error, OSError):
            _tell_once(error)
        return np.zeros(shape, dtype)


def _committed(key: str, temporary: Path, content: np.ndarray, about: dict[str, Any]) -> Entry:
    if not isinstance(content, np.memmap):
        return Entry(content, about)
    try:
        content.flush()
        files.replace_text(_place(key, "json"), json.dumps(about))
        files.sync(temporary)
        temporary.replace(_place(key, "npy"))
    except OSError as error:
        _tell_once(error)
        return Entry(content, about)
    return Entry(np.load(_place(key, "npy"), mmap_mode="r", allow_pickle=False), about)


def _remove_unfinished() -> None:
    """Remove what killed processes left half written; a living one holds the lock of its key."""
    for leftover in folder().glob(f".*{files.TEMPORARY}"):
        key = leftover.name.split(".")[1]
        with contextlib.suppress(OSError, RunError), files.locked(_place(key, "lock"), busy=_leave):
            leftover.unlink(missing_ok=True)


def _leave() -> None:
    raise BlockingIOError


def _tell_once(error: OSError | RunError) -> None:
    """One line for each kind of failure, not for each array."""
    known = error.strerror or errno.errorcode.get(error.errno or 0) if isinstance(error, OSError) else str(error)
    reason = known or "unknown error"
    if reason not in _told:
        _told.add(reason)
        _log.warning(
            "%s: cannot keep data for the next run here (%s); $SURELABEL_CACHE names another folder", folder(), reason
        )
