"""Choose the label each row has after cleaning, and record who decided it.

A person's decision always wins: one from the review's journal (keep, relabel, remove), else a label
that was trusted when the run began. Removed rows leave the cleaned data. Skipping a row decides
nothing; a row that a person was unsure of keeps its label and is listed. For all other rows, the
rules of `verdicts/corrections.py` say whether the model's suggestion is accepted. Suspects whose
suggestion is not accepted keep their label; a person should review them first. The model changes
rows of a held-out split only if that split is named.

In a run on the labels of an export, the given label is still the one before that export: labels
that the model replaced there remain its own, unless it now returns to the given one.

keep_mask belongs to the labels after cleaning. It is False where the given label looks wrong, that
is, P(wrong) is at least `min_probability`, and no person has decided. Training on the rows it keeps
therefore uses no label that only the model has changed.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from surelabel.errors import ConfigError, RunError
from surelabel.runs.decisions import FINAL, REMOVE, UNSURE, Decision
from surelabel.runs.run_dir import RunDir
from surelabel.runs.tables import ORIGINAL
from surelabel.verdicts import Audit
from surelabel.verdicts.corrections import MOST_NAMED, Rules, accept, listed, losing_classes

TRAINING_SPLIT = "train"
"""The only split whose labels the model changes by default."""


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
"""Columns of the cleaned table, in this order."""


@dataclass(frozen=True)
class Cleaned:
    """The rows of a run, in the order of its labels.parquet: training rows, then held-out rows.

    Rows that a person has removed are not among them.
    """

    class_names: tuple[str, ...]
    columns: dict[str, np.ndarray]
    """The columns named in COLUMNS; classes are given by name."""
    keep: np.ndarray
    """(N,) bool: keep_mask, as explained above."""
    position: np.ndarray
    """(N,) the position of each row in labels.parquet."""
    decisions: tuple[Decision, ...] = ()
    """What persons decided, in the order of labels.parquet; without skipped rows."""
    warnings: tuple[str, ...] = ()
    losing: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Classes that the model strips of most rows: number of rows lost, and of all rows."""
    doubt: str | None = None
    """Why no suggestion was accepted, if the audit as a whole is not credible."""
    expected_right: tuple[float, float] | None = None
    """Expected number of right labels before and after; None if the audit cannot tell."""
    right_between: tuple[float, float] | None = None
    """The least and the largest plausible number of right labels after."""

    def __len__(self) -> int:
        return len(self.keep)

    def numbers(self, column: str) -> np.ndarray:
        """Return the classes of a column as numbers (N,) int64."""
        place = {name: number for number, name in enumerate(self.class_names)}
        return np.array([place[name] for name in self.columns[column].tolist()], dtype=np.int64)

    def counts(self) -> dict[str, int]:
        """Count the rows by who decided on them; the other counts add up to `rows`."""
        by, changed = self.columns["decided_by"], self.columns["changed"]
        return {
            "rows": len(self),
            "changed_by_model": int((by == "model").sum()),
            "changed_by_person": int((changed & (by == "person")).sum()),
            "confirmed_by_person": int((~changed & (by == "person")).sum()),
            "review_first": int((~self.keep & (by == "nobody")).sum()),
            "kept": int((self.keep & (by == "nobody")).sum()),
        }

    def list_decisions(self, action: str) -> list[Decision]:
        """Return the decisions with this action."""
        return [one for one in self.decisions if one.action == action]


