"""Write files atomically, lock them, and never follow a link while writing.

A run directory, a cache or an export may come from someone else. A link in it must not lead a
writer to one of the user's files, so everything written in such a place goes through this module:
new files get names that cannot be guessed and are created exclusively; files that are kept open or
appended to (locks, journals, metrics) are opened without following links.

No file that surelabel did not write is replaced. `.surelabel-outputs` lists the outputs in its
folder by name and checksum (docs/decisions/0026-outputs.md); runs have checksums.json instead.

Locks use `flock` directly, not the package filelock: its FileLock has no shared locks, opens only
for writing, locks pipes too, and without flock leaves a marker file that outlives a crash. We lock
the journal itself, shared for readers, even in a run directory that is read-only.
"""

import contextlib
import csv
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, Any

from surelabel.errors import ConfigError, DataError, RunError, SurelabelError

TEMPORARY_SUFFIX = ".tmp"
"""Suffix of unfinished files and folders."""
SAY_WAITING_AFTER = 2.0
"""Seconds after which a process that waits for a lock says so."""
OUTPUTS_FILE = ".surelabel-outputs"
"""A line [checksum, name] for every output that was written to its folder."""
Stamp = tuple[int, ...] | None
"""What changes whenever a file is replaced; None if there is no file."""
_log = logging.getLogger("surelabel")


def replace(path: Path, write: Callable[[Path], Any], record: Callable[[str], Any] | None = None) -> None:
    """Let `write` fill a new file beside `path`, then rename it to `path` in one atomic step.

    A file that is there must be an earlier output: see `refuse_overwriting`. Names that belong to a
    run, a cache or a job are replaced in any case: there `record` gets the checksum of the new file
    before it is renamed, or is `unlisted`. Devices and pipes are refused, because a file would take
    their place.
    """
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path}: is not a regular file; expected a file, or a new name")
    if record is None:
        refuse_overwriting([path])
        record = partial(_list_output, path)
    with naming(path), new_file(path) as temporary:
        mode = temporary.stat().st_mode
        write(temporary)
        if temporary.stat().st_mode != mode:  # safetensors makes a file that only its user may read
            temporary.chmod(mode)
        record(_sync_and_hash(temporary))
        temporary.replace(path)
        sync(path.parent)


def unlisted(_: str) -> None:
    """Record no checksum: for `replace` where only surelabel writes."""


def _list_output(path: Path, found: str) -> None:
    """Add an output to the list in its folder, unless that is another user's, as in /tmp."""
    file = path.with_name(OUTPUTS_FILE)
    before, line = _read_list(file), _output_line(path, found)
    if line not in before.split(b"\n"):
        cut = "\n" if before and not before.endswith(b"\n") else ""
        with contextlib.suppress(PermissionError):
            append_line(file, cut + line.decode())


def _output_line(path: Path, found: str) -> bytes:
    return json.dumps([found, path.name]).encode()


def _read_list(file: Path) -> bytes:
    try:
        with opened(file, os.O_RDONLY) as descriptor, os.fdopen(descriptor, "rb", closefd=False) as content:
            return content.read()
    except (FileNotFoundError, PermissionError):
        return b""


def is_ours(path: Path) -> bool:
    """Return whether a file is as surelabel wrote it, or empty: replacing it loses nothing."""
    if path.stat().st_size == 0:  # as CI makes $GITHUB_STEP_SUMMARY, and mktemp its files
        return True
    lines = _read_list(path.with_name(OUTPUTS_FILE))
    return bool(lines) and _output_line(path, checksum(path)) in lines.split(b"\n")


def replace_text(path: Path, text: str, record: Callable[[str], Any] | None = None) -> None:
    """Write a text file atomically; bytes of a path that are not UTF-8 are escaped as in JSON."""
    replace(path, lambda temporary: temporary.write_text(text, encoding="utf-8", errors="backslashreplace"), record)


