"""The tables of the report."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from surelabel.plotting.curves import accuracy_on_test, memorised_curve
from surelabel.reporting.chapter import Chapter
from surelabel.reporting.markup import Html, element
from surelabel.reporting.scores import Comparison
from surelabel.reporting.words import percent, rate_text

NUM_SUSPECTS = 100
"""Rows of the table of suspects; the whole table is what `surelabel audit` writes."""


def table(
    caption: str, header: Sequence[str], rows: Iterable[Sequence[Any]], sortable: bool = False, first: str = "th"
) -> Html:
    """A table that scrolls by itself where the page is narrow; the first cell of a row is its heading."""
    rows = [list(row) for row in rows]
    kinds = ["number" if any(_is_number(row[at]) for row in rows) else None for at in range(len(header))]
    head = element(
        "tr", *(element("th", name, scope="col", class_=kind) for name, kind in zip(header, kinds, strict=True))
    )
    body = [element("tr", *(_cell(value, first if at == 0 else "td") for at, value in enumerate(row))) for row in rows]
    inner = element(
        "table",
        element("caption", caption),
        element("thead", head),
        element("tbody", *body),
        class_="sortable" if sortable else None,
    )
    return element("div", inner, class_="scroll", role="region", aria_label=caption, tabindex="0")


def _cell(value: Any, name: str) -> Html:
    scope = "row" if name == "th" else None
    if _is_number(value):
        return element(name, shown(value), class_="number", data_value=f"{float(value):.9g}", scope=scope)
    return element(name, value, scope=scope)


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int | np.number) and not isinstance(value, bool)


def shown(value: Any) -> str:
    """A number as a reader wants it; nothing where there is none."""
    if isinstance(value, float | np.floating):
        return "" if not np.isfinite(value) else f"{value:.3f}"
    return f"{int(value):,}"


def suspects(chapter: Chapter) -> Html:
    """The first suspects, whatever their number of labels that look wrong."""
    columns = {
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
    names = [name for name in columns if name in chapter.columns and not _is_empty(chapter.columns[name])]
    rows = [[_coloured(name, row[name]) for name in names] for row in chapter.audit.head(NUM_SUSPECTS)]
    return table(f"The first {len(rows)} suspects", [columns[name] for name in names], rows, sortable=True)


def _is_empty(values: np.ndarray) -> bool:
    return values.dtype.kind == "f" and not np.isfinite(values).any()


def _coloured(name: str, value: Any) -> Any:
    if name in ("given", "suggested"):
        return element("span", value, class_=name)
    return element("span", value, class_="id") if name == "id" else value


def classes(chapter: Chapter) -> Html:
    """Counts of each class."""
    size = len(chapter.class_names)
    given, suggested = chapter.codes("given"), chapter.codes("suggested")
    total, flagged = (np.bincount(codes, minlength=size) for codes in (given, given[chapter.flagged]))
    away = np.bincount(suggested[chapter.flagged], minlength=size)
    header = ["Class", "Labels", "Look wrong", "Probably wrong (interval)", "Suggested for other labels"]
    rates = chapter.audit.class_rates
    rows = [
        [name, total[at], flagged[at], rate_text(rates[name]), away[at]] for at, name in enumerate(chapter.class_names)
    ]
    if chapter.is_wrong is not None:
        header.append("Really wrong")
        wrong = np.bincount(given[chapter.is_wrong], minlength=size)
        rows = [[*row, wrong[at]] for at, row in enumerate(rows)]
    return table("Labels by class", header, rows, sortable=True)


def budgets(chapter: Chapter) -> Html:
    """What looking at the first so many suspects brings."""
    header = ["Look at the first", "About so many are wrong", "At least", "At most", "Share of all wrong labels"]
    rows = [
        [plan.budget, round(plan.num_wrong), math.floor(plan.low), math.ceil(plan.high), percent(plan.recall)]
        for plan in chapter.audit.budgets()
    ]
    return table("What a review would find", header, rows)


def final_figures(chapter: Chapter) -> dict[str, Any]:
    """What several runs are compared by; a measure that a run does not have is left out."""
    last, measured = chapter.metrics[-1] if chapter.metrics else {}, chapter.audit.measures()
    test, kept = accuracy_on_test(chapter.metrics)[1], memorised_curve(chapter.metrics)[1]
    found = {
        "Method": chapter.config.method.name,
        "Network": chapter.config.model.name,
        "Epochs": last.get("epoch"),
        "Labels": len(chapter.audit),
        "Labels that look wrong": f"{chapter.num_flagged:,} ({percent(chapter.num_flagged / max(1, len(chapter.audit)))})",
        "Labels that are probably wrong": rate_text(chapter.audit.noise_rate)
        if chapter.audit.can_tell
        else "not known",
        "Test accuracy, last epoch": percent(test[-1]) if test else None,
        "False labels memorised, last epoch": percent(kept[-1]) if kept else None,
        "AUROC of finding wrong labels": measured.get("quality_auroc"),
        "Average precision": measured.get("average_precision"),
        "Calibration error of P(wrong)": measured.get("calibration_error"),
        "Suggestions that are right": percent(measured["suggested_accuracy"]) if measured else None,
        "Seconds of training": round(sum(row.get("seconds", 0) for row in chapter.metrics)),
    }
    return {name: value for name, value in found.items() if value is not None}


def comparison(chapters: Sequence[Chapter]) -> Html:
    """The final figures of several runs, a column each."""
    figures = [final_figures(chapter) for chapter in chapters]
    names = dict.fromkeys(name for one in figures for name in one)
    rows = [[name, *(_as_text(one.get(name, "-")) for one in figures)] for name in names]
    return table("The runs side by side", ["", *(chapter.name for chapter in chapters)], rows)


def _as_text(value: Any) -> str:
    """Beside words and shares, numbers are not aligned by themselves."""
    return value if isinstance(value, str) else shown(value)


def other_scores(found: Mapping[str, Comparison]) -> Html:
    """How other tools rank the same labels."""
    sizes = sorted({size for one in found.values() for size in one.overlaps})
    header = ["Scores", "Rows", "Rank correlation", *(f"Both among the first {size:,}" for size in sizes)]
    aurocs = ["AUROC of surelabel", "AUROC of the scores"] if any(one.auroc for one in found.values()) else []
    rows = []
    for name, one in found.items():
        overlaps = [percent(one.overlaps[size]) if size in one.overlaps else "-" for size in sizes]
        rows.append([name, one.num_rows, one.rank_correlation, *overlaps, *(one.auroc or ["-"] * len(aurocs))])
    return table("Other scores beside ours", [*header, *aurocs], rows)


def settings(chapter: Chapter) -> Html:
    """Every setting, what the data were, and on which machine; folded up."""
    data = {name: value for name, value in chapter.run.data().items() if name != "class_names"}
    parts = {
        "Settings": chapter.config.model_dump(mode="json"),
        "Data": data,
        "Environment": chapter.run.environment(),
    }
    tables = [table(name, ["Name", "Value"], _flat(content)) for name, content in parts.items()]
    return element("details", element("summary", "Settings and environment"), *tables)


def _flat(content: Mapping[str, Any], prefix: str = "") -> list[list[str]]:
    rows: list[list[str]] = []
    for name, value in content.items():
        is_inner = isinstance(value, Mapping) and len(value) > 0
        rows += _flat(value, f"{prefix}{name}.") if is_inner else [[f"{prefix}{name}", _setting(value)]]
    return rows


def _setting(value: Any) -> str:
    text = "not set" if value is None else str(value)
    return text if len(text) <= 300 else f"{text[:300]}..."
