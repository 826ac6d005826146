"""`surelabel resume`: resume an interrupted run."""

import time
from typing import Annotated

import typer

from surelabel import console
from surelabel.cli.fit import Log, report, saying_how_to_resume
from surelabel.cli.help_texts import choices_text
from surelabel.cli.options import Json, Run, Trust, app
from surelabel.overrides import parsed_assignment


@app.command()
def resume(
    run: Run,
    device: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"Train on {choices_text('train.device')}. Default: as before"),
    ] = None,
    devices: Annotated[
        int | None, typer.Option(metavar="N", help="Number of processes that train together. Default: as before")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="CPU threads per process. Default: as before")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Change optimiser.rate, optimiser.clip or method.rate for the rest of the run. May be repeated.",
        ),
    ] = None,
    log: Log = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Resume an interrupted run, on this or another machine."""
    from surelabel import api
    from surelabel.runs.run_dir import RunDir
    from surelabel.training.tracking import tracked

    named = {"train.device": device, "train.devices": devices, "train.threads": threads}
    settings = {name: value for name, value in named.items() if value is not None}
    settings |= dict(map(parsed_assignment, set_ or []))
    opened = RunDir(run)
    if not opened.has_begun or opened.is_prepared:
        opened.check_schema()
    if opened.is_done:
        console.tell(f"note: {run} has already ended; nothing is left to do")
    began = time.perf_counter()
    config = opened.config()
    with (
        saying_how_to_resume(run),
        console.progress(config.method.name) as bar,
        tracked(log or [], run, config, bar) as progress,
    ):
        api.resume(opened, progress=progress, settings=settings, trust=trust)
    report(opened, time.perf_counter() - began, json)
