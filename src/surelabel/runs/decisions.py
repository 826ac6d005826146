"""The journal of decisions: RUN/decisions.jsonl, only ever appended to; entries.py has its lines.

A decision in the queue of random labels has "queue": "random". The line that draws such a sample
names no row: its rows are the first `count` of the order that `random_order` makes from the seed,
so a larger sample contains the smaller one.

    {"sequence": 8, "time": "2026-01-31T12:00:05.000+00:00", "action": "draw", "seed": 2718281828,
     "count": 100, "by": "ann", "crc32": "0a1b2c3d"}

A decision is on disk (fsync) before it is reported as saved. Every writer locks the file and first
reads what others have appended, so several servers and tabs can share one journal. A decision
names the last entry about its row that its author saw, and is refused if there is a later one. A
line that a crash cut short is skipped, and the next writer ends it with a newline. Other lines that
cannot be read, and entries that are lost (entry_count.py), are damage, which `Journal.damage` names
until a person accepts it.

Nothing is read or copied twice: a journal reads what was appended since its last call, and its
readers ask for the rows that changed since theirs (`changes`).
"""

import hashlib
import os
import secrets
import shlex
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from surelabel import files
from surelabel.errors import ConfigError, RunError, SurelabelError
from surelabel.runs.decisions_csv import write_decisions
from surelabel.runs.entries import (
    ACTIONS,
    DECIDED,
    DRAW,
    FINAL,
    RANDOM,
    REMOVE,
    UNSURE,
    Acceptance,
    Damage,
    Decision,
    Draw,
    Numbering,
    decode,
    encode,
)
from surelabel.runs.entry_count import read_count, write_count
from surelabel.runs.opinions import LAST, RULES, Agreement, RowBook
from surelabel.runs.standings import Book, Changes, Place, Standing

__all__ = [
    "ACTIONS",
    "DECIDED",
    "DRAW",
    "FILE_NAME",
    "FINAL",
    "RANDOM",
    "REMOVE",
    "RULES",
    "UNSURE",
    "Book",
    "Changes",
    "Conflict",
    "Damage",
    "Decision",
    "Draw",
    "Journal",
    "Place",
    "Standing",
    "Wish",
    "random_order",
]

FILE_NAME = "decisions.jsonl"


@dataclass(frozen=True)
class Wish:
    """A decision that someone asks for."""

    id: str
    given: str
    action: str
    label: str | None = None
    """The new label, for relabel."""
    seen: int = 0
    """The sequence of the last entry about this row that its author saw; 0 if none."""
    queue: str | None = None
    """random for a decision in the queue of random labels."""


def random_order(seed: int, ids: Sequence[str]) -> list[int]:
    """Return the positions of these ids in a random order, the same on every machine."""
    keys = [hashlib.sha256(f"{seed}:{id}".encode("utf-8", "surrogatepass")).digest() for id in ids]
    return sorted(range(len(ids)), key=keys.__getitem__)


class Conflict(SurelabelError):
    """Someone else has decided on the same row in the meantime; nothing was written."""

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__(f"decided meanwhile by somebody else: {', '.join(map(repr, ids))}; look again")
        self.ids = tuple(ids)


