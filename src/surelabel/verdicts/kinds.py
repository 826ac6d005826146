"""Four kinds of rows that need a look; a row may be of several.

    wrong      P(wrong) is at least the audit's limit
    duplicate  an equal or nearly equal input has another given label (data/duplicates.py)
    outlier    far from its neighbours, and its class is unclear (outliers.py)
    ambiguous  a second class is nearly as plausible as the first

When training ends, `inspection` measures what the inputs alone tell, and the run stores it. The
limits here apply when the run is audited. docs/decisions/0013 gives the reasons.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surelabel.errors import ConfigError
from surelabel.verdicts.advice import MEMORISED
from surelabel.verdicts.evidence import TRAINED, TRUSTED

if TYPE_CHECKING:
    from surelabel.verdicts.audit import Audit

Array = NDArray[Any]

WRONG, DUPLICATE, OUTLIER, AMBIGUOUS = KINDS = ("wrong", "duplicate", "outlier", "ambiguous")
"""The first kind of a row, in this order, is its leading one."""
OK = "ok"
"""The kind of all other rows."""
COLUMNS = (
    "is_duplicate",
    "duplicate_of",
    "duplicate_group",
    "is_outlier",
    "isolation",
    "is_ambiguous",
    "rival",
    "network_rival",
)
"""Columns of the audit behind the kinds; those of a kind that was not looked for are left out, and
`network_rival` takes the place of `rival` where the network was asked."""
RIVALS_FROM = 1 / 3
"""Probability of the second class, as a fraction of that of the first, from which both are
plausible."""
MOST_AMBIGUOUS = 0.1
"""If more rows than this fraction look ambiguous, it is the model that cannot tell."""
TELLING = 0.75
"""A second opinion to which random labels look worse less often than this cannot tell either."""
ABOVE_CHANCE = 0.05
"""A network that has come less than this fraction of the way from chance to all given labels has
not learned the classes."""


@dataclass(frozen=True)
class Kinds:
    """Which of N rows are of each kind."""

    flags: Mapping[str, NDArray[np.bool_]]
    """(N,) by kind, without the kinds that could not be looked for."""
    partner: NDArray[np.int64]
    """(N,) the row with an equal or similar input and another label; -1 if there is none."""
    rival: Array | None = None
    """(N,) what ambiguous rows were found by; None if they could not be looked for."""
    doubt: str | None = None
    """Why nothing is known about ambiguous rows, if the run has evidence that does not suffice."""

    def rows(self, kind: str) -> NDArray[np.bool_]:
        """Return (N,) whether each row is of a kind."""
        if kind not in KINDS:
            raise ConfigError(f"kind={kind!r}: expected one of {', '.join(KINDS)}")
        return self.flags.get(kind, np.zeros(len(self.partner), dtype=bool))

    def reorder(self, order: NDArray[np.integer[Any]]) -> "Kinds":
        """Return the kinds of the rows in another order."""
        place = np.argsort(order)
        partner = np.where(self.partner >= 0, place[self.partner], -1)[order]
        rival = None if self.rival is None else self.rival[order]
        return replace(
            self, flags={kind: rows[order] for kind, rows in self.flags.items()}, partner=partner, rival=rival
        )

    def leading(self) -> NDArray[np.str_]:
        """Return (N,) the leading kind of each row."""
        return np.select([self.rows(kind) for kind in KINDS], list(KINDS), OK)

    def counts(self) -> dict[str, int | None]:
        """Return the number of rows of each kind; None if it could not be looked for."""
        return {kind: int(self.flags[kind].sum()) if kind in self.flags else None for kind in KINDS}


def find_kinds(audit: "Audit") -> Kinds:
    """Sort the rows of an audit; rows that a person has confirmed are of no kind."""
    columns = audit.columns
    is_open = columns["verdict"] != TRUSTED if "verdict" in columns else np.ones(len(audit), dtype=bool)
    flags = {WRONG: audit.ranked(audit.is_suspicious) & is_open}
    partner = np.full(len(audit), -1)
    if "duplicate_group" in columns:
        partner = _find_partners(columns["duplicate_group"], columns["given"])
        flags[DUPLICATE] = (partner >= 0) & is_open
    if "is_outlier" in columns:
        flags[OUTLIER] = columns["is_outlier"] & is_open
    found = _find_ambiguous(audit, flags[WRONG])
    if found.rival is not None:
        flags[AMBIGUOUS] = (found.rival >= RIVALS_FROM) & is_open
    return Kinds(flags, partner, found.rival, found.doubt)


def _find_partners(group: Array, given: Array) -> NDArray[np.int64]:
    """Return (N,) the first row of the same group with another label; -1 if there is none."""
    partner = np.full(len(group), -1)
    members: dict[int, list[int]] = {}
    for row in np.flatnonzero(group).tolist():
        members.setdefault(int(group[row]), []).append(row)
    for rows in members.values():
        first = rows[0]
        other = next((row for row in rows if given[row] != given[first]), None)
        if other is not None:
            for row in rows:
                partner[row] = other if given[row] == given[first] else first
    return partner


class _Ambiguous(NamedTuple):
    rival: Array | None = None
    doubt: str | None = None


def _find_ambiguous(audit: "Audit", is_wrong: NDArray[np.bool_]) -> _Ambiguous:
    """Ask the second opinion, and if it is too unsure of its classes, the network.

    A network that memorises a wrong label predicts two classes in the course of training; its rows
    that look wrong are therefore not called ambiguous.
    """
    found = _Ambiguous()
    if "rival" in audit.columns:
        if audit.power is not None and audit.power < TELLING:
            return _Ambiguous(doubt="the inputs hardly predict the labels")
        found = _unless_too_many(audit.columns["rival"])
    if found.rival is None and "network_rival" in audit.columns:
        other = _Ambiguous(doubt="the network has not learned the classes, or has memorised the labels")
        if _has_learned(audit):
            other = _unless_too_many(np.where(is_wrong, np.nan, audit.columns["network_rival"]))
        return other if other.rival is not None else _Ambiguous(doubt=found.doubt or other.doubt)
    return found


def _unless_too_many(rival: Array) -> _Ambiguous:
    share = (rival >= RIVALS_FROM).sum() / max(1, np.isfinite(rival).sum())
    if share > MOST_AMBIGUOUS:
        return _Ambiguous(doubt=f"several classes look plausible for {100 * share:.0f} % of the rows")
    return _Ambiguous(rival)


def _has_learned(audit: "Audit") -> bool:
    """Return whether the network has learned classes, and has not memorised all labels."""
    given = audit.columns["given"][audit.columns["verdict"] == TRAINED]
    if not len(given):
        return False
    chance = np.unique(given, return_counts=True)[1].max() / len(given)
    return bool(chance + ABOVE_CHANCE * (1 - chance) < audit.repeated <= MEMORISED)


def add_columns(columns: dict[str, Array], kinds: Kinds) -> dict[str, Array]:
    """Return the columns of an audit with the leading kind, the flags and the partners' ids."""
    found: dict[str, Array] = {"kind": kinds.leading()}
    for kind in (DUPLICATE, OUTLIER, AMBIGUOUS):
        if kind in kinds.flags:
            found[f"is_{kind}"] = kinds.flags[kind]
    if DUPLICATE in kinds.flags:
        ids = columns["id"].astype(str)
        found["duplicate_of"] = np.where(kinds.partner >= 0, ids[kinds.partner], "")
    if kinds.rival is not None:
        found["rival"] = kinds.rival
    return {name: values for name, values in {**columns, **found}.items() if name != "network_rival"}
