"""Verdicts on labels: the ranked table that a finished run says about its own data."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.runs import RunDir

COLUMNS = (
    "rank",
    "id",
    "given",
    "suggested",
    "target",
    "quality",
    "suggested_probability",
    "given_probability",
    "prediction",
    "tau",
    "mean_margin",
    "first_learned",
    "forgotten",
    "split",
    "verdict",
)
"""Columns of the ranked table, in this order; `clean` is added where it is known."""

SUSPICIOUS_BELOW = 0.5
"""Quality under which a label is counted as one that looks wrong."""


class Audit:
    """Every label with its quality, most suspicious first."""

    def __init__(self, columns: dict[str, np.ndarray], class_names: tuple[str, ...]) -> None:
        self.columns, self.class_names = columns, class_names

    def __len__(self) -> int:
        return len(self.columns["id"])

    @property
    def num_suspicious(self) -> int:
        """How many labels look wrong."""
        return int((self.columns["quality"] < SUSPICIOUS_BELOW).sum())

    def head(self, count: int) -> Iterator[dict[str, Any]]:
        """The `count` most suspicious rows."""
        for row in range(min(count, len(self))):
            yield {name: values[row] for name, values in self.columns.items()}

    def to_csv(self, path: str | Path) -> None:
        """The whole table as csv; class names as they are, numbers with six digits."""
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            for row in self.head(len(self)):
                writer.writerow([_cell(value) for value in row.values()])

    def measures(self) -> dict[str, float]:
        """Where clean labels are known: how well quality ranks the wrong labels, and how many suggestions are right."""
        if "clean" not in self.columns:
            return {}
        wrong = self.columns["given"] != self.columns["clean"]
        result = {
            "wrong_labels": float(wrong.mean()),
            "correction_accuracy": float((self.columns["target"] == self.columns["clean"]).mean()),
            "suggested_accuracy": float((self.columns["suggested"] == self.columns["clean"]).mean()),
        }
        if 0 < wrong.sum() < len(wrong):
            from sklearn.metrics import average_precision_score, roc_auc_score

            suspicion = 1 - self.columns["quality"].astype(np.float64)
            result["quality_auroc"] = float(roc_auc_score(wrong, suspicion))
            result["average_precision"] = float(average_precision_score(wrong, suspicion))
        return result


def _cell(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.6g}"
    return value


def audit(run: str | Path | RunDir) -> Audit:
    """The ranked table of a finished run."""
    run_dir = run if isinstance(run, RunDir) else RunDir.open(run)
    samples, labels = run_dir.samples(), run_dir.labels()
    names = np.array(run_dir.data()["class_names"])
    columns = {name: samples[name].to_numpy() for name in samples.column_names if name not in ("target", "probability")}
    columns["target"] = samples["target"].combine_chunks().flatten().to_numpy().reshape(len(samples), -1).argmax(1)
    if labels["clean"].null_count == 0:
        columns["clean"] = labels["clean"].to_numpy()
    order = np.lexsort((-columns["suggested_probability"], columns["quality"]))
    columns = {name: values[order] for name, values in columns.items()}
    for name in ("given", "suggested", "target", "prediction", "clean"):
        if name in columns:
            columns[name] = names[columns[name]]
    columns["rank"] = np.arange(1, len(order) + 1)
    ordered = [*COLUMNS, *(["clean"] if "clean" in columns else [])]
    return Audit({name: columns[name] for name in ordered}, tuple(names))
