"""`surelabel report`: write the HTML report of one or more runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surelabel import console
from surelabel.cli.options import Json, app, warn_of_damage
from surelabel.cli.output import not_a_folder
from surelabel.errors import SurelabelError

if TYPE_CHECKING:
    from surelabel.data.corpus import Corpus
    from surelabel.runs.run_dir import RunDir


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run directories; several are compared.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="File to write. Default: report.html in the first run")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write the figures here, as png and svg.")
    ] = None,
    scores: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.csv", help="CSV with scores of another tool, by id, to compare with."),
    ] = None,
    json: Json = False,
) -> None:
    """Write one HTML file with what training found, including pictures of the suspects."""
    from surelabel.data.protected_files import refuse_overwriting_inputs
    from surelabel.reporting.figures import list_files
    from surelabel.reporting.other_scores import read_scores
    from surelabel.reporting.report import write_report
    from surelabel.reporting.text import distinct_names
    from surelabel.runs.run_dir import RunDir
    from surelabel.verdicts import audit

    opened = [RunDir.open(run) for run in runs]
    file, files = not_a_folder(out or runs[0] / "report.html", "FILE.html"), scores or []
    refuse_overwriting_inputs([file], opened, files)
    if figures is not None:
        refuse_overwriting_inputs([figures, *list_files(figures, len(runs))], opened, files, "--figures")
    names = distinct_names([path.stem for path in files], files)
    others = {name: read_scores(path) for name, path in zip(names, files, strict=True)}
    audits = [audit(run) for run in opened]
    for run, found in zip(runs, audits, strict=True):
        warn_of_damage(run, found.damage)
    corpora = [_reopen(run) for run in opened]
    write_report(opened, corpora, audits, file, figures, others)
    if json:
        console.say_json({"report": file, "bytes": file.stat().st_size, "figures": figures})
    else:
        console.say(f"Report: {file}" + (f"   Figures: {figures}" if figures else ""))


def _reopen(run: "RunDir") -> "Corpus | None":
    """Return the run's data, or None with a note: a report can do without pictures."""
    from surelabel import api

    try:
        return api.reopen_data(run)
    except SurelabelError as error:
        console.tell(f"note: the report shows no samples of {run.path}: {error}")
        return None
