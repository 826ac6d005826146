"""Which rows are decided and which are skipped, kept up to date with the journal."""

import threading
from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from surelabel.runs.decisions import Journal, Place, Standing

OPEN, KEPT, RELABELLED, REMOVED, UNSURE, SKIPPED = range(6)
"""States of a row."""
_OF_ACTION = {"keep": KEPT, "relabel": RELABELLED, "remove": REMOVED, "unsure": UNSURE, "skip": SKIPPED}

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
        self._is_random, self._is_bulk = np.zeros((2, len(self.row_of)), dtype=bool)
        self._counts = [len(self.row_of), 0, 0, 0, 0, 0]

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
                    self._state[row], self._is_random[row] = state, standing.is_random
                    self._is_bulk[row] = standing.decision is not None and standing.decision.bulk is not None
            self._place = changes.place

    def counts(self) -> dict[str, int]:
        """Return the number of rows by their valid decision."""
        return {action: self._counts[state] for action, state in _OF_ACTION.items()}

    def decided(self, is_random: bool = False) -> Mask:
        """Return (N,) whether each row is kept, relabelled or removed.

        In the random sample, a row that was decided in bulk still has to be looked at.
        """
        found = self._is_any(KEPT, RELABELLED, REMOVED)
        return found & (~self._is_bulk | self._is_random) if is_random else found

    def set_aside(self, is_random: bool = False) -> Mask:
        """Return (N,) whether each row is skipped or unsure.

        In the random sample, a row that was set aside elsewhere still has to be looked at.
        """
        found = self._is_any(UNSURE, SKIPPED)
        return found & self._is_random if is_random else found

    def has(self, state: str, is_random: bool = False) -> Mask:
        """Return (N,) whether each row is open, decided, removed, disputed, unsure or skipped."""
        if state == "open":
            return ~(self.decided(is_random) | self.set_aside(is_random))
        if state == "decided":
            return self.decided(is_random)
        if state == "removed":
            return self._is_any(REMOVED)
        if state == "disputed":
            return self._is_among(self.journal.disputed())
        if state == "unsure":  # of others, too: they ask for another opinion
            return self._is_any(UNSURE) | (self._is_among(self.journal.unsure()) & self._is_any(OPEN))
        return self.set_aside(is_random) & self._is_any(SKIPPED)

    def _is_among(self, ids: Collection[str]) -> Mask:
        found: Mask = np.zeros(len(self.row_of), dtype=bool)
        found[[self.row_of[id] for id in ids if id in self.row_of]] = True
        return found

    def _is_any(self, *states: int) -> Mask:
        found: Mask = np.isin(self._state, states)
        return found


def _state_of(standing: Standing) -> int:
    if standing.decision is None:
        return OPEN
    return _OF_ACTION[standing.decision.action]
