"""The rows of an audit, filtered, counted and described for the page."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import asdict
from itertools import chain
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from surelabel.console import plain
from surelabel.data.corpus import Corpus, Examples
from surelabel.errors import RunError
from surelabel.reviewing.content import text_of
from surelabel.reviewing.states import RowStates
from surelabel.runs.decisions import Standing
from surelabel.runs.samples import TopK
from surelabel.verdicts import SUSPICIOUS_FROM, Audit
from surelabel.verdicts.kinds import KINDS, WRONG

NUM_CANDIDATES = 10
"""Likeliest classes listed for a row: one for each digit key."""
NUM_PAIRS = 12
"""Pairs of given and suggested class offered as filters."""
MOST_IN_OVERVIEW = 24
"""Classes in the table of pairs."""
NUM_ORDERS = 20
"""Orders of rows that are remembered for pages that were loaded with them."""
MOST_COMPARED = 1000
"""Rows of a selection that are compared to count how many have moved."""
SNIPPET = 240
"""Characters of a text in the grid and among neighbours."""
_NOT_EVIDENCE = (
    *("decided", "rank", "row", "id", "given", "suggested", "suggested_probability", "p_wrong", "split", "clean"),
    *("kind", *(f"is_{kind}" for kind in KINDS), "duplicate_of", "duplicate_group"),
)
"""Columns shown elsewhere, and the true label, which must not influence the reviewer."""


class Filter(BaseModel):
    """Which rows to show."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    given: str | None = None
    suggested: str | None = None
    kind: Literal["wrong", "duplicate", "outlier", "ambiguous"] | None = None
    low: float = Field(SUSPICIOUS_FROM, ge=0, le=1)
    """Lowest P(wrong)."""
    high: float = Field(1.0, ge=0, le=1)
    """Highest P(wrong)."""
    state: Literal["open", "decided", "removed", "disputed", "unsure", "skipped", "all"] = "open"
    sort: Literal["suspicion", "given", "suggested"] = "suspicion"
    """given and suggested put rows of one class together, the most suspicious first."""
    queue: Literal["suspects", "random"] = "suspects"
    """random shows the random sample, whatever the other filters are."""


