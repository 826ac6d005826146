"""The entries of the journal of decisions as lines of text, and what of them cannot be read.

    {"sequence": 7, "time": "2026-01-31T12:00:00.123+00:00", "id": "cat/17.png", "given": "cat",
     "action": "relabel", "label": "dog", "by": "ann", "crc32": "0a1b2c3d"}

Decisions that were made at once have the number of the first of them as `bulk`: they hold, but
nobody looked at each row, so no estimate learns from them. Annotators decide independently of each
other; their decisions have `"independent": true`.

`crc32` is the checksum of the line without it.

Entries are numbered 1, 2, 3, ... by `sequence`, so a missing one is noticed too. A write that a
crash cut short was never reported as saved, and the next entry has the number that it would have
had: such a line is no damage. A line that cannot be read and whose number is missing is.

A line with the action `accept` says that a person knows of all damage before it. It holds the
CRC-32 of all bytes before it, so it does not cover what is damaged later.
"""

import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

ACTIONS = ("keep", "relabel", "remove", "unsure", "skip", "undo")
FINAL = ("keep", "relabel")
"""Actions after which a label is known."""
REMOVE, UNSURE = "remove", "unsure"
"""None of the classes fits, so that the row leaves the data; and: somebody else should look."""
DECIDED = (*FINAL, REMOVE)
"""Actions after which nothing is left to decide."""
DRAW = "draw"
ACCEPT = "accept"
RANDOM = "random"
"""The queue of random labels."""
MOST_NAMED = 5
"""Lines that a message names one by one."""
_OPTIONAL = ("queue", "bulk", "independent")
_CHECKED = re.compile(rb'(.*), "crc32": "([0-9a-f]{8})"\}', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision on a row."""

    sequence: int
    """The number of the entry, counted from 1 over all rows."""
    time: str
    """The time in UTC."""
    id: str
    given: str
    action: str
    """One of ACTIONS."""
    label: str | None
    """The label from now on: the given one for keep, the previous one for undo; None if open."""
    by: str
    queue: str | None = None
    """random for a decision in the queue of random labels."""
    bulk: int | None = None
    """The number of the first of several decisions that were made at once."""
    independent: bool | None = None
    """True for the opinion of an annotator, whom `by` names (opinions.py)."""


@dataclass(frozen=True, slots=True)
class Draw:
    """An entry that draws a random sample, or enlarges it."""

    sequence: int
    time: str
    seed: int
    count: int
    by: str
    action: str = DRAW


@dataclass(frozen=True, slots=True)
class Acceptance:
    """An entry that accepts the loss of decisions: what is damaged before it is known."""

    sequence: int
    time: str
    before: int
    """The CRC-32 of all bytes before this line."""
    damage: str
    """What was damaged, for people."""
    by: str
    action: str = ACCEPT


Entry = Decision | Draw | Acceptance


def encode(entry: Entry) -> bytes:
    """Return an entry as a line, without optional fields that have no value."""
    content = {name: value for name, value in asdict(entry).items() if name not in _OPTIONAL or value is not None}
    line = json.dumps(content).encode()
    return line[:-1] + b', "crc32": "%08x"}\n' % zlib.crc32(line)


def decode(line: bytes) -> Entry | None:
    """Return the entry of a line; None if the line is damaged or was cut short."""
    return _decode(line) or _decode(line[:-1])  # a damaged newline does no harm


def _decode(line: bytes) -> Entry | None:
    checked = _CHECKED.fullmatch(line)
    if checked is None or zlib.crc32(checked[1] + b"}") != int(checked[2], 16):
        return None
    try:
        content = json.loads(checked[1] + b"}")
    except (ValueError, RecursionError):
        return None
    return _make_entry(content) if isinstance(content, dict) else None


def _make_entry(content: dict[str, Any]) -> Entry | None:
    """Return the entry with these fields; those that this version does not know are ignored."""
    kinds: dict[str, type] = {"sequence": int, "time": str, "action": str, "by": str}
    if content.get("action") == DRAW:
        kinds |= {"seed": int, "count": int}
    elif content.get("action") == ACCEPT:
        kinds |= {"before": int, "damage": str}
    elif content.get("action") in ACTIONS:
        kinds |= {"id": str, "given": str} | ({"label": str} if content["action"] in FINAL else {})
    else:
        return None
    if not all(isinstance(content.get(name), kind) for name, kind in kinds.items()):
        return None
    values = {name: content[name] for name in kinds if name != "label"}
    if content["action"] == DRAW:
        return Draw(**values)
    if content["action"] == ACCEPT:
        return Acceptance(**values)
    label, queue, bulk = (content.get(name) for name in ("label", "queue", "bulk"))
    if not isinstance(label, str | None) or not isinstance(bulk, int | None):
        return None
    queue, independent = RANDOM if queue == RANDOM else None, content.get("independent") is True or None
    return Decision(**values, label=label, queue=queue, bulk=bulk, independent=independent)


@dataclass(frozen=True)
class Damage:
    """What is wrong with a journal; False if nothing is."""

    unreadable: tuple[int, ...] = ()
    """Numbers of the lines that cannot be read, counted from 1."""
    num_missing: int = 0
    """The number of entries that are missing altogether."""
    missing_before: tuple[int, ...] = ()
    """Numbers of the lines before which they are missing."""
    misplaced: tuple[int, ...] = ()
    """Numbers of the lines whose entry should come earlier; they are read."""
    num_lost: int = 0
    """The number of entries that are missing after the last line."""

    def __bool__(self) -> bool:
        return bool(self.unreadable or self.num_missing or self.misplaced or self.num_lost)

    def __str__(self) -> str:
        """Return this as part of a sentence: "line 3 cannot be read; ..."."""
        parts = []
        if self.unreadable:
            parts.append(f"{_name_lines(self.unreadable)} cannot be read")
        if self.num_missing:
            parts.append(f"{_count_entries(self.num_missing)} missing before {_name_lines(self.missing_before)}")
        if self.misplaced:
            parts.append(f"{_name_lines(self.misplaced)} {'is' if len(self.misplaced) == 1 else 'are'} out of order")
        if self.num_lost:
            parts.append(f"{_count_entries(self.num_lost)} missing at the end")
        return "; ".join(parts)


def _count_entries(count: int) -> str:
    return "1 entry is" if count == 1 else f"{count:,} entries are"


def _name_lines(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    if len(numbers) <= MOST_NAMED:
        return f"lines {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
    return f"{len(numbers):,} lines ({', '.join(map(str, numbers[:MOST_NAMED]))}, ...)"


class Numbering:
    """Follows the numbers of entries, line by line, and notes damage."""

    def __init__(self) -> None:
        self.line = 0
        """The number of lines read."""
        self.counted = 0
        """The number of entries that the journal had at least, by the count beside it."""
        self.last = 0
        """The number of the last entry."""
        self._unread: list[int] = []
        """Lines after the last entry that cannot be read: damaged, or cut short by a crash."""
        self._unreadable: list[int] = []
        self._num_missing = 0
        self._missing_before: list[int] = []
        self._misplaced: list[int] = []

    @property
    def next(self) -> int:
        """The number of the next entry; lines that cannot be read keep theirs."""
        return max(self.last + len(self._unread), self.counted) + 1

    def skip(self) -> None:
        """Note that the current line cannot be read."""
        self._unread.append(self.line + 1)

    def take(self, entry: Entry) -> None:
        """Note the entry of the current line."""
        gap = entry.sequence - self.last - 1
        if gap:
            self._unreadable += self._unread
        if gap > len(self._unread):
            self._num_missing += gap - len(self._unread)
            self._missing_before.append(self.line + 1)
        elif gap < 0:
            self._misplaced.append(self.line + 1)
        self._unread = []
        self.last = max(self.last, entry.sequence)

    def accept(self) -> None:
        """Forget all damage up to the entry just taken."""
        self._unreadable, self._num_missing, self._missing_before, self._misplaced = [], 0, [], []

    def damage(self) -> Damage:
        """Return all damage so far, apart from what was accepted."""
        return Damage(
            (*self._unreadable, *self._unread),
            self._num_missing,
            tuple(self._missing_before),
            tuple(self._misplaced),
            max(0, self.counted - self.last - len(self._unread)),
        )
