"""Choose which suggestions of the model to accept, and find classes that would be lost.

`safe`, the default, accepts a suggestion only if it is more likely right than wrong, and only if
the audit of this run is reliable; docs/decisions/0009 has the reasons. `all` accepts every
suggestion for a label that looks wrong.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surelabel.errors import ConfigError
from surelabel.verdicts.classes import rows_by_name

if TYPE_CHECKING:
    from surelabel.verdicts.audit import Audit

SAFE, ALL = "safe", "all"
LIKELY = 0.5
"""A suggestion is safe if it is right with at least this probability."""
CLASS_CAP = 0.5
"""The default of the largest fraction of the labels of a class that may change."""
AFTER_SAMPLE = 0.8
"""Confidence that accepting does no harm, once a random sample has recalibrated P(wrong)."""
REVIEW = "surelabel review RUN"
MOST_LOOKS, LOOKS_A_MINUTE = 40, 10
"""Suspects to look at where mistakes may follow the inputs, and how many take a minute."""
MOST = 0.5
"""A class that would lose more than this fraction of its labels is named."""
MOST_NAMED = 3
"""Up to this many such classes have a sentence each; more share one."""
MOST_LISTED = 5
"""Classes that one sentence names; the rest are counted."""


@dataclass(frozen=True)
class Rules:
    """When the model may change a label."""

    accept: str = SAFE
    """safe: suggestions that are likely right, if the audit is reliable; all: every suggestion."""
    min_probability: float = 0.5
    """Lowest P(wrong) at which a label looks wrong."""
    class_cap: float | None = None
    """Largest fraction of the labels of a class that may change; None is half for safe, no limit
    for all."""

    def __post_init__(self) -> None:
        if self.accept not in (SAFE, ALL):
            raise ConfigError(f"accept={self.accept!r}: expected {SAFE} or {ALL}")
        for name in ("min_probability", "class_cap"):
            check_share(name, getattr(self, name))

    @property
    def cap(self) -> float | None:
        """The cap to apply; None is no limit."""
        return CLASS_CAP if self.class_cap is None and self.accept == SAFE else self.class_cap


@dataclass(frozen=True)
class Accepted:
    """The accepted suggestions, in the order of the audit's table."""

    rows: np.ndarray
    """(N,) whether the suggestion is accepted."""
    doubt: str | None = None
    """Why none is accepted, if the audit as a whole is not reliable."""


def accept(audit: "Audit", rules: Rules, may_change: np.ndarray | None = None) -> Accepted:
    """Choose the suggestions to accept among the rows that `may_change`.

    By default all may on which no person has decided.
    """
    given, suggested, p_wrong = (audit.columns[name] for name in ("given", "suggested", "p_wrong"))
    among = ~audit.ranked(audit.is_decided) if may_change is None else may_change
    wanted = (p_wrong >= rules.min_probability) & (suggested != given) & among
    if rules.accept == ALL:
        return Accepted(capped(wanted, given, p_wrong, rules.cap, among))
    p_suggested = audit.ranked(audit.p_suggested)
    likely = wanted & _is_likely(audit, p_suggested)
    doubt = _doubt(audit, p_suggested, wanted, likely)
    if doubt is not None:
        return Accepted(np.zeros(len(audit), dtype=bool), doubt)
    known = likely & ~np.isin(given, _unlearned(given, suggested, likely, rules.cap, among))
    return Accepted(capped(known, given, p_wrong, rules.cap, among))


def _is_likely(audit: "Audit", p_suggested: np.ndarray) -> np.ndarray:
    """Return (N,) whether each suggestion may be accepted, in the order of the table.

    It must be more likely right than wrong. Once a random sample has recalibrated P(wrong), it is
    enough to be more likely right than the given label. Where mistakes may follow the inputs, only
    suggestions count for whose ranks people's answers speak.
    """
    if audit.combined is not None:
        return p_suggested > 1 - audit.columns["p_wrong"]
    likely: np.ndarray = p_suggested >= LIKELY
    return likely & audit.ranked(audit.is_vouched) if audit.is_doubtful else likely


