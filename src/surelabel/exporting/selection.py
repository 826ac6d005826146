"""Choose the label each row has after cleaning, and record who decided it.

A person's decision always wins: one from the review's journal (keep, relabel), else a label that was
trusted when the run began. Skipping a row decides nothing. Of the rest, the model's suggestion is
accepted by the rules of `verdicts/corrections.py`. Suspects whose suggestion is not accepted keep
their label and are to be reviewed first. Rows of a held-out split change only if that split is named.

keep_mask belongs to the labels after cleaning. It is False where the given label looks wrong (P(wrong)
at least `min_probability`) and no person has decided: training on the rows that it keeps uses no label
that only the model has changed.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from surelabel.errors import ConfigError, RunError
from surelabel.runs.decisions import FINAL
from surelabel.runs.run_dir import RunDir
from surelabel.verdicts import Audit
from surelabel.verdicts.corrections import MOST_NAMED, Rules, accept, listed, losing_classes

TRAINING_SPLIT = "train"
"""The split that the model may rewrite without being asked."""


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
    doubt: str | None = None
    """Why no suggestion was accepted, where the audit as a whole cannot be believed."""
    expected_right: tuple[float, float] | None = None
    """How many labels are expected to be right before and after; None where the audit cannot tell."""

    def __len__(self) -> int:
        return len(self.keep)

    def numbers(self, column: str) -> np.ndarray:
        """(N,) int64: the classes of a column as numbers."""
        place = {name: number for number, name in enumerate(self.class_names)}
        return np.array([place[name] for name in self.columns[column].tolist()], dtype=np.int64)

    def counts(self) -> dict[str, int]:
        """Count the rows, and divide them: the other counts add up to `rows`."""
        by, changed = self.columns["decided_by"], self.columns["changed"]
        return {
            "rows": len(self),
            "changed_by_model": int((by == "model").sum()),
            "changed_by_person": int((changed & (by == "person")).sum()),
            "confirmed_by_person": int((~changed & (by == "person")).sum()),
            "review_first": int((~self.keep & (by == "nobody")).sum()),
            "kept": int((self.keep & (by == "nobody")).sum()),
        }


def choose(
    run: RunDir,
    audit: Audit,
    decisions: Mapping[str, Decided],
    rules: Rules | None = None,
    now: str = "",
    rewrite: Collection[str] = (),
) -> Cleaned:
    """Choose the labels after cleaning.

    `now` is the time at which the model's suggestions are accepted. `rewrite` names held-out splits
    whose labels the model may change too.
    """
    rules = rules or Rules()
    order = _order(run, audit)
    rows = _in_order(audit, order)
    given, suggested, p_wrong = rows["given"], rows["suggested"], rows["p_wrong"]
    open_splits = _open_splits(rows["split"], rewrite)
    label, by, at = given.copy(), np.full(len(given), "nobody", dtype=object), np.full(len(given), "", dtype=object)
    by[rows["verdict"] == "trusted"] = "person"
    unknown = _take_decisions(rows["id"], decisions, audit.class_names, (label, by, at))
    undecided = by == "nobody"
    suspected = (p_wrong >= rules.min_probability) & undecided
    may_change = np.empty(len(given), dtype=bool)
    may_change[order] = undecided & np.isin(rows["split"].astype(str), open_splits)
    accepted = accept(audit, rules, may_change)
    taken = accepted.rows[order]
    label[taken], by[taken], at[taken] = suggested[taken], "model", now
    columns = {name: rows[name] for name in ("id", "given", "suggested", "probability", "p_wrong", "split")}
    columns |= {"label": label, "decided_by": by, "decided_at": at, "changed": label != given}
    ordered = {name: columns[name] for name in COLUMNS}
    losing = losing_classes(given, taken, audit.class_names)
    warnings = (*_unknown_rows(unknown), *_lost_classes(losing))
    expected = _expected_right(columns, audit.p_suggested[order]) if audit.can_tell else None
    return Cleaned(audit.class_names, ordered, ~suspected, rows["quality"], warnings, losing, accepted.doubt, expected)


def _open_splits(split: np.ndarray, rewrite: Collection[str]) -> list[str]:
    """List the splits whose labels the model may change."""
    there = sorted(set(map(str, split)))
    for name in rewrite:
        if name not in there:
            raise ConfigError(f"rewrite: this run has no split {name!r}; there are {', '.join(there)}")
    return [TRAINING_SPLIT, *rewrite]


def _expected_right(columns: Mapping[str, np.ndarray], p_suggested: np.ndarray) -> tuple[float, float]:
    """Add up how likely labels are right, before and after; what a person decided is right."""
    by, changed = columns["decided_by"], columns["changed"]
    is_given_right = np.where(by == "person", ~changed, 1 - columns["p_wrong"]).astype(np.float64)
    is_label_right = np.select([by == "person", by == "model"], [np.ones(len(by)), p_suggested], is_given_right)
    return float(is_given_right.sum()), float(is_label_right.sum())


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


def _order(run: RunDir, audit: Audit) -> np.ndarray:
    """Find the place in the audit of each of the run's rows."""
    ids = run.labels()["id"].to_pylist()
    place = {str(name): row for row, name in enumerate(audit.columns["id"].tolist())}
    if len(place) != len(ids) or any(name not in place for name in ids):
        raise RunError(f"{run.path}: the audit is not one of this run, or an id stands for several rows")
    return np.array([place[name] for name in ids], dtype=np.int64)


def _in_order(audit: Audit, order: np.ndarray) -> dict[str, np.ndarray]:
    """Return what the audit says, in the order of the run's own rows."""
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