def choose(
    run: RunDir,
    audit: Audit,
    decisions: Mapping[str, Decision],
    rules: Rules | None = None,
    now: str = "",
    rewrite: Collection[str] = (),
) -> Cleaned:
    """Choose the label of each row after cleaning.

    `now` is the time at which the model's suggestions are accepted. `rewrite` names held-out splits
    whose labels the model may change too.
    """
    rules = rules or Rules()
    order = audit_positions(run, audit)
    rows = _reorder(audit, order)
    given, suggested, p_wrong = rows["given"], rows["suggested"], rows["p_wrong"]
    original = rows.get(ORIGINAL, given)
    changeable = _splits_to_change(rows["split"], rewrite)
    label, by, at = given.copy(), np.full(len(given), "nobody", dtype=object), np.full(len(given), "", dtype=object)
    by[rows["verdict"] == "trusted"] = "person"
    unknown = _apply_decisions(rows["id"], decisions, audit.class_names, (label, by, at))
    held = _list_decisions(rows["id"], given, by, decisions)
    kept = ~np.isin(rows["id"], [one.id for one in held if one.action == REMOVE])
    undecided = by == "nobody"
    is_own = undecided & (given != original)
    # The label that the user gave is right at most where an earlier suggestion for it is wrong.
    p_given_wrong = np.where(is_own, 1 - p_wrong, p_wrong)
    suspected = ((p_given_wrong >= rules.min_probability) | is_own) & undecided
    may_change = np.empty(len(given), dtype=bool)
    unsure = np.isin(rows["id"], [one.id for one in held if one.action == UNSURE])
    may_change[order] = undecided & ~unsure & np.isin(rows["split"].astype(str), changeable)
    accepted = accept(audit, rules, may_change)
    taken = accepted.rows[order]
    label[taken], at[taken] = suggested[taken], now
    # What an earlier run suggested stays the model's, and what the user gave is the user's again.
    by[undecided] = np.where(label != original, "model", "nobody")[undecided]
    at[by == "nobody"] = ""
    columns = {name: rows[name] for name in ("id", "suggested", "probability", "split")} | {"p_wrong": p_given_wrong}
    columns |= {"given": original, "label": label, "decided_by": by, "decided_at": at, "changed": label != original}
    is_looked = (by == "person") & ~_is_bulk(audit)
    expected_right, right_between = _count_right(audit, order, rows, label, is_looked, kept)
    ordered = {name: columns[name][kept] for name in COLUMNS}
    losing = losing_classes(given, taken, audit.class_names)
    warnings = (*_warn_of_damage(audit), *_warn_of_unknown_rows(unknown), *_warn_of_lost_classes(losing))
    return Cleaned(
        audit.class_names,
        ordered,
        ~suspected[kept],
        np.flatnonzero(kept),
        held,
        warnings,
        losing,
        accepted.doubt,
        expected_right,
        right_between,
    )


def _splits_to_change(split: np.ndarray, rewrite: Collection[str]) -> list[str]:
    """List the splits whose labels the model may change."""
    present = sorted(set(map(str, split)))
    for name in rewrite:
        if name not in present:
            raise ConfigError(f"rewrite: this run has no split {name!r}; there are {', '.join(present)}")
    return [TRAINING_SPLIT, *rewrite]


def _count_right(
    audit: Audit,
    order: np.ndarray,
    rows: Mapping[str, np.ndarray],
    label: np.ndarray,
    is_looked: np.ndarray,
    kept: np.ndarray,
) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
    """Return how many labels are probably right before and after, and the bounds of the latter.

    Both are None if the audit cannot tell. Labels that a person looked at and decided on count as
    right; those decided on in bulk are what the model believes. Labels of rows that are not `kept`
    count as wrong before, and not at all after.
    """
    if not audit.can_tell:
        return None, None
    p_wrong, is_same = rows["p_wrong"], label == rows["given"]
    p_suggested = audit.ranked(audit.p_suggested)[order]
    p_other = np.where(label == rows["suggested"], p_suggested, p_wrong - p_suggested)
    low, high = (end[order] for end in audit.calibration.bounds())
    before = np.where(is_looked, is_same & kept, 1 - p_wrong).astype(np.float64).sum()

    def after(if_same: np.ndarray, if_changed: np.ndarray) -> float:
        """Sum P(right) of the labels after, from P(wrong) of kept ones and of changed ones."""
        p_changed = np.minimum(1, p_other * if_changed / np.maximum(p_wrong, np.finfo(np.float32).tiny))
        p_right = np.where(is_looked, 1.0, np.where(is_same, 1 - if_same, p_changed))
        return float(p_right[kept].sum())

    return (float(before), after(p_wrong, p_wrong)), (after(high, low), after(low, high))


