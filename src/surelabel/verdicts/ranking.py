"""Order the rows of an audit, and share out their P(wrong) among the other classes."""

import numpy as np

from surelabel.runs.tables import ORIGINAL
from surelabel.verdicts import classes, evidence, kinds
from surelabel.verdicts.answers import NO_CLASS, Review

COLUMNS = (
    "rank",
    "row",
    "id",
    "given",
    ORIGINAL,
    "suggested",
    "target",
    "quality",
    "p_wrong",
    "suggested_probability",
    "given_probability",
    "prediction",
    "tau",
    "mean_margin",
    "margin_of_mean",
    "first_learned",
    "forgotten",
    "kind",
    *kinds.COLUMNS,
    "split",
    "verdict",
)
"""Columns of the ranked table, in this order; `clean` is added where it is known."""
DECIDED = "decided"
"""Column with the label that a person decided on, empty where nobody did; added after a review."""
REMOVED = "(removed)"
"""In that column, rows for which none of the classes fits."""
AS_LOOKS = 10.0
"""Wrong labels that people had to find the right class of before their answers count as much as
what the model says of its suggestions."""


def sum_alternatives(
    found: evidence.Evidence, columns: dict[str, np.ndarray], review: Review | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (K, K) expected counts by true and given class, and (N,) P(suggestion is right)."""
    given, suggested, p_wrong = (columns[name] for name in ("given", "suggested", "p_wrong"))
    joint = np.zeros((len(found.class_names), len(found.class_names)))
    if_wrong = np.empty(len(given))
    for rows, share in found.alternatives():
        if_wrong[rows] = share[np.arange(len(share)), suggested[rows]]
        if review is not None:
            labels = np.where(review.answers.is_decided, review.labels, NO_CLASS)
            _use_decisions(share, given[rows], labels[rows])
        joint += classes.joint_counts(given[rows], p_wrong[rows], share)
    if review is not None:
        if_wrong *= _suggestions_kept(if_wrong, suggested, review)
    return joint, p_wrong * if_wrong


def _suggestions_kept(if_wrong: np.ndarray, suggested: np.ndarray, review: Review) -> float:
    """Return what fraction of the suggestions expected to be right people found right."""
    wrong = review.answers.is_wrong
    right = float((review.labels == suggested)[wrong].sum())
    return min(1.0, (AS_LOOKS + right) / (AS_LOOKS + float(if_wrong[wrong].sum())))


def _use_decisions(share: np.ndarray, given: np.ndarray, labels: np.ndarray) -> None:
    """Replace the alternatives (n, K) of rows for which a person who looked chose another class."""
    changed = np.flatnonzero((labels >= 0) & (labels != given))
    share[changed] = 0
    share[changed, labels[changed]] = 1


def rank_rows(columns: dict[str, np.ndarray], review: Review | None) -> np.ndarray:
    """Order rows by P(wrong); ties by quality, then by the probability of the suggestion.

    Rows that a person has decided on come last.
    """
    keys = (-columns["suggested_probability"], columns["quality"], -columns["p_wrong"])
    return np.lexsort(keys if review is None else (*keys, review.is_decided))


def ranked_columns(
    class_names: tuple[str, ...], columns: dict[str, np.ndarray], order: np.ndarray, review: Review | None
) -> dict[str, np.ndarray]:
    """Return the columns in a new order of rows, with the names of classes and the rank."""
    names = np.array(class_names)
    columns = {name: values[order] for name, values in columns.items()}
    for name in evidence.CLASS_COLUMNS:
        if name in columns:
            columns[name] = names[columns[name]]
    columns["rank"] = np.arange(1, len(order) + 1)
    if review is not None:
        columns[DECIDED] = np.append(names, [REMOVED, ""])[review.labels[order]]
    return {name: columns[name] for name in (*COLUMNS, DECIDED, "clean") if name in columns}


def in_order(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the columns in the order of COLUMNS, and then all others."""
    return {**{name: columns[name] for name in COLUMNS if name in columns}, **columns}