def _doubt(audit: "Audit", p_suggested: np.ndarray, wanted: np.ndarray, likely: np.ndarray) -> str | None:
    """Return why the audit as a whole is not reliable; None if it is."""
    if not wanted.any() and not audit.is_doubtful:
        return None
    low, high = audit.noise_rate.interval or (0.0, 1.0)
    if not audit.is_calibrated:
        return "training did not tell right labels from wrong ones"
    if audit.may_follow_inputs and not _was_looked_at(audit):
        return _check_first(int(wanted.sum()))
    if not audit.is_doubtful and not audit.can_tell:
        return f"the audit cannot tell how many labels are wrong: between {100 * low:.0f} and {100 * high:.0f} %"
    if audit.combined is None and not audit.is_doubtful and p_suggested[wanted].mean() < LIKELY:
        # The best of many weak guesses are lucky guesses: they must not be accepted either.
        return "for most labels that look wrong, the network does not know a likely right one"
    rows = np.flatnonzero(likely)
    fewest_wrong, _ = audit.calibration.interval(rows, audit.confidence if audit.combined is None else AFTER_SAMPLE)
    fewest_fixed = fewest_wrong * float((p_suggested[rows] / audit.columns["p_wrong"][rows]).mean()) if len(rows) else 0
    if fewest_fixed <= len(rows) - fewest_wrong:
        return (
            f"of {len(rows):,} likely suggestions as few as {fewest_wrong:,.0f} may be for wrong labels, "
            "so accepting them could do more harm than good"
        )
    return None


def _was_looked_at(audit: "Audit") -> bool:
    """Return whether people looked at suspects, or at enough random labels."""
    if audit.combined is None:
        return bool(audit.is_vouched.any())
    return audit.combined.sample.size >= min(MOST_LOOKS, audit.combined.sample.num_labels)


def _check_first(num_suspects: int) -> str:
    """Return what has to be looked at before suggestions can be accepted."""
    count = num_suspects if 0 < num_suspects <= MOST_LOOKS else MOST_LOOKS
    what, option = ("suspects", "") if count == num_suspects else ("random labels", f" --random {count}")
    minutes = max(1, round(count / LOOKS_A_MINUTE))
    return (
        f"mistakes may follow the inputs, so look at {count} {what} first (about {minutes} "
        f"minute{'s'[: minutes != 1]}: {REVIEW}{option}); what then proves right is accepted"
    )


def _unlearned(
    given: np.ndarray, suggested: np.ndarray, taken: np.ndarray, cap: float | None, among: np.ndarray
) -> list[str]:
    """List classes that would shrink below the cap: the network hardly knows them."""
    if cap is None:
        return []
    sizes, lost, won = (Counter(names.tolist()) for names in (given[among], given[taken], suggested[taken]))
    return [name for name in lost if sizes[name] - lost[name] + won[name] < (1 - cap) * sizes[name]]


def check_share(name: str, value: float | None) -> None:
    """Raise unless the value is None or in [0, 1]."""
    if value is not None and not 0 <= value <= 1:
        raise ConfigError(f"{name}={value}: expected a number from 0 to 1")


def capped(
    wanted: np.ndarray,
    given: np.ndarray,
    p_wrong: np.ndarray,
    class_cap: float | None,
    among: np.ndarray,
) -> np.ndarray:
    """Return (N,) bool: the likeliest of the wanted changes, up to this fraction of each class.

    The size of a class is counted `among` the rows that may change at all.
    """
    if class_cap is None:
        return wanted
    taken, places = np.zeros(len(wanted), dtype=bool), np.flatnonzero(wanted)
    sizes = Counter(given[among].tolist())
    for name, members in rows_by_name(given[wanted]).items():
        rows = places[members]
        most = int(class_cap * sizes[name] + 1e-9)  # 0.29 x 100 rows are 29, not 28
        taken[rows[np.argsort(-p_wrong[rows], kind="stable")][:most]] = True
    return taken


def losing_classes(given: np.ndarray, changes: np.ndarray, class_names: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return classes most of whose labels change, as (changed, size) by name."""
    lost, sizes = Counter(given[changes].tolist()), Counter(given.tolist())
    counts = {str(name): (lost[str(name)], sizes[str(name)]) for name in class_names}
    return {name: (lost, size) for name, (lost, size) in counts.items() if lost > MOST * size}


def losing_counts(losing: Mapping[str, tuple[int, int]]) -> dict[str, dict[str, int]]:
    """Return the same for JSON."""
    return {name: {"labels": size, "changed": lost} for name, (lost, size) in losing.items()}


def listed(losing: Mapping[str, tuple[int, int]]) -> str:
    """Format as "'owl' 3 of 4, 'fox' 5 of 6 and 7 more"."""
    named = [f"{name!r} {lost:,} of {size:,}" for name, (lost, size) in losing.items()][:MOST_LISTED]
    more = len(losing) - len(named)
    return ", ".join(named) + (f" and {more:,} more" if more else "")
