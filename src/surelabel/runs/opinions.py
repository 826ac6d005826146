"""What several people think of one row, the decision that follows, and how far they agree.

Annotators (`surelabel review RUN --annotator NAME`) decide independently: each has an own decision
on a row, and undoing takes back only one's own. Decisions without an annotator are made in common:
each replaces the one before, and settles what annotators disagree on.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations

from surelabel.runs.entries import DECIDED, UNSURE, Decision
from surelabel.runs.standings import Standing

LAST, MAJORITY, AGREE = "last", "majority", "agree"
RULES = (LAST, MAJORITY, AGREE)
"""The last decision of anybody; that of more than half of the annotators; that of all of them."""


Opinions = dict[str | None, Standing]
"""The standing of a row by annotator; None for decisions that were made in common."""


def combine(opinions: Opinions, rule: str) -> Standing:
    """Return one standing for all opinions; a row without a decision by the rule is unsure."""
    if len(opinions) == 1:
        return next(iter(opinions.values()))
    held = [one.decision for one in opinions.values() if one.decision is not None]
    last = max(one.last for one in opinions.values())
    return Standing(last, _choose(held, rule), None, any(one.is_random for one in opinions.values()))


def _choose(held: list[Decision], rule: str) -> Decision | None:
    final = [one for one in held if one.action in DECIDED]
    settled = [one for one in final if not one.independent]
    if rule != LAST and settled:
        return settled[0]
    if rule == LAST or not final:
        return max(final or held, key=lambda one: one.sequence, default=None)
    label, count = Counter(one.label for one in final).most_common(1)[0]
    newest = max((one for one in final if one.label == label), key=lambda one: one.sequence)
    is_enough = count == len(final) if rule == AGREE else 2 * count > len(final)
    return newest if is_enough else replace(newest, action=UNSURE, label=None)


def independent(opinions: Opinions) -> dict[str, Decision]:
    """Return the valid decisions of annotators, by their names."""
    return {who: one.decision for who, one in opinions.items() if who is not None and one.decision is not None}


def is_disputed(opinions: Opinions) -> bool:
    """Return whether annotators disagree, and nothing that was decided in common settles it."""
    if len(opinions) < 2:
        return False
    shared = opinions.get(None, Standing()).decision
    if shared is not None and shared.action in DECIDED:
        return False
    return len({one.label for one in independent(opinions).values() if one.action in DECIDED}) > 1


def is_unsure(opinions: Opinions) -> bool:
    """Return whether somebody asks for another opinion."""
    return any(one.decision is not None and one.decision.action == UNSURE for one in opinions.values())


@dataclass(frozen=True)
class Agreement:
    """How far two annotators agree on the rows that both decided on."""

    one: str
    other: str
    num_rows: int
    num_agreed: int
    kappa: float | None
    """Cohen's kappa; None if it is not defined, because both gave all rows the same label."""


class PairCounts:
    """Counts the labels that each two annotators gave the same rows; None stands for remove."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], Counter[tuple[str | None, str | None]]] = {}

    def add(self, opinions: Opinions, times: int) -> None:
        """Count the opinions on a row; `times` is -1 to take them back."""
        held = independent(opinions)
        final = sorted(who for who, one in held.items() if one.action in DECIDED)
        for pair in combinations(final, 2):
            one, other = (held[who].label for who in pair)
            self._counts.setdefault(pair, Counter())[one, other] += times

    def agreements(self) -> list[Agreement]:
        """Return the agreement of each two annotators who decided on common rows, by name."""
        return [_measure(*pair, counts) for pair, counts in sorted(self._counts.items()) if counts.total()]


def _measure(one: str, other: str, counts: Counter[tuple[str | None, str | None]]) -> Agreement:
    total = counts.total()
    agreed = sum(count for (first, second), count in counts.items() if first == second)
    by_one, by_other = Counter[str | None](), Counter[str | None]()
    for (first, second), count in counts.items():
        by_one[first] += count
        by_other[second] += count
    by_chance = sum(by_one[label] * by_other[label] for label in by_one) / total**2
    kappa = (agreed / total - by_chance) / (1 - by_chance) if by_chance < 1 else None
    return Agreement(one, other, total, agreed, kappa)


class RowBook:
    """The decisions on every row of a journal, entry by entry, as its author sees them."""

    def __init__(self, annotator: str | None, rule: str) -> None:
        """Show the decisions of an annotator only; without one, those of all, by the rule."""
        self.annotator, self.rule = annotator, rule
        self.entries: list[Decision] = []
        self.standings: dict[str, Standing] = {}
        self.disputed: set[str] = set()
        """Rows on which annotators disagree."""
        self.unsure: set[str] = set()
        """Rows for which somebody asks for another opinion."""
        self._opinions: dict[str, Opinions] = {}
        self._pairs = PairCounts()

    def take(self, entry: Decision) -> None:
        """Apply the next entry."""
        held = self._opinions.setdefault(entry.id, {})
        who = entry.by if entry.independent else None
        if entry.independent:
            self._pairs.add(held, -1)
        held[who] = held.get(who, Standing()).take(entry)
        if entry.independent:
            self._pairs.add(held, 1)
        self.standings[entry.id] = combine(held, self.rule) if self.annotator is None else self.own(entry.id)
        for rows, is_member in ((self.disputed, is_disputed), (self.unsure, is_unsure)):
            (rows.add if is_member(held) else rows.discard)(entry.id)
        self.entries.append(entry)

    def own(self, id: str) -> Standing:
        """Return the standing of a row that the author of the journal can change."""
        return self._opinions.get(id, {}).get(self.annotator, Standing())

    def opinions(self, ids: Iterable[str] | None) -> dict[str, dict[str, Decision]]:
        """Return the decisions of annotators on these rows, or on all, by id and name."""
        found = {id: independent(self._opinions.get(id, {})) for id in (self._opinions if ids is None else ids)}
        return {id: held for id, held in found.items() if held}

    def agreement(self) -> list[Agreement]:
        """Return how far each two annotators agree."""
        return self._pairs.agreements()

    def recent(self, most: int) -> list[list[Decision]]:
        """Return the last `most` valid decisions of the author, in the order they were made.

        Those that were made at once come together, and are never cut.
        """
        valid = (entry for entry in reversed(self.entries) if self.own(entry.id).decision is entry)
        found: list[list[Decision]] = []
        for count, entry in enumerate(valid):
            if found and entry.bulk is not None and entry.bulk == found[-1][-1].bulk:
                found[-1].append(entry)
            elif count >= most:
                break
            else:
                found.append([entry])
        return [bulk[::-1] for bulk in reversed(found)]