class Journal:
    """The decisions on the labels of one run, shared by everyone who has it open."""

    def __init__(
        self,
        path: str | Path,
        by: str = "person",
        sync: Callable[[int], None] = os.fsync,
        *,
        is_independent: bool = False,
        rule: str = LAST,
    ) -> None:
        """`is_independent` shows and makes the decisions of the annotator `by` only.

        Otherwise `rule`, one of RULES, says which decision of several annotators counts.
        """
        if rule not in RULES:
            raise ConfigError(f"annotators: {rule!r} is not a rule; expected {', '.join(RULES)}")
        self.path, self.by, self._sync = Path(path), by, sync
        self.is_independent, self.rule = is_independent, rule
        self._mutex = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._rows = RowBook(self.by if self.is_independent else None, self.rule)
        self._draw: Draw | None = None
        self._numbering, self._beginning = Numbering(), object()
        self._offset = self._inode = 0
        self._crc = 0
        """The CRC-32 of the bytes before the offset."""

    def decisions(self) -> dict[str, Decision]:
        """Return the valid decisions by id, in the order they were made."""
        held = [standing.decision for standing in self.book().values() if standing.decision is not None]
        return {decision.id: decision for decision in sorted(held, key=lambda decision: decision.sequence)}

    def book(self) -> Book:
        """Return the decisions on every row in the journal."""
        return self.changes().book

    def changes(self, since: Place | None = None) -> Changes:
        """Return the rows that were decided on since a place; all rows without one."""
        with self._mutex:
            self._read()
            place = Place(self._beginning, len(self._rows.entries))
            if since is None or since.beginning is not self._beginning:
                return Changes(dict(self._rows.standings), place, is_anew=True)
            fresh = islice(self._rows.entries, since.num_decisions, None)
            return Changes({entry.id: self._rows.standings[entry.id] for entry in fresh}, place, is_anew=False)

    def find(self, ids: Iterable[str]) -> Book:
        """Return the decisions on these rows, without those that nobody has decided on."""
        with self._mutex:
            self._read()
            return {id: self._rows.standings[id] for id in ids if id in self._rows.standings}

    def recent(self, most: int) -> list[list[Decision]]:
        """Return the last `most` valid decisions in order; those made at once come together."""
        with self._mutex:
            self._read()
            return self._rows.recent(most)

    def opinions(self, ids: Iterable[str] | None = None) -> dict[str, dict[str, Decision]]:
        """Return the decisions of annotators on these rows, or on all, by id and name."""
        with self._mutex:
            self._read()
            return self._rows.opinions(ids)

    def disputed(self) -> set[str]:
        """Return the rows on which annotators disagree."""
        with self._mutex:
            self._read()
            return set(self._rows.disputed)

    def unsure(self) -> set[str]:
        """Return the rows for which somebody asks for another opinion."""
        with self._mutex:
            self._read()
            return set(self._rows.unsure)

    def agreement(self) -> list[Agreement]:
        """Return how far each two annotators agree."""
        with self._mutex:
            self._read()
            return self._rows.agreement()

    def damage(self) -> Damage:
        """Return what cannot be read or is missing and was not accepted; False if nothing is."""
        with self._mutex:
            self._read()
            return self._numbering.damage()

    def refuse_damage(self, remedy: str) -> None:
        """Raise if decisions are lost or may be; `remedy` says how to go on without them once."""
        if damage := self.damage():
            accept = f"accept the loss for good: surelabel review {shlex.quote(str(self.path.parent))} --accept-damage"
            raise RunError(f"{self.path}: {damage}; restore this file from a backup, {remedy}, or {accept}")

    def accept_damage(self) -> Damage:
        """Note that all damage is known, and return it; no line is changed or removed.

        From then on this damage is no reason to warn or to refuse. Later damage is.
        """
        with self._writing() as file:
            damage = self._numbering.damage()
            if damage:
                left = _read(file, self._offset, os.fstat(file).st_size - self._offset)  # cut short by a crash
                before = zlib.crc32(left + _missing_newline(file), self._crc)
                self._write(file, encode(Acceptance(self._numbering.next, _now(), before, str(damage), self.by)))
        return damage

    def sample(self) -> Draw | None:
        """Return the random sample as it was last drawn or enlarged; None if there is none."""
        with self._mutex:
            self._read()
            return self._draw

    def draw(self, count: int) -> Draw:
        """Draw `count` random labels, or enlarge the sample to so many, and return the sample."""
        if count < 1:
            raise RunError(f"{count} random labels: expected 1 or more")
        with self._writing() as file:
            drawn = self._draw
            if drawn is not None and drawn.count >= count:
                return drawn
            seed = secrets.randbits(32) if drawn is None else drawn.seed
            entry = Draw(self._numbering.next, _now(), seed, count, self.by)
            self._write(file, encode(entry))
        return entry

    def _read(self) -> None:
        counted = read_count(self.path)  # first: another process may be writing
        if self.path.exists():
            with files.locked(self.path, os.O_RDONLY, shared=True) as file:
                self._catch_up(file)
        else:
            self._forget()
        self._numbering.counted = counted

    @contextmanager
    def _writing(self) -> Iterator[int]:
        """Lock the journal, read what others have written, and yield it to append to."""
        with self._mutex, files.locked(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as file:
            counted = read_count(self.path)
            self._catch_up(file)
            self._numbering.counted = counted
            yield file
            self._catch_up(file)
            if self._numbering.last > counted:
                write_count(self.path, self._numbering.last)

    def append(self, wishes: Sequence[Wish]) -> list[Decision]:
        """Append all of these, or raise Conflict if one of the rows was decided on since."""
        with self._writing() as file:
            self._check(wishes)
            now = _now()
            first = self._numbering.next
            bulk = first if len(wishes) > 1 else None
            entries = [self._entry(wish, number, now, bulk) for number, wish in enumerate(wishes, first)]
            self._write(file, b"".join(map(encode, entries)))
        return entries

    def to_csv(self, path: str | Path, *, force: bool = False) -> int:
        """Write all decisions but skipped rows as a csv for `fit --trusted`; return their number.

        A damaged journal is refused without `force`: the csv would lack decisions.
        """
        if not force:
            self.refuse_damage("write a csv without these decisions with force=True")
        held = [one for one in self.decisions().values() if one.action in (*DECIDED, UNSURE)]
        disputed = self.opinions(self.disputed())
        files.replace(Path(path), lambda temporary: write_decisions(temporary, held, disputed))
        return len(held)

    def _check(self, wishes: Sequence[Wish]) -> None:
        standings = {wish.id: self._rows.standings.get(wish.id, Standing()) for wish in wishes}
        if len(standings) < len(wishes):
            raise RunError("the same row was given twice; expected one decision for each")
        stale = [wish.id for wish in wishes if wish.seen != standings[wish.id].last]
        if stale:
            raise Conflict(stale)
        for wish in wishes:
            if wish.action not in ACTIONS:
                raise RunError(f"{wish.action!r} is not a decision; expected one of {', '.join(ACTIONS)}")
            if wish.action == "undo" and self._rows.own(wish.id).decision is None:
                raise RunError(f"there is no decision on {wish.id!r} to undo")

    def _entry(self, wish: Wish, sequence: int, now: str, bulk: int | None) -> Decision:
        label = {"keep": wish.given, "relabel": wish.label}.get(wish.action)
        if wish.action == "undo":
            before = self._rows.own(wish.id).before
            label = before.decision.label if before is not None and before.decision is not None else None
        return Decision(
            sequence,
            now,
            wish.id,
            wish.given,
            wish.action,
            label,
            self.by,
            wish.queue,
            bulk,
            self.is_independent or None,
        )

    def _write(self, file: int, content: bytes) -> None:
        """Append and sync; remove what could not be written whole, so that half is never read."""
        size = os.fstat(file).st_size
        content = _missing_newline(file) + content  # ends a line that a crash cut short
        try:
            while content:
                content = content[os.write(file, content) :]
            self._sync(file)
        except BaseException:
            os.ftruncate(file, size)
            raise
        if not size:
            self._sync_folder()

    def _sync_folder(self) -> None:
        """Sync the folder too: only then is the name of a new file on disk."""
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            self._sync(folder)
        finally:
            os.close(folder)

    def _catch_up(self, file: int) -> None:
        """Read the lines that were appended since the last call."""
        status = os.fstat(file)
        if status.st_ino != self._inode or status.st_size < self._offset:
            self._forget()  # the file was replaced
            self._inode = status.st_ino
        content = _read(file, self._offset, status.st_size - self._offset)
        *lines, tail = content.split(b"\n")
        for line in lines:
            if not self._apply(line) and line.strip():
                self._numbering.skip()
            self._pass(line + b"\n")
            self._numbering.line += 1
        if self._apply(tail):  # complete except for its newline, which the next writer adds
            self._pass(tail)

    def _pass(self, content: bytes) -> None:
        self._offset += len(content)
        self._crc = zlib.crc32(content, self._crc)

    def _apply(self, line: bytes) -> bool:
        """Apply a line; return False if it cannot be read."""
        entry = decode(line)
        if entry is None:
            return False
        self._numbering.take(entry)
        if isinstance(entry, Acceptance):
            if entry.before == self._crc:
                self._numbering.accept()
            return True
        if isinstance(entry, Draw):
            self._draw = entry
            return True
        self._rows.take(entry)
        return True


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _missing_newline(file: int) -> bytes:
    """Return the newline that the last line lacks, if it lacks one."""
    size = os.fstat(file).st_size
    return b"\n" if size and os.pread(file, 1, size - 1) != b"\n" else b""


def _read(file: int, offset: int, size: int) -> bytes:
    """Read up to `size` bytes from `offset`."""
    parts = []
    while size > 0 and (part := os.pread(file, size, offset)):
        parts.append(part)
        offset, size = offset + len(part), size - len(part)
    return b"".join(parts)