def replace_stream(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write a binary file atomically through an open file, as np.save needs it."""

    def fill(temporary: Path) -> None:
        with temporary.open("wb") as file:
            write(file)

    replace(path, fill)


def write_parquet(path: Path, table: Any) -> None:
    """Write an arrow table; pyarrow itself opens only files whose path is UTF-8."""
    import pyarrow.parquet as pq

    with path.open("wb") as file:
        pq.write_table(table, file)


def replace_bytes(path: Path, content: bytes) -> None:
    """Write a binary file atomically."""
    replace(path, lambda temporary: temporary.write_bytes(content))


_FORMULA = re.compile(r"[=+\-@\t\r\n]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_NEUTRALISED = re.compile(r"'['=+\-@\t\r\n]")


def neutralise_cell(cell: Any) -> Any:
    """Put ' before text that a spreadsheet would run as a formula, and before text that has a '."""
    if isinstance(cell, str) and (cell.startswith("'") or is_formula(cell)):
        return f"'{cell}"
    return cell


def restore_cell(cell: str) -> str:
    """Return the text that `neutralise_cell` was given."""
    return cell[1:] if _NEUTRALISED.match(cell) else cell


def is_formula(cell: str) -> bool:
    """Return whether a spreadsheet would run the cell; -1 and +1.5e3 are numbers."""
    return _FORMULA.match(cell) is not None and _NUMBER.fullmatch(cell) is None


def replace_csv(
    path: Path, header: Iterable[str], rows: Iterable[Sequence[Any]], *, as_they_are: Iterable[str] = ()
) -> None:
    """Write a CSV file atomically, as `write_csv` does."""
    replace(path, lambda temporary: write_csv(temporary, header, rows, as_they_are=as_they_are))


def write_csv(
    path: Path, header: Iterable[str], rows: Iterable[Sequence[Any]], *, as_they_are: Iterable[str] = ()
) -> None:
    """Write a CSV file without cells that a spreadsheet would run as formulas.

    The columns `as_they_are` keep every cell: labels that programs match with classes.
    """
    names, kept = list(header), set(as_they_are)
    change = [name not in kept for name in names]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(map(neutralise_cell, names))
        for row in rows:
            cells = zip(row, change, strict=True)
            writer.writerow([neutralise_cell(cell) if changes else cell for cell, changes in cells])


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name `path` in errors of the disk; libraries drop its name, or even that it was the disk."""
    try:
        yield
    except Exception as error:
        number = _error_number(error)
        if number is None:
            raise
        raise OSError(number, os.strerror(number), str(path)) from error


def _error_number(error: BaseException) -> int | None:
    """Return the errno behind an error: safetensors raises its own kind."""
    if isinstance(error, OSError):
        return error.errno
    found = re.search(r"I/O error.*\(os error (\d+)\)", str(error))
    return None if found is None else int(found[1])


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, read in small parts."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_and_hash(path: Path) -> str:
    """Hash a new file while the disk writes it."""
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(checksum, path)
        sync(path)
        return found.result()


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Create an empty file with a random name beside `path`; remove it unless renamed.

    It is locked meanwhile. Those that killed processes left beside `path` are not, and are removed.
    """
    _remove_leftovers(path)
    temporary, descriptor = _create_locked(path)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
        os.close(descriptor)


def _create_locked(path: Path) -> tuple[Path, int]:
    """Create a file with a random name beside `path`, and lock it where the file system can."""
    import fcntl

    while True:
        temporary = _random_name(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o666)
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)  # before it was locked, another process took it for a leftover


def _remove_leftovers(path: Path) -> None:
    """Remove the temporary files of `path` that no process has locked."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{16}}{re.escape(TEMPORARY_SUFFIX)}")
    with contextlib.suppress(OSError):  # a folder that cannot be listed
        for leftover in [found for found in path.parent.iterdir() if name.fullmatch(found.name)]:
            with contextlib.suppress(OSError, RunError), locked(leftover, os.O_RDWR, busy=_give_up):
                leftover.unlink()


def _give_up() -> None:
    raise BlockingIOError


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Create an empty folder with a random name beside `path`; remove it unless renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _random_name(path)
    temporary.mkdir()
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _random_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}{TEMPORARY_SUFFIX}")


