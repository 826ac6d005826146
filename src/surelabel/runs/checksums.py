"""Checksums of the files of a run: RUN/checksums.json, checked whenever a file is read.

    {"state.safetensors": ["9f86d0...", "60303a..."], "config.json": ["fd61a0..."]}

The checksum of a file is written before the file itself takes its place, and the one before is kept
beside it: after a crash at any point the file has one of them. Files that are not listed, as all of
runs without checksums.json, are not checked. A deleted file, such as the state, may stay listed.
The list has a checksum of its own, so that damage to it is not taken for damage to another file.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from surelabel import files
from surelabel.errors import RunError

FILE_NAME = "checksums.json"


class Checksums:
    """The checksums of one run directory."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE_NAME
        self._known: tuple[files.Stamp, dict[str, list[str]]] = None, {}
        self._in_place: dict[str, str] = {}
        self._verified: dict[str, files.Stamp] = {}

    def replace(self, name: str, write: Callable[[Path], Any]) -> None:
        """Write a file atomically, and its checksum before it takes its place."""
        files.replace(self._file.with_name(name), write, record=partial(self._record, name))
        self._in_place[name] = self._known[1][name][0]

    def _record(self, name: str, found: str) -> None:
        known = self._read()
        before = known.get(name, [])
        if before and before[0] == self._in_place.get(name):
            before = before[:1]  # else a crash may have left the file with any of them
        self._write({**known, name: list(dict.fromkeys([found, *before]))})

    def forget(self, name: str) -> None:
        """Stop checking a file."""
        if name in (known := self._read()):
            self._write({other: sums for other, sums in known.items() if other != name})

    def lists(self, name: str) -> bool:
        """Return whether a file is checked."""
        return name in self._read()

    def verify(self, name: str, remedy: str | None = None) -> None:
        """Raise if a file that is listed differs from its checksum; read it at most once."""
        path = self._file.with_name(name)
        while name in (known := self._read()) and self._verified.get(name) != (stamp := files.stamp(path)):
            found = files.checksum(path)
            if found in known[name]:
                self._verified[name] = stamp
            elif self._read(again=True) == known:  # else another process has replaced both meanwhile
                raise RunError(
                    f"{path}: differs from its checksum, so it was damaged or edited; {remedy or self._remedy(path)}"
                )

    def _remedy(self, path: Path) -> str:
        if path.suffix == ".json":
            return f"restore it, or delete {self._file} if you edited it on purpose"
        return "restore it from a copy, or train again"

    def _read(self, again: bool = False) -> dict[str, list[str]]:
        """Return the checksums by file; unless asked for, read again only if they were replaced."""
        if (stamp := files.stamp(self._file)) != self._known[0] or again:
            self._known = stamp, {} if stamp is None else self._parse()
        return self._known[1]

    def _parse(self) -> dict[str, list[str]]:
        content: Any = None
        if self._file.is_file():  # reading from a pipe would wait for ever
            with contextlib.suppress(OSError, ValueError):
                content = json.loads(self._file.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or not all(isinstance(sums, list) for sums in content.values()):
            raise RunError(f"{self._file}: not readable as checksums; delete it to read the run without checks")
        if content.pop(FILE_NAME, None) != [_checksum_of(content)]:
            raise RunError(f"{self._file}: was damaged or edited; delete it to read the run without checks")
        return content

    def _write(self, content: dict[str, list[str]]) -> None:
        whole = {**content, FILE_NAME: [_checksum_of(content)]}
        files.replace_text(self._file, json.dumps(whole, indent=1) + "\n", files.unlisted)
        self._known = files.stamp(self._file), content


def _checksum_of(content: dict[str, list[str]]) -> str:
    """Return the checksum of the list itself."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
