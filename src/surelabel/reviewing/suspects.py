"""The rows of an audit as the page asks for them: filtered, counted, and described."""

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from surelabel.data.corpus import Corpus, Examples
from surelabel.errors import RunError
from surelabel.runs.decisions import FINAL, Book, Standing
from surelabel.verdicts import SUSPICIOUS_FROM, Audit

NUM_CANDIDATES = 10
"""Classes that a row names with their probability: as many as there are digits on a keyboard."""
NUM_PAIRS = 12
"""Pairs of given and suggested class that the filters offer."""
_BASE = ("rank", "id", "given", "suggested", "suggested_probability", "p_wrong", "split", "clean")
"""What a row shows by itself, or not at all: the truth would make a person's decision no evidence."""


class Filter(BaseModel):
    """Which rows to show."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    given: str | None = None
    suggested: str | None = None
    low: float = Field(SUSPICIOUS_FROM, ge=0, le=1)
    """Lowest probability of being wrong."""
    high: float = Field(1.0, ge=0, le=1)
    state: Literal["open", "decided", "skipped", "all"] = "open"


class Suspects:
    """Every label of a run, the most suspicious first."""

    def __init__(self, audit: Audit, corpus: Corpus, probability: np.ndarray | None = None) -> None:
        """`probability` (N, K) is what the network says, of training rows and then held-out ones."""
        self.columns, self.probability = audit.columns, probability
        self.class_names = tuple(map(str, audit.class_names))
        self.parts = {"train": corpus.train} | ({"validation": corpus.validation} if corpus.validation else {})
        self.ids = [str(id) for id in audit.columns["id"]]
        self.row_of = {id: row for row, id in enumerate(self.ids)}
        if len(self.row_of) < len(self.ids):
            raise RunError("an id stands for more than one row; decisions are kept by id, so ids must be unique")
        self.place = self._places()
        self.number_of = {name: number for number, name in enumerate(self.class_names)}
        self.given, self.suggested = (self._numbers(name) for name in ("given", "suggested"))
        self.p_wrong, self.is_calibrated = audit.p_wrong, audit.is_calibrated

    def __len__(self) -> int:
        return len(self.ids)

    def _numbers(self, column: str) -> np.ndarray:
        """(N,) class numbers, by which filters and counts are quick."""
        return np.array([self.number_of[str(name)] for name in self.columns[column]], dtype=np.int64)

    def _places(self) -> list[tuple[str, int]]:
        """Part and position of each row's input."""
        place = {(name, str(id)): at for name, rows in self.parts.items() for at, id in enumerate(rows.ids)}
        splits = self.columns.get("split", np.full(len(self), "train"))
        try:
            return [(str(split), place[str(split), id]) for split, id in zip(splits, self.ids, strict=True)]
        except KeyError as missing:
            raise RunError(f"the data hold no row {missing.args[0][1]!r}; this run was trained on others") from None

    def part(self, name: str, position: int) -> Examples | None:
        """The rows of which this is one, or None."""
        rows = self.parts.get(name)
        return rows if rows is not None and 0 <= position < len(rows) else None

    def matching(self, wanted: Filter, book: Book) -> np.ndarray:
        """Row numbers (n,), the most suspicious first."""
        chosen = self._inside(wanted)
        if wanted.state != "all":
            decided, skipped = self._marks(book)
            chosen &= {"open": ~decided & ~skipped, "decided": decided, "skipped": skipped}[wanted.state]
        return np.flatnonzero(chosen)

    def _inside(self, wanted: Filter) -> np.ndarray:
        """(N,) bool: by classes and probability, whatever was decided."""
        chosen = (self.p_wrong >= wanted.low) & (self.p_wrong <= wanted.high)
        for name, numbers in ((wanted.given, self.given), (wanted.suggested, self.suggested)):
            if name is not None:
                chosen &= numbers == self.number_of.get(name, -1)
        return chosen

    def _marks(self, book: Book) -> tuple[np.ndarray, np.ndarray]:
        """(N,) bool twice: the rows with a known label, and those that were skipped."""
        decided, skipped = np.zeros(len(self), dtype=bool), np.zeros(len(self), dtype=bool)
        for id, standing in book.items():
            if standing.decision is not None and id in self.row_of:
                (decided if standing.decision.action in FINAL else skipped)[self.row_of[id]] = True
        return decided, skipped

    def progress(self, wanted: Filter, book: Book) -> dict[str, Any]:
        """Counts over the whole run and inside the filter, and how many wrong labels are probably left."""
        decided, skipped = self._marks(book)
        held = [s.decision.action for id, s in book.items() if s.decision is not None and id in self.row_of]
        inside = self._inside(wanted)
        return {
            "rows": len(self),
            **{action: held.count(action) for action in ("keep", "relabel", "skip")},
            "wrong_left": float(self.p_wrong[~decided].sum()),
            "inside": int(inside.sum()),
            "inside_decided": int((inside & decided).sum()),
            "inside_skipped": int((inside & skipped).sum()),
        }

    def menus(self, wanted: Filter) -> dict[str, Any]:
        """What the filters can choose between, counted within the range of probability."""
        inside = self._inside(wanted.model_copy(update={"given": None, "suggested": None}))
        given, suggested = self.given[inside], self.suggested[inside]
        return {
            "given": self._counts(given),
            "suggested": self._counts(suggested),
            "pairs": self._pairs(given, suggested),
        }

    def _counts(self, numbers: np.ndarray) -> dict[str, int]:
        counts = np.bincount(numbers, minlength=len(self.class_names)).tolist()
        return dict(zip(self.number_of, counts, strict=True))

    def _pairs(self, given: np.ndarray, suggested: np.ndarray) -> list[tuple[str, str, int]]:
        """The most frequent changes, with their number."""
        names, other = list(self.number_of), given != suggested
        pairs, counts = np.unique(given[other] * len(names) + suggested[other], return_counts=True)
        most = np.argsort(-counts, kind="stable")[:NUM_PAIRS]
        found = [(*divmod(int(pairs[at]), len(names)), int(counts[at])) for at in most]
        return [(names[one], names[two], count) for one, two, count in found]

    def described(self, row: int, standing: Standing | None) -> dict[str, Any]:
        """All that the page shows of a row."""
        split, position = self.place[row]
        decision = standing.decision if standing else None
        return {
            "rank": row + 1,
            "id": self.ids[row],
            "split": split,
            "position": position,
            "given": self.class_names[self.given[row]],
            "suggested": self.class_names[self.suggested[row]],
            "suggested_probability": _plain(self.columns["suggested_probability"][row]),
            "p_wrong": float(self.p_wrong[row]),
            "candidates": self._candidates(row),
            "evidence": {name: _plain(values[row]) for name, values in self._evidence().items()},
            "seen": standing.last if standing else 0,
            "decision": None if decision is None else vars(decision),
        }

    def _evidence(self) -> Mapping[str, np.ndarray]:
        """Whatever else the audit says of a row in one value."""
        return {name: values for name, values in self.columns.items() if name not in _BASE and values.ndim == 1}

    def _candidates(self, row: int) -> list[tuple[str, float]]:
        """The classes that the network finds likeliest, with their probability."""
        if self.probability is None:
            return []
        split, position = self.place[row]
        values = self.probability[position + (len(self.parts["train"]) if split != "train" else 0)]
        best = np.argsort(-values, kind="stable")[:NUM_CANDIDATES]
        return [(self.class_names[number], float(values[number])) for number in best]


def _plain(value: Any) -> Any:
    """A value as JSON has it; what is not a finite number is null."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)
