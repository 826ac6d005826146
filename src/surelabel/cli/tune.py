"""`surelabel tune`: choose the options of a method by held-out labels."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surelabel import console
from surelabel.cli.backends import Ray, Workers, make_backend
from surelabel.cli.options import Json, app, takes_settings
from surelabel.config import RunConfig
from surelabel.errors import ConfigError
from surelabel.overrides import parsed_assignment

if TYPE_CHECKING:
    from surelabel.jobs import Backend
    from surelabel.tuning import Tuning


@app.command()
@takes_settings
def tune(
    settings: RunConfig,
    config: Path | None,
    try_: Annotated[
        list[str] | None,
        typer.Option(
            "--try", metavar="OPTION=VALUE,VALUE", help="Values to try instead of the published ones. May be repeated."
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(metavar="MINUTES", help="Start no new run after this many minutes. Default: no limit"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of runs, table and best.yaml. Default: tuning/DATA-METHOD"),
    ] = None,
    workers: Workers = None,
    ray: Ray = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the candidates and the cost without training.")
    ] = False,
    json: Json = False,
) -> None:
    """Try a method's published options, and keep those that predict held-out labels best.

    No clean label is used. The same command resumes a search that was stopped.
    """
    values = _parse_values(try_ or [])
    backend = make_backend(workers, ray)
    folder = (out or Path("tuning") / f"{Path(settings.data.source).resolve().stem}-{settings.method.name}").absolute()
    if dry_run:
        _show_plan(settings, values, json)
        return
    _check_folder(folder, settings, config)
    began = time.perf_counter()
    tuning = _run(settings, folder, values, backend, budget)
    _report(tuning, time.perf_counter() - began, json)
    if tuning.chosen is None:
        raise typer.Exit(1)


def _parse_values(assignments: list[str]) -> dict[str, list[Any]] | None:
    """Parse OPTION=VALUE,VALUE; the method's name before the option may be left out."""
    found = {}
    for assignment in assignments:
        name, sign, text = assignment.partition("=")
        option = name.strip().removeprefix("method.")
        if not sign or not option or not text.strip():
            raise ConfigError(f"--try {assignment}: expected OPTION=VALUE,VALUE, for example penalty_weight=0.5,2")
        found[option] = parsed_assignment(f"{option}=[{text}]")[1]
    return found or None


def _check_folder(folder: Path, settings: RunConfig, config: Path | None) -> None:
    from surelabel.data.protected_files import list_configured_files
    from surelabel.files import refuse_overwriting
    from surelabel.tuning.search import result_files

    inputs = [*list_configured_files(settings), *([config] if config else [])]
    refuse_overwriting(result_files(folder), inputs, "--out")


def _run(
    settings: RunConfig,
    folder: Path,
    values: dict[str, list[Any]] | None,
    backend: "Backend",
    budget: float | None,
) -> "Tuning":
    from surelabel.jobs import show_progress
    from surelabel.tuning import tune

    try:
        with show_progress(console.tell) as progress:
            return tune(settings, folder, candidates=values, backend=backend, budget=budget, progress=progress)
    except KeyboardInterrupt:
        console.tell("stopped; the states are saved. Resume with the same command")
        raise typer.Exit(130) from None


def _report(tuning: "Tuning", seconds: float, json: bool) -> None:
    from surelabel.tuning import list_rows, write_results
    from surelabel.tuning.report import format_cells

    written = write_results(tuning)
    if json:
        rows = list_rows(tuning)
        about = {"folder": tuning.folder, "chosen": tuning.chosen, "is_complete": tuning.is_complete}
        options = None if tuning.chosen is None else tuning.best.method.options
        console.say_json({**about, "options": options, "candidates": rows, "files": written, "seconds": seconds})
        return
    columns = ("candidate", "rung", "accuracy", "behind", "gap", "minutes", "state")
    console.say_table(columns, format_cells(tuning), wrap=True)
    console.say_prose(
        "\nAccuracy in percent on held-out given labels, ± standard error; behind: the chosen one's lead on the same "
        "rows; gap: how much better labels are predicted that were trained on."
    )
    console.say(f"Files: {', '.join(map(str, written))}")
    if not tuning.is_complete:
        console.tell("the budget is used up; the same command resumes the search")
    if tuning.chosen is None:
        console.tell("no candidate was trained to its end")
    else:
        console.say(f"\nNext:\n  surelabel fit --config {shlex.quote(str(written[-1]))}")


def _show_plan(settings: RunConfig, values: dict[str, list[Any]] | None, json: bool) -> None:
    from surelabel.methods import find
    from surelabel.tuning import count_runs, list_candidates, plan_rungs

    found = list_candidates(settings, values)
    sizes, cost = plan_rungs(len(found)), count_runs(len(found))
    source = find(settings.method.name).candidates.source if values is None else ""
    if json:
        options = [dict(candidate.options) for candidate in found]
        console.say_json({"candidates": options, "source": source, "rungs": sizes, "cost_in_runs": cost})
        return
    for candidate in found:
        console.say(str(candidate))
    shown = ", ".join(map(str, sizes))
    console.say()
    if source:
        console.say_prose(source)
    console.say(f"{len(found)} candidates in rungs of {shown}: the cost of {cost:.1f} runs")