class Suspects:
    """Every label of a run, the most suspicious first."""

    def __init__(self, audit: Audit, corpus: Corpus, probability: TopK | None = None) -> None:
        """`probability` is the network's, of training rows and then of held-out rows."""
        self.columns, self.probability = audit.columns, probability
        self.class_names = tuple(map(str, audit.class_names))
        self.splits = {"train": corpus.train} | ({"validation": corpus.validation} if corpus.validation else {})
        self.ids = [str(id) for id in audit.columns["id"]]
        self.row_of = {id: row for row, id in enumerate(self.ids)}
        if len(self.row_of) < len(self.ids):
            raise RunError("an id belongs to more than one row; decisions are kept by id, so ids must be unique")
        self.number_of = {name: number for number, name in enumerate(self.class_names)}
        self.given, self.suggested = (self._numbers(name) for name in ("given", "suggested"))
        self.p_wrong = np.array(audit.columns["p_wrong"], dtype=np.float64)
        """(N,) P(wrong); of decided rows as it was before the decision."""
        self.is_calibrated = audit.is_calibrated
        position_of = {str(id): at for at, id in enumerate(chain(*(part.ids for part in self.splits.values())))}
        self.position = np.array([position_of[id] for id in self.ids], dtype=np.int64)
        """(N,) the position of each row in the run: training rows, then held-out ones."""
        self.row_at = np.argsort(self.position)
        """(N,) the row of each position in the run."""
        self._by_row = np.argsort(self.columns["row"])  # the rows in the order of the user's data
        self.orders = {0: np.arange(len(self))}
        """Orders of rows by their number; the newest is the last."""
        self.sample(np.array([], dtype=np.int64))
        self.kinds, self.min_probability = audit.ranked_kinds, audit.min_probability

    def __len__(self) -> int:
        return len(self.ids)

    def sample(self, rows: np.ndarray) -> None:
        """Set the rows of the random sample, in the order in which to look at them."""
        is_sampled = np.zeros(len(self), dtype=bool)
        is_sampled[rows] = True
        self.sampled, self.is_sampled = rows, is_sampled

    def _numbers(self, column: str) -> np.ndarray:
        """Return a column of class names as class numbers (N,), which are faster to filter."""
        return np.array([self.number_of[str(name)] for name in self.columns[column]], dtype=np.int64)

    def snippet(self, row: int) -> str | None:
        """Return the beginning of a row's text; None if its input is not text."""
        split, position = self.place(row)
        text = text_of(self.splits[split], position)
        return text if text is None or len(text) <= SNIPPET else text[:SNIPPET].rstrip() + " …"

    def place(self, row: int) -> tuple[str, int]:
        """Return the split of a row's input, and its position there."""
        position, num_trained = int(self.position[row]), len(self.splits["train"])
        return ("train", position) if position < num_trained else ("validation", position - num_trained)

    def split_with(self, name: str, position: int) -> Examples | None:
        """Return the split of that name, or None if it has no row at this position."""
        rows = self.splits.get(name)
        return rows if rows is not None and 0 <= position < len(rows) else None

    def update(self, audit: Audit, before: np.ndarray | None = None) -> None:
        """Take P(wrong) of undecided rows from a newer audit; orders in use stay as they are.

        `before` is P(wrong) without any decision, in the order of the run, for decided rows.
        """
        p_wrong = self.p_wrong.copy() if before is None else before[self.position].astype(np.float64)
        left = ~audit.is_decided
        p_wrong[self._by_row[left]] = audit.p_wrong[left]
        newest = max(self.orders)
        order = np.argsort(-p_wrong, kind="stable")
        self.p_wrong = p_wrong
        if before is not None:
            self.orders = {0: order}
        elif not np.array_equal(order, self.orders[newest]):
            kept = {number: self.orders[number] for number in sorted(self.orders)[-NUM_ORDERS + 1 :]}
            self.orders = {**kept, newest + 1: order}

    def order(self, number: int) -> np.ndarray:
        """Return an order by its number; the newest if it is forgotten."""
        return self.orders.get(number, self.orders[max(self.orders)])

    def num_moved(self, wanted: Filter, number: int, states: RowStates) -> int:
        """Return how many of the next open rows are elsewhere in the newest order."""
        newest = max(self.orders)
        if number == newest or wanted.queue == "random":
            return 0
        open_rows = wanted.model_copy(update={"state": "open"})
        old, new = (self.match(open_rows, states, one)[1][:MOST_COMPARED].tolist() for one in (number, newest))
        place = {row: at for at, row in enumerate(old)}
        longest: list[int] = []  # the longest part that is in the same order in both
        for at in (place[row] for row in new if row in place):
            longest[bisect_left(longest, at) : bisect_left(longest, at) + 1] = [at]
        return max(len(old), len(new)) - len(longest)

    def match(self, wanted: Filter, states: RowStates, order: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return the ranks (from 0) and the numbers of the matching rows, in this order."""
        listed = self.sampled if wanted.queue == "random" else self._sort(self.order(order), wanted.sort)
        chosen = self._is_inside(wanted) & self._has_state(wanted, states)
        ranks = np.flatnonzero(chosen[listed])
        return ranks, listed[ranks]

    def _sort(self, rows: np.ndarray, by: str) -> np.ndarray:
        """Return rows sorted by a class; within it they keep their order."""
        if by == "suspicion":
            return rows
        classes = {"given": self.given, "suggested": self.suggested}[by]
        sorted_rows: np.ndarray = rows[np.argsort(classes[rows], kind="stable")]
        return sorted_rows

    def _has_state(self, wanted: Filter, states: RowStates) -> np.ndarray:
        """Return (N,) bool: rows in the state that the filter wants."""
        is_all = wanted.state == "all"
        return np.ones(len(self), dtype=bool) if is_all else states.has(wanted.state, wanted.queue == "random")

    def _is_inside(self, wanted: Filter) -> np.ndarray:
        """Return (N,) bool: rows with matching classes and P(wrong), decided or not."""
        if wanted.queue == "random":
            return self.is_sampled
        chosen = (self.p_wrong >= wanted.low) & (self.p_wrong <= wanted.high)
        for name, numbers in ((wanted.given, self.given), (wanted.suggested, self.suggested)):
            if name is not None:
                chosen &= numbers == self.number_of.get(name, -1)
        return chosen if wanted.kind is None else chosen & self._has_kind(wanted.kind)

    def _has_kind(self, kind: str) -> np.ndarray:
        """Return (N,) bool: rows of a kind, one of KINDS."""
        return self.p_wrong >= self.min_probability if kind == WRONG else self.kinds.rows(kind)

    def progress(self, wanted: Filter, states: RowStates) -> dict[str, Any]:
        """Count decisions, overall and inside the filter, and the wrong labels probably left."""
        is_random = wanted.queue == "random"
        decided, skipped = states.decided(is_random), states.set_aside(is_random)
        inside = self._is_inside(wanted)
        return {
            "rows": len(self),
            **states.counts(),
            # In the blind check it would tell P(wrong) of the label just decided on.
            "wrong_left": None if is_random else float(self.p_wrong[~decided].sum()),
            "inside": int(inside.sum()),
            "inside_decided": int((inside & decided).sum()),
            "inside_skipped": int((inside & skipped).sum()),
        }

    def menus(self, wanted: Filter, states: RowStates) -> dict[str, Any]:
        """Return the choices of the filters, with counts of the rows in the chosen state.

        Classes are counted in the chosen range of P(wrong). Kinds are counted in all of it, because
        most rows that are not wrong have a low P(wrong).
        """
        shown = self._has_state(wanted, states)
        inside = shown & self._is_inside(wanted.model_copy(update={"given": None, "suggested": None}))
        given, suggested = self.given[inside], self.suggested[inside]
        return {
            "given": self._count_classes(given),
            "suggested": self._count_classes(suggested),
            "pairs": self._frequent_pairs(given, suggested),
            "kinds": {kind: int((shown & self._has_kind(kind)).sum()) for kind in KINDS if kind in self.kinds.flags},
        }

    def overview(self, wanted: Filter, states: RowStates) -> dict[str, Any]:
        """Count the pairs of given and suggested class, and the rows of each given class.

        Of many classes, those with most rows whose suggestion differs are counted.
        """
        inside = self._has_state(wanted, states)
        inside &= self._is_inside(wanted.model_copy(update={"given": None, "suggested": None}))
        given, suggested, size = self.given[inside], self.suggested[inside], len(self.class_names)
        differs = given != suggested
        involved = np.bincount(given[differs], minlength=size) + np.bincount(suggested[differs], minlength=size)
        shown = np.sort(np.argsort(-involved, kind="stable")[:MOST_IN_OVERVIEW])
        place = np.full(size, -1)
        place[shown] = np.arange(len(shown))
        counts = np.zeros((len(shown), len(shown)), dtype=np.int64)
        is_shown = differs & (place[given] >= 0) & (place[suggested] >= 0)
        np.add.at(counts, (place[given[is_shown]], place[suggested[is_shown]]), 1)
        return {
            "classes": [self.class_names[number] for number in shown],
            "counts": counts.tolist(),
            "sizes": np.bincount(self.given, minlength=size)[shown].tolist(),
            "num_left": size - len(shown),
        }

    def _count_classes(self, numbers: np.ndarray) -> dict[str, int]:
        counts = np.bincount(numbers, minlength=len(self.class_names)).tolist()
        return dict(zip(self.number_of, counts, strict=True))

    def _frequent_pairs(self, given: np.ndarray, suggested: np.ndarray) -> list[tuple[str, str, int]]:
        """Return the most frequent pairs of given and suggested class with their counts."""
        names, other = list(self.number_of), given != suggested
        pairs, counts = np.unique(given[other] * len(names) + suggested[other], return_counts=True)
        most = np.argsort(-counts, kind="stable")[:NUM_PAIRS]
        found = [(*divmod(int(pairs[at]), len(names)), int(counts[at])) for at in most]
        return [(names[one], names[two], count) for one, two, count in found]

    def describe_blindly(self, row: int, standing: Standing | None, rank: int) -> dict[str, Any]:
        """Return a row of the random sample without anything that the model says of it.

        Nor does it have a decision that is no answer there: in bulk, suggestions are accepted.
        """
        split, position = self.place(row)
        decision = standing.decision if standing and standing.is_answer else None
        return {
            "is_blind": True,
            "rank": rank + 1,
            "id": self.ids[row],
            "split": split,
            "position": position,
            "given": self.class_names[self.given[row]],
            "seen": standing.last if standing else 0,
            "decision": None if decision is None else asdict(decision),
        }

    def describe(self, row: int, standing: Standing | None, rank: int) -> dict[str, Any]:
        """Return everything the page shows of a row; `rank` counts from 0."""
        decision = standing.decision if standing else None
        return {
            **self.describe_blindly(row, standing, rank),
            "is_blind": False,
            "number": row,
            "suggested": self.class_names[self.suggested[row]],
            "suggested_probability": plain(self.columns["suggested_probability"][row]),
            "p_wrong": float(self.p_wrong[row]),
            "kinds": [kind for kind in KINDS if self._is_of_kind(row, kind)],
            "partner": self._partner(row),
            "candidates": self._candidates(row),
            "evidence": {name: plain(values[row]) for name, values in self._evidence().items()},
            "decision": None if decision is None else asdict(decision),
        }

    def _is_of_kind(self, row: int, kind: str) -> bool:
        """Return the same as `_has_kind` for a row, without looking at the others."""
        if kind == WRONG:
            return bool(self.p_wrong[row] >= self.min_probability)
        return kind in self.kinds.flags and bool(self.kinds.flags[kind][row])

    def _partner(self, row: int) -> dict[str, str] | None:
        """Return id and label of the row that has a similar input and another label, if any."""
        other = int(self.kinds.partner[row])
        return None if other < 0 else {"id": self.ids[other], "given": self.class_names[self.given[other]]}

    def _evidence(self) -> Mapping[str, np.ndarray]:
        """Return all other columns of the audit that hold one value per row."""
        return {name: values for name, values in self.columns.items() if name not in _NOT_EVIDENCE and values.ndim == 1}

    def _candidates(self, row: int) -> list[tuple[str, float]]:
        """Return the likeliest classes according to the network, with their probabilities."""
        if self.probability is None:
            return []
        position = int(self.position[row])
        values = self.probability.dense(slice(position, position + 1))[0]
        best = np.argsort(-values, kind="stable")[:NUM_CANDIDATES]
        return [(self.class_names[number], float(values[number])) for number in best]
