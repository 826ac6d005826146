"""The numbers that the paper prints, one csv for each table; whose protocol each has stands with it."""

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
    """None where the paper prints that the model fails to converge."""
    std: float | None
    """None where none is printed."""
    protocol: str
    """car, or original: taken from the method's own paper, or from one that compares with it."""
    source: str
    """Label of the table in the paper's source."""
    note: str


def published(name: str) -> list[Published]:
    """All numbers of one csv. A cell may have two, such as cross entropy at 40 %, from two tables of the paper."""
    text = resources.files(__name__).joinpath(f"{name}.csv").read_text(encoding="utf-8")
    return [_number(row) for row in csv.DictReader(text.splitlines())]


def _number(row: dict[str, str]) -> Published:
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
