"""decisions.csv: decisions as a table for `fit --trusted` and for people."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from surelabel import files
from surelabel.runs.entries import Decision

CSV_COLUMNS = ("id", "label", "decided_at", "action", "by", "disagreement")
"""Rows that are removed or unsure have no label."""


def write_decisions(
    path: Path, decisions: Iterable[Decision], disputed: Mapping[str, Mapping[str, Decision]] | None = None
) -> None:
    """Write decisions; `disputed` has the opinions of annotators who disagree, by id and name."""
    rows = [
        (one.id, one.label or "", one.time, one.action, one.by, list_opinions((disputed or {}).get(one.id, {})))
        for one in decisions
    ]
    files.write_csv(path, CSV_COLUMNS, rows, as_they_are=("label",))


def list_opinions(held: Mapping[str, Decision]) -> str:
    """Return who decided what: "ann: cat; bob: remove"."""
    return "; ".join(f"{who}: {one.label or one.action}" for who, one in sorted(held.items()))
