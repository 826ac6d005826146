"""Write the report: one HTML file that loads nothing, rendered from page/report.html."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from surelabel.data.corpus import Corpus
from surelabel.errors import RunError
from surelabel.files import replace_text
from surelabel.reporting import figures, kinds, tables, text
from surelabel.reporting.gallery import MAX_SAMPLES, make_gallery
from surelabel.reporting.other_scores import Comparison, compare
from surelabel.reporting.reported_run import ReportedRun
from surelabel.runs.run_dir import RunDir
from surelabel.verdicts import Audit

Scores = Mapping[str, Mapping[str, float]]
"""Scores of other tools by the name to show, each as `read_scores` returns them."""

_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""Characters that HTML forbids, or that reverse the text after them and could disguise a name."""


def write_report(
    runs: Sequence[RunDir],
    corpora: Sequence[Corpus | None],
    audits: Sequence[Audit],
    out: Path,
    figures: Path | None = None,
    scores: Scores | None = None,
) -> Path:
    """Write the report of one or more runs to `out`.

    A corpus is None if the data could not be read again. If `figures` names a folder, each figure
    is written there too, as PNG and SVG.
    """
    if not runs:
        raise RunError("a report needs at least one run")
    names = text.distinct_names([run.path.resolve().name for run in runs], [run.path for run in runs])
    parts = zip(runs, corpora, audits, names, strict=True)
    reported = [ReportedRun(run, corpus, audit, at, name) for at, (run, corpus, audit, name) in enumerate(parts, 1)]
    # Compare scores before drawing anything: scores that match no row are an error.
    others = [{name: compare(run, values, name) for name, values in (scores or {}).items()} for run in reported]
    page = _render(reported, others, figures)
    out.parent.mkdir(parents=True, exist_ok=True)
    replace_text(out, page)
    return out


def _render(runs: Sequence[ReportedRun], others: Sequence[Mapping[str, Comparison]], folder: Path | None) -> str:
    environment = Environment(
        loader=PackageLoader("surelabel.reporting", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_replace_harmful,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    style, script = _read_asset("style.css"), _read_asset("sort.js")
    comparison = None
    if len(runs) > 1:
        drawings = figures.embed(figures.comparison_drawings(runs), folder)
        comparison = {"table": tables.comparison_table(runs), "figures": drawings}
    return environment.get_template("report.html").render(
        title=f"Label report: {', '.join(run.name for run in runs)}",
        policy=_policy(style, script),
        style=style,
        script=script,
        comparison=comparison,
        runs=[_describe(run, len(runs), other, folder) for run, other in zip(runs, others, strict=True)],
    )


def _describe(run: ReportedRun, num_runs: int, others: Mapping[str, Comparison], folder: Path | None) -> dict[str, Any]:
    """Collect everything the template shows of a run."""
    prefix = "" if num_runs == 1 else f"{run.anchor}-"
    most = MAX_SAMPLES // num_runs
    section = kinds.describe_kinds(run, most)
    return {
        "name": run.name,
        "anchor": run.anchor,
        "introduction": text.introduction(run),
        "warnings": list(text.warnings(run)),
        "key_figures": list(text.key_figures(run)),
        "findings": list(text.findings(run)),
        "next_steps": text.next_steps(run),
        "training_figures": figures.embed(figures.training_drawings(run), folder, prefix),
        "confidence_note": text.confidence_note(run),
        "label_figures": figures.embed(figures.label_drawings(run), folder, prefix),
        "gallery": make_gallery(run, max(1, most - (section.num_samples if section else 0))),
        "kinds": section,
        "classes": tables.classes_table(run),
        "review": tables.review_table(run),
        "suspects": tables.suspects_table(run),
        "other_scores": tables.scores_table(others) if others else None,
        "settings": tables.settings_tables(run),
    }


def _replace_harmful(value: object) -> object:
    """Return what the template is about to escape and print, without harmful characters."""
    return value if isinstance(value, Markup) else _HARMFUL.sub("\ufffd", str(value))


def _read_asset(name: str) -> Markup:
    return Markup((files("surelabel.reporting") / "page" / name).read_text(encoding="utf-8"))


def _policy(style: str, script: str) -> str:
    """Allow embedded images, this style and this script, and nothing else."""
    return (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")
