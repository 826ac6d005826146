"""What the entries of the journal add up to: the decisions that hold, row by row."""

from dataclasses import dataclass, field, replace

from surelabel.runs.entries import DECIDED, RANDOM, Decision


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """The decisions on a row; never changed, so that readers need no copy."""

    last: int = 0
    """The sequence of the last entry about it."""
    decision: Decision | None = None
    """The valid decision, if any."""
    before: "Standing | None" = field(default=None, repr=False)
    """What undoing the valid decision restores."""
    is_random: bool = False
    """Whether a decision that was not undone, nor made in bulk, was made on a random label."""

    @property
    def is_answer(self) -> bool:
        """Whether the row needs no look any more if it is in the random sample."""
        decision = self.decision
        return self.is_random or (decision is not None and decision.action in DECIDED and decision.bulk is None)

    def take(self, entry: Decision) -> "Standing":
        """Return the standing after the next entry."""
        if entry.action == "undo":
            return replace(self.before or Standing(), last=entry.sequence)
        is_look = entry.queue == RANDOM and entry.bulk is None
        return Standing(entry.sequence, entry, self, self.is_random or is_look)


Book = dict[str, Standing]
"""The rows in the journal, by id."""


@dataclass(frozen=True)
class Place:
    """How far a reader has come in a journal."""

    beginning: object
    """Another object for each file and each journal."""
    num_decisions: int


@dataclass(frozen=True)
class Changes:
    """The rows that were decided on since a reader looked last."""

    book: Book
    place: Place
    """Where the reader is now."""
    is_anew: bool
    """Whether these are all rows, and what the reader knew before does not count any more."""
