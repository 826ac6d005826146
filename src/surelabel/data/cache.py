"""A cache on disk of arrays that took long to make, under keys that identify their content.

It is in `folder()`, which may be deleted at any time. An entry is KEY.npy and KEY.json, which has
the array's checksum; both are first written under another name, so that a file with its final name
is complete. KEY.lock makes a second process wait for the first, then read its result.
"""

import contextlib
import errno
import hashlib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from surelabel import files
from surelabel.errors import RunError, SurelabelError

_log = logging.getLogger("surelabel")
_reported: set[str] = set()
_verified: dict[str, tuple[str, files.Stamp]] = {}
"""The checksums of arrays that this process has read, by key, and what was read."""
_CHECKSUM = "checksum"
"""The key of the checksum in KEY.json, beside the metadata."""


class Entry(NamedTuple):
    """A cached array and its metadata."""

    array: np.ndarray
    """Mapped from the file and read-only; in memory if it could not be cached."""
    about: dict[str, Any]
    """Metadata, as JSON can hold them."""


class Allocate(Protocol):
    """Allocates an array to fill; the last one that was asked for is cached."""

    def __call__(self, shape: tuple[int, ...], dtype: Any, /) -> np.ndarray:
        """Return an array whose content does not matter."""


Make = Callable[[Allocate], dict[str, Any]]
"""Fills an array that it allocates, and returns its metadata."""


def _accept_any(_found: Entry) -> bool:
    return True


def folder() -> Path:
    """Return $SURELABEL_CACHE, else $XDG_CACHE_HOME/surelabel, else ~/.cache/surelabel.

    A user without a home directory gets a folder that cannot be made, and so goes without a cache.
    """
    if chosen := os.environ.get("SURELABEL_CACHE"):
        return Path(chosen)
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen) / "surelabel"
    try:
        return Path.home() / ".cache" / "surelabel"
    except RuntimeError:
        return Path(os.devnull) / "surelabel"


def make_key(*parts: object) -> str:
    """Make a key of everything that determines the content: digests, shapes, versions."""
    return hashlib.sha256("\n".join(map(repr, parts)).encode()).hexdigest()


def load_or_fill(key: str, shape: tuple[int, ...], dtype: Any, fill: Callable[[np.ndarray], None]) -> np.ndarray:
    """Return the array of this key; `fill(out)` writes it if it is not cached yet."""

    def make(allocate: Allocate) -> dict[str, Any]:
        fill(allocate(shape, dtype))
        return {}

    def fits(found: Entry) -> bool:
        return found.array.shape == shape and found.array.dtype == np.dtype(dtype)

    return load_or_make(key, make, fits).array


def load_or_make(key: str, make: Make, fits: Callable[[Entry], bool] = _accept_any) -> Entry:
    """Return the entry of this key if it is complete and `fits`; otherwise make it.

    If the folder is not writable, the entry is only in memory.
    """
    if (known := find(key, fits)) is not None:
        return known
    with contextlib.ExitStack() as stack:
        try:
            folder().mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(files.locked(_file(key, "lock")))
        except (OSError, RunError) as error:
            _report_once(error)
            return make_in_memory(make)
        # Another process may have made it while this one waited.
        known = find(key, fits)
        if known is None and _file(key, "npy").exists():
            _log.warning("%s: incomplete or damaged; it is made again", _file(key, "npy"))
        return _make_on_disk(key, make) if known is None else known


def find(key: str, fits: Callable[[Entry], bool] = _accept_any) -> Entry | None:
    """Return the entry of this key, or None if it is missing or damaged, or does not fit."""
    if not (_file(key, "json").is_file() and _file(key, "npy").is_file()):  # nor a pipe, which may never end
        return None
    try:
        about = json.loads(_file(key, "json").read_text(encoding="utf-8"))
        array = np.load(_file(key, "npy"), mmap_mode="r", allow_pickle=False)
        is_complete = _file(key, "npy").stat().st_size == array.offset + array.nbytes
        expected = about.pop(_CHECKSUM)
    # A damaged file: OSError, EOFError, ValueError (also from JSON), no mapping or no mapped array.
    except (OSError, EOFError, ValueError, AttributeError, KeyError, TypeError):
        return None
    found = Entry(array, about)
    return found if is_complete and fits(found) and _is_intact(key, expected) else None


