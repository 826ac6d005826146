"""The results of a search as a table, and the chosen settings as a file that `fit` takes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from surelabel.config import RunConfig
from surelabel.files import replace_csv, replace_text
from surelabel.tuning.rungs import accuracy_of, compare, join
from surelabel.tuning.search import Result, Tuning, result_files

COLUMNS = (
    "candidate",
    "rung",
    "rows",
    "accuracy",
    "standard_error",
    "behind",
    "behind_error",
    "gap",
    "minutes",
    "state",
)


def list_rows(tuning: Tuning) -> list[dict[str, Any]]:
    """Return a row of COLUMNS for every candidate, the chosen one first.

    `behind` is by how much the chosen one is better on the rows that both were measured on, `gap`
    how much better labels are predicted that were trained on.
    """
    rows = [_make_row(tuning, name, result) for name, result in tuning.results.items()]
    order = {"chosen": 0, "compared": 1, "dropped": 2, "not ended": 3}
    rows.sort(key=lambda row: (order.get(row["state"], 4), -row["rung"], -(row["accuracy"] or 0.0)))
    return rows


def _make_row(tuning: Tuning, name: str, result: Result) -> dict[str, Any]:
    hits = join(result.hits)
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {"candidate": name, "rung": len(result.hits), "rows": len(hits), "minutes": result.seconds / 60}
    row["state"] = _describe_state(tuning, name, result)
    if len(hits):
        accuracy = accuracy_of(hits)
        row |= {"accuracy": accuracy.mean, "standard_error": accuracy.standard_error}
        row["gap"] = result.gap(len(result.hits))
    if len(hits) and tuning.chosen not in (None, name):
        best = tuning.results[tuning.chosen].hits
        both = min(len(best), len(result.hits))
        difference = compare(join(best[:both]), join(result.hits[:both]))
        row |= {"behind": difference.mean, "behind_error": difference.standard_error}
    return row


def _describe_state(tuning: Tuning, name: str, result: Result) -> str:
    if result.failure is not None:
        return f"failed: {result.failure}"
    if name == tuning.chosen:
        return "chosen"
    if name in tuning.compared():
        return "compared"
    return "dropped" if result.hits else "not ended"


def to_markdown(tuning: Tuning) -> str:
    """Return the table with a sentence on what its numbers are."""
    config = tuning.config
    title = f"# {config.method.name} on {Path(config.data.source).name}, {config.train.epochs} epochs"
    legend = (
        "Accuracy in percent on the given labels of rows that were held out, which may be wrong themselves: "
        "the best possible accuracy is the fraction of right labels. "
        "Behind: how much better the chosen candidate is on the same rows. Gap: how much better labels are predicted "
        "that were trained on. ±: standard error. Of candidates within a standard error of the best, the one with the "
        "smallest gap is chosen."
    )
    lines = ["| candidate | rung | accuracy | behind | gap | minutes | |", "|---|---|---|---|---|---|---|"]
    lines += [f"| {' | '.join(cells)} |" for cells in format_cells(tuning)]
    return "\n\n".join([title, legend, "\n".join(lines)]) + "\n"


def format_cells(tuning: Tuning) -> list[list[str]]:
    """Return the cells of the table as text, in percent."""
    return [
        [
            row["candidate"],
            str(row["rung"]),
            _percent(row["accuracy"], row["standard_error"]),
            _percent(row["behind"], row["behind_error"]),
            "-" if row["gap"] is None else f"{100 * row['gap']:.1f}",
            f"{row['minutes']:.1f}",
            row["state"].replace("|", "/"),
        ]
        for row in list_rows(tuning)
    ]


def _percent(mean: float | None, error: float | None) -> str:
    return "-" if mean is None or error is None else f"{100 * mean:.1f} ± {100 * error:.1f}"


def write_results(tuning: Tuning) -> list[Path]:
    """Write table.csv, table.md and, if there is a best candidate, best.yaml; return the paths."""
    tuning.folder.mkdir(parents=True, exist_ok=True)
    table, page, best = result_files(tuning.folder)
    replace_csv(table, COLUMNS, [_csv_cells(row) for row in list_rows(tuning)])
    replace_text(page, to_markdown(tuning))
    if tuning.chosen is None:
        return [table, page]
    replace_text(best, to_yaml(tuning.best, f"{tuning.chosen}: chosen by surelabel tune"))
    return [table, page, best]


def _csv_cells(row: dict[str, Any]) -> Sequence[Any]:
    return [
        "" if row[name] is None else np.round(row[name], 6) if isinstance(row[name], float) else row[name]
        for name in COLUMNS
    ]


def to_yaml(config: RunConfig, title: str) -> str:
    """Return the settings of a configuration that are not defaults, under a comment."""
    content = config.model_dump(mode="json", exclude_defaults=True)
    # The kind of a schedule is a default of its class, and would be left out with its other fields.
    if config.optimiser.schedule != type(config.optimiser)().schedule:
        content["optimiser"]["schedule"] = config.optimiser.schedule.model_dump(mode="json")
    content["method"] = config.method.model_dump(mode="json")
    return f"# {title}\n" + yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
