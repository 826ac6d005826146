"""The journal of decisions: RUN/decisions.jsonl, one JSON object per line, only ever appended to.

    {"sequence": 7, "time": "2026-01-31T12:00:00.123+00:00", "id": "cat/17.png", "given": "cat",
     "action": "relabel", "label": "dog", "by": "ann"}

A decision in the queue of random labels has "queue": "random". The line that draws such a sample
names no row: its rows are the first `count` of the order that `random_order` makes from the seed,
so a larger sample contains the smaller one.

    {"sequence": 8, "time": "2026-01-31T12:00:05.000+00:00", "action": "draw", "seed": 2718281828,
     "count": 100, "by": "ann"}

A decision is on disk (fsync) before it is reported as saved. Every writer locks the file and first
reads what others have appended, so several servers and tabs can share one journal. A decision
names the last entry about its row that its author saw, and is refused if there is a later one. A
line that a crash cut short is not JSON: readers skip it, and the next writer ends it with a
newline.
"""

import hashlib
import json
import os
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from surelabel import files
from surelabel.errors import RunError, SurelabelError

FILE_NAME = "decisions.jsonl"
ACTIONS = ("keep", "relabel", "skip", "undo")
FINAL = ("keep", "relabel")
"""Actions after which a label is known."""
DRAW = "draw"
RANDOM = "random"
"""The queue of random labels."""


@dataclass(frozen=True)
class Decision:
    """A line of the journal."""

    sequence: int
    """The number of the entry, counted from 1 over all rows."""
    time: str
    """The time in UTC."""
    id: str
    given: str
    action: str
    """keep, relabel, skip or undo."""
    label: str | None
    """The label from now on: the given one for keep, None for skip, the previous one for undo."""
    by: str
    queue: str | None = None
    """random for a decision in the queue of random labels."""


@dataclass(frozen=True)
class Draw:
    """A line of the journal that draws a random sample, or enlarges it."""

    sequence: int
    time: str
    seed: int
    count: int
    by: str
    action: str = DRAW


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


@dataclass
class Standing:
    """The decisions on a row."""

    last: int = 0
    """The sequence of the last entry about it."""
    history: list[Decision] = field(default_factory=list)
    """The decisions that were not undone; the last one is valid."""

    @property
    def decision(self) -> Decision | None:
        """The valid decision, if any."""
        return self.history[-1] if self.history else None

    @property
    def is_random(self) -> bool:
        """Whether a valid decision on this row was made in the queue of random labels."""
        return any(decision.queue == RANDOM for decision in self.history)

    def take(self, entry: Decision) -> None:
        """Apply the next entry."""
        self.last = entry.sequence
        if entry.action == "undo":
            del self.history[-1:]
        else:
            self.history.append(entry)


