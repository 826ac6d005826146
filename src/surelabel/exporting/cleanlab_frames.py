"""The verdict as the data frames of cleanlab: `label_issues` of CleanLearning, and Datalab's."""

from pathlib import Path
from typing import Any

import numpy as np

from surelabel.exporting.material import Material
from surelabel.files import write_csv, write_parquet

LABEL_ISSUES = "label_issues.parquet"
DATALAB = "datalab"
"""Folder of Datalab's frames."""
NUM_SHOWN = 5
"""Rows of each issue in the report."""


def write_label_issues(folder: Path, material: Material) -> None:
    """Write the frame that `CleanLearning.fit(x, labels, label_issues=...)` takes.

    Classes are numbers, in the order of class_names.json. label_issues.csv has their names.
    """
    _write_parquet(folder / LABEL_ISSUES, _label_columns(material, "label_quality"))


def write_datalab(folder: Path, material: Material) -> None:
    """Write what `get_issues`, `get_issues("label")`, `get_issue_summary` and `report` show."""
    place = folder / DATALAB
    place.mkdir()
    label = _label_columns(material, "label_score")
    issues = {"is_label_issue": label["is_label_issue"], "label_score": label["label_score"], **_other_issues(material)}
    _write_parquet(place / "issues.parquet", issues)
    _write_parquet(place / LABEL_ISSUES, label)
    summary = _summarise(issues)
    write_csv(place / "issue_summary.csv", ("issue_type", "score", "num_issues"), summary)
    (place / "report.txt").write_text(_report(material, issues, summary), encoding="utf-8")


def _label_columns(material: Material, score: str) -> dict[str, np.ndarray]:
    return {
        "is_label_issue": ~material.cleaned.keep,
        score: 1 - material.p_wrong,
        "given_label": material.cleaned.numbers("given"),
        "predicted_label": material.cleaned.numbers("suggested"),
    }


def _other_issues(material: Material) -> dict[str, np.ndarray]:
    """Return the columns of other issues that the run looked for; low scores are bad."""
    found: dict[str, np.ndarray] = {}
    is_outlier, isolation = material.of_audit("is_outlier"), material.of_audit("isolation")
    if is_outlier is not None and isolation is not None:
        found |= {"is_outlier_issue": is_outlier, "outlier_score": 1 / (1 + np.maximum(isolation, 0.0))}
    group = material.of_audit("duplicate_group")
    if group is not None:
        found |= {"is_near_duplicate_issue": group > 0, "near_duplicate_score": np.where(group > 0, 0.0, 1.0)}
    return {name: values.astype(bool if name.startswith("is_") else np.float64) for name, values in found.items()}


def _types(issues: dict[str, np.ndarray]) -> list[str]:
    return [name.removeprefix("is_").removesuffix("_issue") for name in issues if name.startswith("is_")]


def _summarise(issues: dict[str, np.ndarray]) -> list[tuple[str, float, int]]:
    """Return issue type, mean score and number of issues, as Datalab does."""
    return [
        (kind, float(np.mean(issues[f"{kind}_score"])), int(issues[f"is_{kind}_issue"].sum()))
        for kind in _types(issues)
    ]


def _report(material: Material, issues: dict[str, np.ndarray], summary: list[tuple[str, float, int]]) -> str:
    lines = [f"Dataset Information: num_examples: {len(material)}, num_classes: {len(material.cleaned.class_names)}"]
    lines += ["", "Here is a summary of various issues found in your data:", "", f"{'issue_type':>16} num_issues"]
    lines += [f"{kind:>16} {count:>10}" for kind, _, count in sorted(summary, key=lambda row: -row[2])]
    given, suggested = material.names("given"), material.names("suggested")
    for kind, score, count in summary:
        lines += ["", f"{f' {kind} issues ':-^46}", ""]
        lines += [
            f"Number of examples with this issue: {count}",
            f"Overall dataset quality in terms of this issue: {score:.4f}",
        ]
        order = np.argsort(issues[f"{kind}_score"], kind="stable")[:NUM_SHOWN].tolist()
        lines += ["", "Examples representing most severe instances of this issue:"]
        for row in order:
            labels = f"  given {given[row]!r}  predicted {suggested[row]!r}" if kind == "label" else ""
            is_issue = bool(issues[f"is_{kind}_issue"][row])
            lines.append(f"  {material.ids[row]}  {is_issue!s:<5}  {issues[f'{kind}_score'][row]:.4f}{labels}")
    return "\n".join(lines) + "\n"


def _write_parquet(path: Path, columns: dict[str, Any]) -> None:
    import pyarrow as pa

    write_parquet(path, pa.table({name: pa.array(values) for name, values in columns.items()}))
