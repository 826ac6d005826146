"""Which label each row has after cleaning, and who decided that.

A person's decision always wins: one of the review's journal (keep, relabel), else a label that was trusted when the run began. Skipping a
row decides nothing. Of the rest, the model's suggestion is taken where it is another label and P(wrong) is at least `min_probability`, the
most suspicious first and, with `class_cap`, for at most that share of the rows that were given a class.

keep_mask belongs to the labels after cleaning. It is False where the given label is suspected (P(wrong) at least `min_probability`) and no
person has decided: training on the rows that it keeps uses no label that only the model has changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from surelabel.errors import RunError
from surelabel.runs import RunDir
from surelabel.verdicts import SUSPICIOUS_FROM, Audit
from surelabel.verdicts.corrections import MOST_NAMED, capped, check_share, listed, losing_classes

FINAL = ("keep", "relabel")
"""Actions of a person after which a label is known."""


class Decided(Protocol):
    """What is read of an entry of the review's journal."""

    @property
    def action(self) -> str:
        """keep, relabel, skip or undo."""

    @property
    def label(self) -> str | None:
        """The row's label from here on."""

    @property
    def time(self) -> str:
        """When, in UTC."""


@dataclass(frozen=True)
class Rules:
    """When the model may change a label."""

    min_probability: float = SUSPICIOUS_FROM
    """Lowest P(wrong) at which a suggestion is taken."""
    class_cap: float | None = None
    """Largest share of the rows given a class that the model may take away from it; None is no limit."""

    def __post_init__(self) -> None:
        for name in ("min_probability", "class_cap"):
            check_share(name, getattr(self, name))


@dataclass(frozen=True)
class Cleaned:
    """All rows of a run in the order of its labels.parquet: training rows, then held-out ones."""

    class_names: tuple[str, ...]
    columns: dict[str, np.ndarray]
    """id, label, given, suggested, probability, p_wrong, decided_by, decided_at, split and changed; classes by name."""
    keep: np.ndarray
    """(N,) bool: see the rule above."""
    quality: np.ndarray
    """(N,) the method's own, in [0, 1]."""
    warnings: tuple[str, ...] = ()
    losing: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Classes that lose most of their rows to the model: how many, and of how many."""

    def __len__(self) -> int:
        return len(self.keep)

    def numbers(self, column: str) -> np.ndarray:
        """(N,) int64: the classes of a column as numbers."""
        place = {name: number for number, name in enumerate(self.class_names)}
        return np.array([place[name] for name in self.columns[column].tolist()], dtype=np.int64)

    def counts(self) -> dict[str, int]:
        """For a summary."""
        by, changed = self.columns["decided_by"], self.columns["changed"]
        return {
            "rows": len(self),
            "changed_by_model": int((changed & (by == "model")).sum()),
            "changed_by_person": int((changed & (by == "person")).sum()),
            "confirmed_by_person": int((~changed & (by == "person")).sum()),
            "kept": int(self.keep.sum()),
        }


def choose(
    run: RunDir, audit: Audit, decisions: Mapping[str, Decided], rules: Rules | None = None, now: str = ""
) -> Cleaned:
    """The labels after cleaning; `now` is the time at which the model's suggestions are taken."""
    rules = rules or Rules()
    rows = _in_order(run, audit)
    given, suggested, p_wrong = rows["given"], rows["suggested"], rows["p_wrong"]
    label, by, at = given.copy(), np.full(len(given), "nobody", dtype=object), np.full(len(given), "", dtype=object)
    by[rows["verdict"] == "trusted"] = "person"
    unknown = _take_decisions(rows["id"], decisions, audit.class_names, (label, by, at))
    suspected = (p_wrong >= rules.min_probability) & (by == "nobody")
    taken = capped(suspected & (suggested != given), given, p_wrong, rules.class_cap)
    label[taken], by[taken], at[taken] = suggested[taken], "model", now
    columns = {name: rows[name] for name in ("id", "given", "suggested", "probability", "p_wrong", "split")}
    columns |= {"label": label, "decided_by": by, "decided_at": at, "changed": label != given}
    ordered = {name: columns[name] for name in COLUMNS}
    losing = losing_classes(given, taken, audit.class_names)
    warnings = (*_unknown_rows(unknown), *_lost_classes(losing))
    return Cleaned(audit.class_names, ordered, ~suspected, rows["quality"], warnings, losing)


COLUMNS = (
    "id",
    "label",
    "given",
    "suggested",
    "probability",
    "p_wrong",
    "decided_by",
    "decided_at",
    "split",
    "changed",
)
"""Of the cleaned table, in this order."""


def _in_order(run: RunDir, audit: Audit) -> dict[str, np.ndarray]:
    """What the audit says, in the order of the run's own rows."""
    ids = run.labels()["id"].to_pylist()
    place = {str(name): row for row, name in enumerate(audit.columns["id"].tolist())}
    if len(place) != len(ids) or any(name not in place for name in ids):
        raise RunError(f"{run.path}: the audit is not one of this run, or an id stands for several rows")
    order = np.array([place[name] for name in ids], dtype=np.int64)
    names = ("id", "given", "suggested", "split", "verdict", "quality")
    rows = {name: np.asarray(audit.columns[name])[order] for name in names}
    for name in ("id", "given", "suggested", "split", "verdict"):
        rows[name] = rows[name].astype(object)
    rows["p_wrong"] = audit.p_wrong[order]
    rows["probability"] = np.asarray(audit.columns["suggested_probability"], dtype=np.float64)[order]
    return rows


def _take_decisions(
    ids: np.ndarray,
    decisions: Mapping[str, Decided],
    class_names: tuple[str, ...],
    into: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> list[str]:
    """Write what persons decided into label, decided_by and decided_at; gives the ids that the run does not have."""
    label, by, at = into
    place = {name: row for row, name in enumerate(ids.tolist())}
    for name, decision in decisions.items():
        if decision.action not in FINAL or name not in place:
            continue
        if decision.label not in class_names:
            raise RunError(f"the decision on {name!r} names no class of this run: {decision.label!r}")
        row = place[name]
        label[row], by[row], at[row] = decision.label, "person", decision.time
    return [name for name in decisions if name not in place]


def _lost_classes(losing: Mapping[str, tuple[int, int]]) -> list[str]:
    """A sentence for each class; one for all where they are many."""
    model, advice = "to suggestions of the model", "look at them first, or limit that with a cap per class"
    if len(losing) > MOST_NAMED:
        return [f"{len(losing):,} classes lose most of their rows {model}: {listed(losing)}; {advice}"]
    return [
        f"the class {name!r} loses {lost:,} of its {size:,} rows {model}; {advice}"
        for name, (lost, size) in losing.items()
    ]


def _unknown_rows(unknown: list[str]) -> list[str]:
    some = ", ".join(map(repr, unknown[:5])) + (", ..." if len(unknown) > 5 else "")
    return [f"{len(unknown)} decision(s) are on rows that this run does not have: {some}"] if unknown else []