Book = dict[str, Standing]
"""The rows in the journal, by id."""


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

    def __init__(self, path: str | Path, by: str = "person", sync: Callable[[int], None] = os.fsync) -> None:
        self.path, self.by, self._sync = Path(path), by, sync
        self._mutex = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._book: Book = {}
        self._draw: Draw | None = None
        self._sequence = self._line = self._offset = self._inode = 0

    def decisions(self) -> dict[str, Decision]:
        """Return the valid decisions (keep, relabel, skip) by id, in the order they were made."""
        held = [standing.history[-1] for standing in self.book().values() if standing.history]
        return {decision.id: decision for decision in sorted(held, key=lambda decision: decision.sequence)}

    def book(self) -> Book:
        """Return the decisions on every row in the journal."""
        with self._mutex:
            self._read()
            return {id: Standing(standing.last, list(standing.history)) for id, standing in self._book.items()}

    def sample(self) -> Draw | None:
        """Return the random sample as it was last drawn or enlarged; None if there is none."""
        with self._mutex:
            self._read()
            return self._draw

    def draw(self, count: int) -> Draw:
        """Draw `count` random labels, or enlarge the sample to so many, and return the sample."""
        if count < 1:
            raise RunError(f"{count} random labels: expected 1 or more")
        with self._mutex, files.locked(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as file:
            self._catch_up(file)
            drawn = self._draw
            if drawn is not None and drawn.count >= count:
                return drawn
            seed = secrets.randbits(32) if drawn is None else drawn.seed
            entry = Draw(self._sequence + 1, _now(), seed, count, self.by)
            self._write(file, _line(entry))
            self._catch_up(file)
        return entry

    def _read(self) -> None:
        if self.path.exists():
            with files.locked(self.path, os.O_RDONLY, shared=True) as file:
                self._catch_up(file)
        else:
            self._forget()

    def append(self, wishes: Sequence[Wish]) -> list[Decision]:
        """Append all of these, or raise Conflict if one of the rows was decided on since."""
        with self._mutex, files.locked(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as file:
            self._catch_up(file)
            self._check(wishes)
            now = _now()
            entries = [self._entry(wish, number, now) for number, wish in enumerate(wishes, self._sequence + 1)]
            self._write(file, b"".join(map(_line, entries)))
            self._catch_up(file)
        return entries

    def to_csv(self, path: str | Path) -> int:
        """Write kept and relabelled rows as a csv for `fit --trusted`, and return their number."""
        held = [decision for decision in self.decisions().values() if decision.action in FINAL]
        rows = [(decision.id, decision.label, decision.time) for decision in held]
        files.replace_csv(Path(path), ("id", "label", "decided_at"), rows)
        return len(held)

    def _check(self, wishes: Sequence[Wish]) -> None:
        standings = {wish.id: self._book.get(wish.id, Standing()) for wish in wishes}
        if len(standings) < len(wishes):
            raise RunError("the same row was given twice; expected one decision for each")
        stale = [wish.id for wish in wishes if wish.seen != standings[wish.id].last]
        if stale:
            raise Conflict(stale)
        for wish in wishes:
            if wish.action not in ACTIONS:
                raise RunError(f"{wish.action!r} is no decision; possible are {', '.join(ACTIONS)}")
            if wish.action == "undo" and not standings[wish.id].history:
                raise RunError(f"there is no decision on {wish.id!r} to undo")

    def _entry(self, wish: Wish, sequence: int, now: str) -> Decision:
        label = {"keep": wish.given, "relabel": wish.label}.get(wish.action)
        if wish.action == "undo":
            before = self._book[wish.id].history[-2:-1]
            label = before[0].label if before else None
        return Decision(sequence, now, wish.id, wish.given, wish.action, label, self.by, wish.queue)

    def _write(self, file: int, content: bytes) -> None:
        """Append and sync; remove what could not be written whole, so that half is never read."""
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            content = b"\n" + content  # ends a line that a crash cut short
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
            self._apply(line)
            self._offset += len(line) + 1
            self._line += 1
        if self._apply(tail):  # complete except for its newline, which the next writer adds
            self._offset += len(tail)

    def _apply(self, line: bytes) -> bool:
        """Apply a line; one that is not JSON was cut short and never reported as saved."""
        try:
            content = json.loads(line)
        except ValueError:
            return False
        entry = self._parse(content)
        self._sequence = max(self._sequence, entry.sequence)
        if isinstance(entry, Draw):
            self._draw = entry
            return True
        self._book.setdefault(entry.id, Standing()).take(entry)
        return True

    def _parse(self, content: Any) -> Decision | Draw:
        is_draw = isinstance(content, dict) and content.get("action") == DRAW
        kinds: dict[str, type] = {"sequence": int, "time": str, "action": str, "by": str}
        kinds |= {"seed": int, "count": int} if is_draw else {"id": str, "given": str}
        whole = isinstance(content, dict) and all(isinstance(content.get(name), kind) for name, kind in kinds.items())
        if whole and is_draw:
            return Draw(**{name: content[name] for name in kinds})
        known = whole and content["action"] in ACTIONS
        if not known or not isinstance(content.get("label"), str if content["action"] in FINAL else str | None):
            raise RunError(
                f"{self.path}: line {self._line + 1} is not a decision; expected {', '.join(kinds)} and label"
            )
        values = {name: content[name] for name in kinds}
        return Decision(**values, label=content.get("label"), queue=RANDOM if content.get("queue") == RANDOM else None)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _line(entry: Decision | Draw) -> bytes:
    """Return a line of the journal; a decision outside the random queue names no queue."""
    content = {name: value for name, value in asdict(entry).items() if name != "queue" or value is not None}
    return (json.dumps(content) + "\n").encode()


def _read(file: int, offset: int, size: int) -> bytes:
    """Read up to `size` bytes from `offset`."""
    parts = []
    while size > 0 and (part := os.pread(file, size, offset)):
        parts.append(part)
        offset, size = offset + len(part), size - len(part)
    return b"".join(parts)
