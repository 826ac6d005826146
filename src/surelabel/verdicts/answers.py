"""Read what people decided on the labels of a run, and which of it is a random sample."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.runs.decisions import DECIDED, REMOVE, Decision, Draw, Journal, Place, random_order
from surelabel.verdicts.random_sample import Sample
from surelabel.verdicts.reviewed import Answers

Mask = NDArray[np.bool_]
NO_CLASS, TO_REMOVE = -1, -2
"""In place of a class: no decision, or one that names no class; and: the row is to be removed."""


@dataclass(frozen=True)
class Review:
    """The decisions on the N rows of a run, in the order of its data."""

    answers: Answers
    """What people said after looking; decisions that were made at once, in bulk, are no looks."""
    is_decided: Mask
    """(N,) rows that a person decided on, looked at or not."""
    labels: NDArray[np.integer[Any]]
    """(N,) the class that a person decided on; NO_CLASS without a decision, or TO_REMOVE."""

    @property
    def num_decided(self) -> int:
        """The number of rows with a decision."""
        return int(self.is_decided.sum())

    @property
    def num_looked(self) -> int:
        """The number of rows that a person decided on one by one, and so looked at."""
        return int(self.answers.is_decided.sum())


class ReviewReader:
    """Reads the journal of a run again and again: what is new in it, with a random order made once.

    Only one thread at a time may call `read`.
    """

    def __init__(
        self,
        ids: Sequence[str],
        given: NDArray[np.integer[Any]],
        class_names: Sequence[str],
        may_be_wrong: Mask,
    ) -> None:
        """`may_be_wrong` are the rows that a random sample is drawn from."""
        self.ids, self.given, self.may_be_wrong = ids, given, may_be_wrong
        self.row_of = {id: row for row, id in enumerate(ids)}
        self.number_of = {name: number for number, name in enumerate(class_names)}
        self._order: tuple[int, list[int]] | None = None
        self._forget()

    def _forget(self) -> None:
        self._place: Place | None = None
        self._is_decided, self._is_looked, self._is_random = np.zeros((3, len(self.ids)), dtype=bool)
        self._labels = np.full(len(self.ids), NO_CLASS)

    def read(self, journal: Journal) -> Review | None:
        """Return the decisions that hold now; None if there are none, and no sample."""
        self._catch_up(journal)
        draw, is_decided, is_looked = journal.sample(), self._is_decided.copy(), self._is_looked.copy()
        if not is_decided.any() and draw is None:
            return None
        is_wrong = is_looked & (self._labels != self.given)
        sample = None if draw is None else self._answered(draw, is_looked, is_wrong)
        return Review(Answers(is_looked, is_wrong, sample), is_decided, self._labels.copy())

    def _catch_up(self, journal: Journal) -> None:
        """Take over the rows that were decided on since the last call."""
        changes = journal.changes(self._place)
        if changes.is_anew:
            self._forget()
        for id, standing in changes.book.items():
            row, decision = self.row_of.get(id), standing.decision
            if row is not None:
                self._is_random[row] = standing.is_random
                self._is_decided[row] = decision is not None and decision.action in DECIDED
                self._is_looked[row] = self._is_decided[row] and decision is not None and decision.bulk is None
                self._labels[row] = self._label(decision)
        self._place = changes.place

    def _label(self, decision: Decision | None) -> int:
        if decision is not None and decision.action == REMOVE:
            return TO_REMOVE
        if decision is None or decision.action not in DECIDED or decision.label is None:
            return NO_CLASS
        return self.number_of.get(decision.label, NO_CLASS)

    def sampled(self, draw: Draw) -> list[int]:
        """Return the rows of the whole sample, in the order in which to look at them."""
        if self._order is None or self._order[0] != draw.seed:
            rows = np.flatnonzero(self.may_be_wrong).tolist()
            self._order = draw.seed, [rows[at] for at in random_order(draw.seed, [self.ids[row] for row in rows])]
        return self._order[1][: draw.count]

    def _answered(self, draw: Draw, is_decided: Mask, is_wrong: Mask) -> Sample:
        """Return the answers up to the first row of the sample that nobody has looked at.

        Rows that were decided on elsewhere do not end an unfinished sample: that they have an
        answer depends on their score. Decisions made in bulk are no answers.
        """
        rows = self.sampled(draw)
        is_own = self._is_random[rows]
        is_known = is_decided[rows] | is_own
        size = len(rows) if is_known.all() else int(np.argmin(is_known))
        if size < len(rows):
            size = int(np.flatnonzero(is_own[:size])[-1]) + 1 if is_own[:size].any() else 0
        first = np.array(rows[:size], dtype=np.int64)
        num_labels = int(self.may_be_wrong.sum())
        return Sample(first, is_wrong[first], ~is_decided[first], is_own[:size], num_labels, len(rows))