def _is_bulk(audit: Audit) -> np.ndarray:
    """Return (N,) whether each of the run's rows was decided on without a look."""
    review = audit.review
    return np.zeros(len(audit), dtype=bool) if review is None else review.is_decided & ~review.answers.is_decided


def audit_positions(run: RunDir, audit: Audit) -> np.ndarray:
    """Return the position in the audit of each of the run's rows."""
    ids = run.labels()["id"].to_pylist()
    place = {str(name): row for row, name in enumerate(audit.columns["id"].tolist())}
    if len(place) != len(ids) or any(name not in place for name in ids):
        raise RunError(f"{run.path}: the audit is not one of this run, or an id stands for several rows")
    return np.array([place[name] for name in ids], dtype=np.int64)


def _reorder(audit: Audit, order: np.ndarray) -> dict[str, np.ndarray]:
    """Return columns of the audit in the order of the run's rows."""
    names: tuple[str, ...] = ("id", "given", "suggested", "split", "verdict")
    names += (ORIGINAL,) if ORIGINAL in audit.columns else ()
    rows = {name: np.asarray(audit.columns[name])[order] for name in names}
    rows = {name: values.astype(object) for name, values in rows.items()}
    rows["p_wrong"] = audit.columns["p_wrong"][order]
    rows["probability"] = np.asarray(audit.columns["suggested_probability"], dtype=np.float64)[order]
    return rows


def _apply_decisions(
    ids: np.ndarray,
    decisions: Mapping[str, Decision],
    class_names: tuple[str, ...],
    into: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> list[str]:
    """Write decisions into label, decided_by and decided_at; return ids that the run lacks."""
    label, by, at = into
    place = {name: row for row, name in enumerate(ids.tolist())}
    for name, decision in decisions.items():
        if decision.action not in (*FINAL, REMOVE) or name not in place:
            continue
        row = place[name]
        by[row], at[row] = "person", decision.time
        if decision.action == REMOVE:
            continue
        if decision.label not in class_names:
            raise RunError(f"the decision on {name!r} names no class of this run: {decision.label!r}")
        label[row] = decision.label
    return [name for name in decisions if name not in place]


def _list_decisions(
    ids: np.ndarray, given: np.ndarray, by: np.ndarray, decisions: Mapping[str, Decision]
) -> tuple[Decision, ...]:
    """Return what persons decided; labels that were trusted when the run began are kept."""
    found = []
    for row, name in enumerate(ids.tolist()):
        decision = decisions.get(name)
        if decision is not None and decision.action in (*FINAL, REMOVE, UNSURE):
            found.append(replace(decision, id=name))
        elif by[row] == "person":
            found.append(Decision(0, "", name, given[row], "keep", given[row], ""))
    return tuple(found)


def _warn_of_lost_classes(losing: Mapping[str, tuple[int, int]]) -> list[str]:
    """Return a warning for each class, or one for all if there are many."""
    model, advice = "to suggestions of the model", "look at them first, or limit that with a cap per class"
    if len(losing) > MOST_NAMED:
        return [f"{len(losing):,} classes lose most of their rows {model}: {listed(losing)}; {advice}"]
    return [
        f"the class {name!r} loses {lost:,} of its {size:,} rows {model}; {advice}"
        for name, (lost, size) in losing.items()
    ]


def _warn_of_damage(audit: Audit) -> list[str]:
    return [f"decisions may be lost, because the journal is damaged: {audit.damage}"] if audit.damage else []


def _warn_of_unknown_rows(unknown: list[str]) -> list[str]:
    some = ", ".join(map(repr, unknown[:5])) + (", ..." if len(unknown) > 5 else "")
    return [f"{len(unknown)} decision(s) are on rows that this run does not have: {some}"] if unknown else []
