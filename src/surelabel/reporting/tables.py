"""The tables of the report, as data for the template."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surelabel.plotting.curves import accuracy_on_test, memorised_curve
from surelabel.reporting.other_scores import Comparison
from surelabel.reporting.reported_run import ReportedRun
from surelabel.reporting.text import noise_rate_text, percent, rate_text

NUM_SUSPECTS = 100
"""Rows of the table of suspects; `surelabel audit` writes all of them."""
MAX_SETTING_LENGTH = 300
"""Characters after which the value of a setting is cut."""
SUSPECT_COLUMNS = {
    "rank": "Rank",
    "id": "Id",
    "given": "Given",
    "suggested": "Suggested",
    "p_wrong": "Probability that it is wrong",
    "quality": "Quality",
    "suggested_probability": "Probability of the suggestion",
    "tau": "Tau",
    "clean": "True label",
}


@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    text: str
    sort_key: str | None = None
    """The exact value, by which the page sorts; None if the cell is not a number."""
    style: str | None = None
    """The CSS class of the text."""


@dataclass(frozen=True)
class Table:
    """A table; the first cell of each row is its heading."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    is_sortable: bool = False

    def is_numeric(self, column: int) -> bool:
        """Return whether any cell of the column is a number."""
        return any(row[column].sort_key is not None for row in self.rows)


def make_table(caption: str, header: Sequence[str], rows: Iterable[Sequence[Any]], sortable: bool = False) -> Table:
    """Make a table of numbers and texts."""
    return Table(caption, header, [[_make_cell(value) for value in row] for row in rows], sortable)


def _make_cell(value: Any, style: str | None = None) -> Cell:
    if isinstance(value, float | int | np.number) and not isinstance(value, bool):
        return Cell(_number_text(value), f"{float(value):.9g}", style)
    return Cell(str(value), style=style)


def _number_text(value: Any) -> str:
    """Format a number for reading; NaN and infinity are empty."""
    if isinstance(value, float | np.floating):
        return "" if not np.isfinite(value) else f"{value:.3f}"
    return f"{int(value):,}"


def suspects_table(run: ReportedRun) -> Table:
    """List the first suspects, even if fewer labels look wrong."""
    names = [name for name in SUSPECT_COLUMNS if name in run.columns and not _is_empty(run.columns[name])]
    rows = [
        [_make_cell(row[name], name if name in ("id", "given", "suggested") else None) for name in names]
        for row in run.audit.head(NUM_SUSPECTS)
    ]
    header = [SUSPECT_COLUMNS[name] for name in names]
    return Table(f"The first {len(rows)} suspects", header, rows, is_sortable=True)


def _is_empty(values: np.ndarray) -> bool:
    return values.dtype.kind == "f" and not np.isfinite(values).any()


def classes_table(run: ReportedRun) -> Table:
    """Count the labels of each class."""
    size = len(run.class_names)
    given, suggested = run.class_numbers("given"), run.class_numbers("suggested")
    total, suspicious = (np.bincount(numbers, minlength=size) for numbers in (given, given[run.is_suspicious]))
    to_class = np.bincount(suggested[run.is_suspicious], minlength=size)
    header = ["Class", "Labels", "Look wrong", "Estimated wrong (interval)", "Suggested for other labels"]
    rates = run.audit.class_rates
    rows = [
        [name, total[number], suspicious[number], rate_text(rates[name]), to_class[number]]
        for number, name in enumerate(run.class_names)
    ]
    if run.is_wrong is not None:
        header.append("Really wrong")
        wrong = np.bincount(given[run.is_wrong], minlength=size)
        rows = [[*row, wrong[number]] for number, row in enumerate(rows)]
    return make_table("Labels by class", header, rows, sortable=True)


def review_table(run: ReportedRun) -> Table:
    """List what a review of the first labels would find, for several lengths."""
    header = ["Labels reviewed", "Wrong among them, about", "At least", "At most", "That is", "Of all wrong labels"]
    rows = [
        [
            plan.budget,
            round(plan.num_wrong),
            math.floor(plan.low),
            math.ceil(plan.high),
            f"{percent(plan.precision)} ({percent(plan.precision_low)} to {percent(plan.precision_high)})",
            f"{percent(plan.recall)} ({percent(plan.recall_low)} to {percent(plan.recall_high)})",
        ]
        for plan in run.audit.budgets()
    ]
    return make_table("What a review would find", header, rows)


