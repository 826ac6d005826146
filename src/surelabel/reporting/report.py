"""The whole report: one HTML file that loads nothing from anywhere."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from surelabel.data.corpus import Corpus
from surelabel.errors import RunError
from surelabel.files import replace_text
from surelabel.reporting import figures as drawn
from surelabel.reporting import tables
from surelabel.reporting import text as words
from surelabel.reporting.markup import Html, element, joined
from surelabel.reporting.reported_run import ReportedRun
from surelabel.reporting.samples import MOST_SAMPLES, gallery
from surelabel.reporting.scores import Comparison, compared
from surelabel.runs.run_dir import RunDir
from surelabel.verdicts import Audit

Scores = Mapping[str, Mapping[str, float]]
"""Scores of other tools by the name to show, each as `read_scores` gives them."""


def write_report(
    runs: Sequence[RunDir],
    corpora: Sequence[Corpus | None],
    audits: Sequence[Audit],
    out: Path,
    figures: Path | None = None,
    scores: Scores | None = None,
) -> Path:
    """Write the report of one run or several to `out`; a corpus that is None could not be read again.

    With `figures`, a folder, every figure is written there too, as png and svg.
    """
    if not runs:
        raise RunError("a report needs at least one run")
    names = words.distinct([run.path.resolve().name for run in runs], [run.path for run in runs])
    parts = zip(runs, corpora, audits, names, strict=True)
    chapters = [ReportedRun(run, corpus, audit, at, name) for at, (run, corpus, audit, name) in enumerate(parts, 1)]
    # First, because scores that fit no row are an error.
    others = [
        {name: compared(chapter, values, name) for name, values in (scores or {}).items()} for chapter in chapters
    ]
    page = _page(chapters, figures, others)
    out.parent.mkdir(parents=True, exist_ok=True)
    replace_text(out, page)
    return out


def _page(chapters: Sequence[ReportedRun], folder: Path | None, others: Sequence[Mapping[str, Comparison]]) -> str:
    title = f"Label report: {', '.join(chapter.name for chapter in chapters)}"
    content = [element("h1", "Label report")]
    if len(chapters) > 1:
        content.append(_compared(chapters, folder))
    for chapter, found in zip(chapters, others, strict=True):
        content.append(_chapter(chapter, len(chapters), folder, found))
    style, script = _asset("style.css"), _asset("sort.js")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", style),
    )
    body = element("body", element("main", *content), element("script", script))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _asset(name: str) -> Html:
    return Html((files("surelabel.reporting") / "page" / name).read_text(encoding="utf-8"))


def _policy(style: str, script: str) -> str:
    """Pictures that are in the page, this style and this script, and nothing else from anywhere."""
    return (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _compared(chapters: Sequence[ReportedRun], folder: Path | None) -> Html:
    links = [element("li", element("a", chapter.name, href=f"#{chapter.anchor}")) for chapter in chapters]
    return element(
        "section",
        element("h2", f"{len(chapters)} runs side by side"),
        element("nav", element("ul", *links), aria_label="Runs"),
        tables.comparison(chapters),
        drawn.shown(drawn.compared_drawings(chapters), folder),
    )


def _chapter(chapter: ReportedRun, num_runs: int, folder: Path | None, others: Mapping[str, Comparison]) -> Html:
    prefix = "" if num_runs == 1 else f"{chapter.anchor}-"
    parts = {
        "Training": drawn.shown(drawn.training_drawings(chapter), folder, prefix),
        "Labels": joined(_note(chapter), drawn.shown(drawn.label_drawings(chapter), folder, prefix)),
        "Suspects of each class": gallery(chapter, MOST_SAMPLES // num_runs),
        "Classes": tables.classes(chapter),
        "Review": tables.budgets(chapter),
        "First suspects": tables.suspects(chapter),
    }
    if others:
        parts["Scores of other tools"] = tables.other_scores(others)
    places = {title: f"{chapter.anchor}-{at}" for at, title in enumerate(parts, 1)}
    links = [element("li", element("a", title, href=f"#{place}")) for title, place in places.items()]
    sections = [joined(element("h3", title, id=places[title]), content) for title, content in parts.items()]
    return element(
        "section",
        element("h2", chapter.name, id=chapter.anchor),
        element("p", words.introduction(chapter), class_="note"),
        _summary(chapter),
        element("nav", element("ul", *links), aria_label=f"Parts of {chapter.name}"),
        *sections,
        tables.settings(chapter),
    )


def _note(chapter: ReportedRun) -> Html | None:
    note = words.confidence_note(chapter)
    return None if note is None else element("p", note, class_="note")


def _summary(chapter: ReportedRun) -> Html:
    """Warnings first, then what was found, then what to do."""
    warned = [element("li", text) for text in words.warnings(chapter)]
    found = [element("li", text) for text in words.summary(chapter)]
    steps = [element("li", element("code", command), f": {why}") for command, why in words.next_steps(chapter)]
    tiles = [element("div", element("dt", name), element("dd", value)) for name, value in words.key_figures(chapter)]
    return joined(
        element("div", element("h3", "Warnings"), element("ul", *warned), class_="warnings") if warned else None,
        element("h3", "Summary"),
        element("dl", *tiles, class_="tiles"),
        element("ul", *found, class_="summary"),
        element("h3", "What to do next"),
        element("ul", *steps),
    )