def remove_unfinished(folder: Path) -> None:
    """Remove the temporary files of killed processes; the caller must hold the folder's lock."""
    for leftover in folder.glob(f".*{TEMPORARY_SUFFIX}"):
        if leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def append_line(path: Path, line: str) -> None:
    """Append a line to a text file and wait until it is on disk."""
    with naming(path), opened(path) as descriptor, os.fdopen(descriptor, "ab", closefd=False) as file:
        file.write(f"{line}\n".encode())
        file.flush()
        os.fsync(descriptor)


@contextlib.contextmanager
def locked(
    path: Path,
    flags: int = os.O_RDWR | os.O_CREAT,
    *,
    shared: bool = False,
    busy: Callable[[], None] | None = None,
) -> Iterator[int]:
    """Open a file, lock it, and yield its descriptor; a process that dies releases its locks.

    If another process holds the lock, `busy` is called and may raise to give up. Otherwise this
    process waits, and soon says so. A file that its holder has deleted is created and locked anew.
    """
    import fcntl

    while True:
        with opened(path, flags) as descriptor:
            _lock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, path, busy)
            if os.fstat(descriptor).st_nlink:
                yield descriptor
                return


@contextlib.contextmanager
def locked_folder(path: Path) -> Iterator[bool]:
    """Lock a folder, without a file in it; yield False if its file system cannot."""
    import fcntl

    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            _lock(descriptor, fcntl.LOCK_EX, path)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int, path: Path, busy: Callable[[], None] | None = None) -> None:
    """Lock an open file or folder; say so after a while if that has to wait."""
    import fcntl

    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        if busy is not None:
            busy()
        told = threading.Timer(SAY_WAITING_AFTER, _log.warning, ("waiting for another process that uses %s", path))
        told.daemon = True
        told.start()
        try:
            fcntl.flock(descriptor, kind)
        finally:
            told.cancel()


@contextlib.contextmanager
def opened(path: Path, flags: int = os.O_WRONLY | os.O_APPEND | os.O_CREAT) -> Iterator[int]:
    """Open a regular file, by default to append, and yield its descriptor; refuse any link."""
    refuse_link(path)
    # A link may appear after the check, hence O_NOFOLLOW; a pipe would block without O_NONBLOCK.
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise RunError(f"{path}: expected a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def refuse_link(path: Path) -> None:
    """Raise if the file or folder about to be written is a link, which may lead anywhere."""
    if path.is_symlink():
        raise RunError(f"{path}: is a link to {path.readlink()}; surelabel does not follow links here; remove it")


def refuse_special_file(path: Path, error: type[SurelabelError] = DataError) -> None:
    """Raise if an input is a pipe, a socket or a device: reading one may never end."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # reported where the file is opened
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise error(f"{path}: not a regular file; expected a file, not a pipe or a device")


def refuse_overwriting(outputs: Iterable[Path], inputs: Iterable[Path] = (), option: str = "") -> None:
    """Raise if an output exists and is an input, by any path or link, or was not written by us.

    Call it before long work: `replace` asks it again, but does not know the inputs.
    """
    existing = [path for path in outputs if path.exists()]
    known: dict[tuple[int, int], Path] = {}
    for path in inputs if existing else ():
        if path.exists():
            known.setdefault(_identity(path), path)
    folders = [path for path in known.values() if path.is_dir()]
    for out in existing:
        around = next((path for path in folders if out.resolve().is_relative_to(path.resolve())), None)
        if (same := known.get(_identity(out))) is not None:
            fault = f"is the input {same} and would overwrite it; choose another place"
        elif around is not None:
            fault = f"lies in the input folder {around} and would overwrite it; choose another place"
        elif out.is_file() and not is_ours(out):
            fault = "surelabel did not write this file, or it was changed since; choose another place, or delete it"
        else:
            continue
        raise ConfigError(f"{option} {out}: {fault}".lstrip())


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def stamp(path: Path) -> Stamp:
    """Return a value that changes whenever a file is replaced; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
