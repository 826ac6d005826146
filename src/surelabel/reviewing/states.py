"""Which rows are decided and which are skipped, kept up to date with the journal."""

import threading
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from surelabel.runs.decisions import Journal, Place, Standing

OPEN, KEPT, RELABELLED, SKIPPED, SKIPPED_ELSEWHERE = range(5)
"""States of a row; the last one is skipped, but not in the queue of random labels."""
_OF_ACTION = {"keep": KEPT, "relabel": RELABELLED}

Mask = NDArray[np.bool_]


class RowStates:
    """The state of each row; an update looks only at rows that were decided on since the last."""

    def __init__(self, journal: Journal, row_of: Mapping[str, int]) -> None:
        self.journal, self.row_of = journal, row_of
        self._mutex = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._place: Place | None = None
        self._state = np.full(len(self.row_of), OPEN, dtype=np.int8)
        self._counts = [len(self.row_of), 0, 0, 0, 0]

    def update(self) -> None:
        """Take over what was decided since the last update."""
        with self._mutex:
            changes = self.journal.changes(self._place)
            if changes.is_anew:
                self._forget()
            for id, standing in changes.book.items():
                row = self.row_of.get(id)
                if row is not None:
                    state = _state_of(standing)
                    self._counts[self._state[row]] -= 1
                    self._counts[state] += 1
                    self._state[row] = state
            self._place = changes.place

    def counts(self) -> dict[str, int]:
        """Return the number of rows by their valid decision."""
        _, kept, relabelled, *skipped = self._counts
        return {"keep": kept, "relabel": relabelled, "skip": sum(skipped)}

    def decided(self) -> Mask:
        """Return (N,) whether each row is kept or relabelled."""
        decided: Mask = (self._state == KEPT) | (self._state == RELABELLED)
        return decided

    def skipped(self, is_random: bool = False) -> Mask:
        """Return (N,) whether each row is skipped.

        In the random sample, a row that was skipped elsewhere still has to be looked at.
        """
        return self._state == SKIPPED if is_random else self._state >= SKIPPED


def _state_of(standing: Standing) -> int:
    if standing.decision is None:
        return OPEN
    return _OF_ACTION.get(standing.decision.action, SKIPPED if standing.is_random else SKIPPED_ELSEWHERE)
