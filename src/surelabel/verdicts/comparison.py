"""Compare a run on cleaned labels with the run that cleaned them."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surelabel.verdicts.audit import Audit

SUSPICIOUS_FROM = 0.5


@dataclass(frozen=True)
class Cleaning:
    """What an export did: the changed labels by id, and the suspects it left as they were."""

    by_model: dict[str, str]
    by_person: dict[str, str]
    left: frozenset[str]


def read_cleaning(file: Path) -> Cleaning | None:
    """Read the cleaned.csv of an export; None if it is not there or not readable."""
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
        changed = [row for row in rows if row["changed"] == "True"]
        parts = [{row["id"]: row["label"] for row in changed if row["decided_by"] == by} for by in ("model", "person")]
        left = [row for row in rows if row["decided_by"] == "nobody" and float(row["p_wrong"]) >= SUSPICIOUS_FROM]
    except (OSError, KeyError, ValueError, csv.Error):
        return None
    return Cleaning(parts[0], parts[1], frozenset(row["id"] for row in left))


def compare(audit: "Audit", cleaning: Cleaning) -> str:
    """Return how far the new network agrees with the changes, and what is left to review."""
    ids = [str(id) for id in audit.columns["id"]]
    predicted = dict(zip(ids, map(str, audit.columns["prediction"]), strict=True))
    decided = {id for id, done in zip(ids, audit.ranked(audit.is_decided).tolist(), strict=True) if done}

    def agreed(changes: dict[str, str]) -> str:
        count = sum(predicted.get(id) == label for id, label in changes.items())
        return f"{count:,} of {len(changes):,}"

    return (
        f"The network agrees with {agreed(cleaning.by_model)} labels that the earlier run changed, and with "
        f"{agreed(cleaning.by_person)} that people changed. {len(cleaning.left - decided):,} of the earlier suspects "
        "kept their label without a look: review them."
    )