def _is_intact(key: str, expected: str) -> bool:
    """Return whether an array is as it was written; this process reads it once for that."""
    path, before = _file(key, "npy"), _verified.get(key)
    if before is None or before[1] != files.stamp(path):
        before = _verified[key] = files.checksum(path), files.stamp(path)
    return before[0] == expected


def array_path(key: str) -> Path:
    """Return the .npy file of this key."""
    return _file(key, "npy")


def _file(key: str, suffix: str) -> Path:
    return folder() / f"{key}.{suffix}"


def make_in_memory(make: Make) -> Entry:
    """Make an entry without caching it."""
    last: list[np.ndarray] = []

    def allocate(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        last[:] = [np.zeros(shape, dtype)]
        return last[0]

    about = make(allocate)
    return Entry(last[0], about)


def _make_on_disk(key: str, make: Make) -> Entry:
    _remove_unfinished(key)
    with contextlib.ExitStack() as stack:
        last: list[tuple[np.ndarray, Path]] = []

        def allocate(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
            # A new file each time, because the length of a mapped one must not change.
            temporary = stack.enter_context(files.new_file(_file(key, "npy")))
            last[:] = [(_map_new_file(temporary, shape, dtype), temporary)]
            return last[0][0]

        about = make(allocate)
        array, temporary = last[0]
        return _commit(key, temporary, array, about)


def _map_new_file(path: Path, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Map a file to fill, or allocate memory if the disk is full.

    Writing to a map without room on the disk would kill the process.
    """
    try:
        out: np.ndarray = np.lib.format.open_memmap(path, "w+", np.dtype(dtype), shape)
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, max(path.stat().st_size, 1))
        return out
    except (OSError, ValueError) as error:  # ValueError: an array without elements cannot be mapped
        if isinstance(error, OSError):
            _report_once(error)
        return np.zeros(shape, dtype)


def _commit(key: str, temporary: Path, array: np.ndarray, about: dict[str, Any]) -> Entry:
    """Give the files their final names.

    An array that is only in memory, or a failing disk, is no error.
    """
    if not isinstance(array, np.memmap):
        return Entry(array, about)
    try:
        array.flush()
        content = json.dumps({**about, _CHECKSUM: files.checksum(temporary)})
        files.replace_text(_file(key, "json"), content, files.unlisted)
        files.sync(temporary)
        temporary.replace(_file(key, "npy"))
    except (OSError, SurelabelError) as error:
        _report_once(error)
        return Entry(array, about)
    return Entry(np.load(_file(key, "npy"), mmap_mode="r", allow_pickle=False), about)


def _remove_unfinished(own: str) -> None:
    """Remove half-written files of killed processes; a running one holds the lock of its key.

    The caller holds the lock of the key `own`.
    """
    for leftover in folder().glob(f".*{files.TEMPORARY_SUFFIX}"):
        key = leftover.name.split(".")[1]
        with contextlib.suppress(OSError, RunError), contextlib.ExitStack() as stack:
            if key != own:
                stack.enter_context(files.locked(_file(key, "lock"), busy=_give_up))
            leftover.unlink(missing_ok=True)


def _give_up() -> None:
    raise BlockingIOError


def _report_once(error: OSError | SurelabelError) -> None:
    """Log one line for each kind of failure, not for each array."""
    known = error.strerror or errno.errorcode.get(error.errno or 0) if isinstance(error, OSError) else str(error)
    reason = known or "unknown error"
    if reason not in _reported:
        _reported.add(reason)
        _log.warning(
            "%s: cannot keep data for the next run here (%s); $SURELABEL_CACHE names another folder", folder(), reason
        )