def comparison_table(runs: Sequence[ReportedRun]) -> Table:
    """Compare the final figures of several runs, with a column for each."""
    figures = [_final_figures(run) for run in runs]
    names = dict.fromkeys(name for one in figures for name in one)
    # Numbers become text: in a column with words and percentages they would not line up anyway.
    rows = [[name, *(_make_cell(one.get(name, "-")).text for one in figures)] for name in names]
    return make_table("The runs side by side", ["", *(run.name for run in runs)], rows)


def _final_figures(run: ReportedRun) -> dict[str, Any]:
    """Return the figures that runs are compared by, without those that this run lacks."""
    last, measured = run.metrics[-1] if run.metrics else {}, run.audit.measures()
    test, memorised = accuracy_on_test(run.metrics)[1], memorised_curve(run.metrics)[1]
    suspicious = percent(run.num_suspicious / max(1, len(run.audit)))
    found = {
        "Method": run.config.method.name,
        "Network": run.config.model.name,
        "Epochs": last.get("epoch"),
        "Labels": len(run.audit),
        "Labels that look wrong": f"{run.num_suspicious:,} ({suspicious})",
        "Estimated rate of wrong labels": noise_rate_text(run),
        "Test accuracy, last epoch": percent(test[-1]) if test else None,
        "Wrong labels memorised, last epoch": percent(memorised[-1]) if memorised else None,
        "AUROC of finding wrong labels": measured.get("quality_auroc"),
        "Average precision": measured.get("average_precision"),
        "Calibration error of P(wrong)": measured.get("calibration_error"),
        "Suggestions that are right": percent(measured["suggested_accuracy"]) if measured else None,
        "Seconds of training": round(sum(row.get("seconds", 0) for row in run.metrics)),
    }
    return {name: value for name, value in found.items() if value is not None}


def scores_table(comparisons: Mapping[str, Comparison]) -> Table:
    """Compare our ranking with those of other tools."""
    sizes = sorted({size for one in comparisons.values() for size in one.overlaps})
    header = ["Scores", "Rows", "Rank correlation", *(f"Both among the first {size:,}" for size in sizes)]
    aurocs = ["AUROC of surelabel", "AUROC of the scores"] if any(one.auroc for one in comparisons.values()) else []
    rows = []
    for name, one in comparisons.items():
        overlaps = [percent(one.overlaps[size]) if size in one.overlaps else "-" for size in sizes]
        rows.append([name, one.num_rows, one.rank_correlation, *overlaps, *(one.auroc or ["-"] * len(aurocs))])
    return make_table("Other scores beside ours", [*header, *aurocs], rows)


def settings_tables(run: ReportedRun) -> list[Table]:
    """List every setting, the properties of the data, and the machine."""
    contents: dict[str, Mapping[str, Any]] = {
        "Settings": run.config.model_dump(mode="json"),
        "Network": {name: text for name, text in run.run_dir.network_choice().items() if isinstance(text, str)},
        "Data": {name: value for name, value in run.run_dir.data().items() if name not in ("class_names", "digests")},
        "Environment": run.run_dir.environment(),
    }
    return [make_table(name, ["Name", "Value"], _flatten(content)) for name, content in contents.items() if content]


def _flatten(content: Mapping[str, Any], prefix: str = "") -> list[list[str]]:
    """Return dotted names and values of a nested mapping."""
    rows: list[list[str]] = []
    for name, value in content.items():
        is_nested = isinstance(value, Mapping) and len(value) > 0
        rows += _flatten(value, f"{prefix}{name}.") if is_nested else [[f"{prefix}{name}", _setting_text(value)]]
    return rows


def _setting_text(value: Any) -> str:
    text = "not set" if value is None else str(value)
    return text if len(text) <= MAX_SETTING_LENGTH else f"{text[:MAX_SETTING_LENGTH]}..."
