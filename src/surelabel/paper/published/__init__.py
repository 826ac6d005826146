"""The numbers that the paper prints: one csv per table, with the protocol of each number."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

FIELDS = ("table", "measure", "mean", "std", "protocol", "source", "note")
"""Columns that are not part of the cell."""


@dataclass(frozen=True)
class Published:
    """One printed number, in percent."""

    table: str
    cell: Mapping[str, str]
    measure: str
    mean: float | None
    """None if the paper says that the model fails to converge."""
    std: float | None
    """None if the paper prints none."""
    protocol: str
    """car, or original: quoted from the method's own paper or from one that compares with it."""
    source: str
    """Label of the table in the LaTeX source of the paper."""
    note: str


def read_published(name: str) -> list[Published]:
    """Read a csv. A cell that two tables of the paper print, with other numbers, is in it twice."""
    text = resources.files(__name__).joinpath(f"{name}.csv").read_text(encoding="utf-8")
    return [_parse(row) for row in csv.DictReader(text.splitlines())]


def _parse(row: dict[str, str]) -> Published:
    return Published(
        row["table"],
        {key: value for key, value in row.items() if key not in FIELDS},
        row["measure"],
        float(row["mean"]) if row["mean"] else None,
        float(row["std"]) if row["std"] else None,
        row["protocol"],
        row["source"],
        row["note"],
    )
