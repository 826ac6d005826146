"""`surelabel fit`, `surelabel resume`, and `surelabel plan`, which says before what they would do."""

import itertools
import time
from pathlib import Path
from typing import Annotated

import typer

from surelabel import screen
from surelabel.cli.application import Device, Devices, Json, Run, Threads, Trust, app
from surelabel.cli.planned import say_plan
from surelabel.cli.settings import takes_settings
from surelabel.cli.stopping import saying_how_to_resume
from surelabel.cli.summary import report
from surelabel.config import RunConfig
from surelabel.overrides import parsed_assignment

Log = Annotated[
    list[str] | None, typer.Option("--log", metavar="NAME", help="tensorboard or wandb, beside RUN/metrics.jsonl.")
]


@app.command()
@takes_settings
def fit(
    settings: RunConfig,
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="New run directory. Default: runs/DATA-METHOD-NUMBER")
    ] = None,
    log: Log = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, as `plan` does.")] = False,
    json: Json = False,
) -> None:
    """Train on labels that may be wrong, and judge every one of them."""
    if dry_run:
        say_plan(settings, json)
    else:
        _fit(settings, out or _free_folder(settings), log or [], json)


@app.command()
@takes_settings
def plan(settings: RunConfig, json: Json = False) -> None:
    """Say what fit would train on, find duplicates, and estimate memory and time from a few steps; nothing is kept."""
    say_plan(settings, json)


def _free_folder(settings: RunConfig) -> Path:
    name = f"{Path(settings.data.source).resolve().stem}-{settings.method.name}"
    candidates = (Path("runs") / f"{name}-{number}" for number in itertools.count(1))
    return next(path for path in candidates if not path.exists())


def _fit(settings: RunConfig, out: Path, log: list[str], json: bool) -> None:
    from surelabel import api
    from surelabel.training.tracking import tracked

    began = time.perf_counter()
    with (
        saying_how_to_resume(out),
        screen.progress(settings.method.name) as bar,
        tracked(log, out, settings, bar) as progress,
    ):
        run = api.fit(settings, out, progress=progress)
    report(run, time.perf_counter() - began, json)


@app.command()
def resume(
    run: Run,
    device: Device = None,
    devices: Devices = None,
    threads: Threads = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="optimiser.rate or optimiser.clip.")
    ] = None,
    log: Log = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Go on with a run that was stopped; it may go on elsewhere than it began."""
    from surelabel import api
    from surelabel.runs.run_dir import RunDir
    from surelabel.training.tracking import tracked

    named = {"train.device": device, "train.devices": devices, "train.threads": threads}
    settings = {name: value for name, value in named.items() if value is not None}
    settings |= dict(map(parsed_assignment, set_ or []))
    opened = RunDir.open(run)
    if opened.is_done:
        screen.tell(f"note: {run} has already ended; nothing is left to do")
    began = time.perf_counter()
    config = opened.config()
    with (
        saying_how_to_resume(run),
        screen.progress(config.method.name) as bar,
        tracked(log or [], run, config, bar) as progress,
    ):
        api.resume(opened, progress=progress, settings=settings, trust=trust)
    report(opened, time.perf_counter() - began, json)
