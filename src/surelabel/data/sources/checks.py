"""Checks that several sources make, and how their errors list many things."""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from surelabel.errors import DataError


def is_utf8(name: str) -> bool:
    """Return whether a file name is UTF-8; Python marks other bytes in it as lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def refuse_not_utf8(path: Path) -> None:
    """Raise if a path, which becomes an id or a class name, is not UTF-8."""
    if not is_utf8(str(path)):
        shown = os.fsencode(path).decode(errors="backslashreplace")
        raise DataError(f"{shown}: a name that is not UTF-8; names of files and folders must be, so rename it")


def resolve_inside(path: Path, root: Path, stores: Iterable[Path] = ()) -> Path:
    """Return the real path; raise if it leads out of the root and of the other `stores`."""
    try:
        real = path.resolve()
    except (OSError, RuntimeError):  # RuntimeError for a link to itself, until Python 3.13
        raise DataError(f"{path}: a broken link; remove it, or link it to a file") from None
    if not any(real.is_relative_to(folder) for folder in (root.resolve(), *stores)):
        raise DataError(f"{path}: leads out of {root}; copy the files, or use the folder they are in")
    return real


def download_stores(root: Path) -> list[Path]:
    """Return where links may lead if the root is a download of the Hugging Face hub."""
    base = root.resolve()
    return [folder.parent / "blobs" for folder in (base, *base.parents) if folder.name == "snapshots"]


@contextlib.contextmanager
def fitting_in_memory(source: str | Path) -> Iterator[None]:
    """Turn a lack of memory into one line that names the file that is read, and its size."""
    try:
        yield
    except MemoryError as error:  # also those of NumPy and Arrow
        reason = " ".join(str(error).split())
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        reason = "the system has no room to map it"
    else:
        return
    size = f"{Path(source).stat().st_size:,} bytes on disk" if Path(source).is_file() else "its files"
    raise DataError(f"{source}: does not fit into memory ({size}{reason and f'; {reason}'})")


def refuse_lost_classes(before: np.ndarray, after: np.ndarray, where: str) -> None:
    """Raise if a class of `before` is missing in `after`: training would silently lose it."""
    lost = sorted(set(before.tolist()) - set(after.tolist()) - {""})
    if lost:
        count = int((before == lost[0]).sum())
        raise DataError(
            f"{where}: the class {lost[0]!r}{and_more(len(lost))} has no rows left: all {count} were left out as "
            "unreadable; repair them or remove the class"
        )


def and_more(count: int) -> str:
    """Return how an error that names the first of `count` things mentions the others."""
    return f" (and {count - 1} more)" if count > 1 else ""


def list_some(names: Iterable[str], most: int = 5) -> str:
    """List the first names, and count the others."""
    listed = [str(name) for name in names]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
