"""`surelabel reproduce`: train the runs of a table or figure of the paper."""

import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surelabel import console
from surelabel.cli.backends import Ray, Workers, make_backend
from surelabel.cli.options import Json, app
from surelabel.errors import DataError, SurelabelError

if TYPE_CHECKING:
    from surelabel.jobs import Backend, Outcome
    from surelabel.paper.results import Table
    from surelabel.paper.tables import Trial

CHOICES = "table1, table2, table3, ablation, strategies, correction, memorisation, confidence or sensitivity"
"""The presets, in words because their modules load PyTorch."""


@dataclass(frozen=True)
class Request:
    """What to reproduce, and where."""

    name: str
    scale: str
    protocol: str
    car: str
    only: str | None
    data: Path | None
    folder: Path

    def trials(self, filtered: bool = True) -> "list[Trial]":
        """Return the trials that were asked for, or all those of the table."""
        from surelabel.paper.tables import parse_only, plan_trials

        only = parse_only(self.only) if self.only and filtered else None
        versions = {"scale": self.scale, "protocol": self.protocol, "car": self.car}
        return plan_trials(self.name, **versions, only=only, data=self.data, folder=self.folder)

    def table(self, filtered: bool = True) -> "Table":
        """Return the results of the trials that were asked for, or of the whole published table."""
        from surelabel.paper.results import make_table

        return make_table(
            self.name,
            self.trials(filtered),
            self.folder,
            scale=self.scale,
            protocol=self.protocol,
            car=self.car,
            with_unplanned=not filtered and self.scale == "paper",
        )

    @property
    def tables_folder(self) -> Path:
        """The folder of the tables; each protocol has its own, and so has CAR as in its code."""
        from surelabel.paper.tables import find_preset

        default, *_ = find_preset(self.name).protocols
        parts = ["" if self.protocol == default else self.protocol, "" if self.car == "paper" else f"car-{self.car}"]
        return self.folder.joinpath("tables", *parts)


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"What to reproduce: {CHOICES}.")],
    scale: Annotated[
        str, typer.Option(metavar="SCALE", help="Size of the data and of the runs: paper, small or tiny.")
    ] = "paper",
    protocol: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="How methods are trained: car (all alike) or original (as each was published)."
        ),
    ] = "car",
    car: Annotated[
        str,
        typer.Option(metavar="NAME", help="Version of CAR: paper (as in its text) or code (as in its authors' code)."),
    ] = "paper",
    only: Annotated[
        str | None,
        typer.Option(
            metavar="KEY=VALUE,...", help="Run only some cells, such as method=car,noise=symmetric:0.4. Default: all"
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="ROOT", help="Folder that contains one folder per data set.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder for runs and tables, which share identical runs. Default: reproduction/SCALE"
        ),
    ] = None,
    workers: Workers = None,
    ray: Ray = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs without training.")] = False,
    json: Json = False,
) -> None:
    """Train the runs of a table or figure of the paper; show the published numbers beside ours.

    Runs that are done are skipped, and interrupted ones are resumed.
    """
    # Absolute paths, because the workers of a cluster run in another folder.
    folder = (out or Path("reproduction") / scale).absolute()
    request = Request(name, scale, protocol, car, only, data.absolute() if data is not None else None, folder)
    trials, backend = request.trials(), make_backend(workers, ray)
    if dry_run:
        _show_plan(request, trials, json)
        return
    _check_tables(request)
    from surelabel.jobs import claimed

    began = time.perf_counter()
    with claimed(request.folder):
        outcome = _run(request, trials, backend)
        written = _write_tables(request)
    _report(request, outcome, written, time.perf_counter() - began, json)
    if not outcome.is_complete:
        raise typer.Exit(1)


def _run(request: Request, trials: "list[Trial]", backend: "Backend") -> "Outcome":
    from surelabel.jobs import run_all, show_progress

    try:
        failed = _prepare(request, trials)
        with show_progress(console.tell) as progress:
            ready = [trial for trial in trials if trial.name not in failed]
            outcome = run_all(ready, request.folder, backend=backend, progress=progress)
        outcome.failed |= failed
        return outcome
    except KeyboardInterrupt:
        _write_tables(request)
        console.tell(
            f"stopped; the states are saved. Resume with the same command. Tables so far: {request.tables_folder}"
        )
        raise typer.Exit(130) from None


def _prepare(request: Request, trials: "list[Trial]") -> dict[str, str]:
    """Make the data that runs still need; return why any of them has none, by name."""
    from surelabel.paper.prepare_data import prepare

    waiting = [trial for trial in trials if _state(request, trial)[0] in ("new", "begun")]
    failures = prepare(request.scale, request.data, request.folder, waiting, console.tell)
    if failures and all(trial.name in failures for trial in trials):
        raise DataError(next(iter(failures.values())))
    return failures


def _write_tables(request: Request) -> list[Path]:
    """Write the whole table, even if a part was asked for; cells that were not run stay empty."""
    from surelabel.paper.result_formats import write_table

    return write_table(request.table(filtered=False), request.tables_folder)


def _check_tables(request: Request) -> None:
    from surelabel.files import refuse_overwriting
    from surelabel.paper.result_formats import table_files

    refuse_overwriting(table_files(request.name, request.tables_folder), option="--out")


def _report(request: Request, outcome: "Outcome", written: list[Path], seconds: float, json: bool) -> None:
    table = request.table()
    if json:
        counts = {"done": len(outcome.done), "skipped": len(outcome.skipped), "failed": outcome.failed}
        entries = [_entry(table, entry) for entry in table.entries]
        more = {"folder": request.folder, "runs": counts, "entries": entries, "tables": written, "seconds": seconds}
        asked = {"name": request.name, "scale": request.scale, "protocol": request.protocol, "car": request.car}
        console.say_json({**asked, **more})
        return
    from surelabel.paper.result_formats import to_markdown

    console.say(to_markdown(table))
    console.say(f"{len(outcome.done)} runs done in {seconds:.0f} s, {len(outcome.skipped)} were done before")
    console.say(f"Tables: {', '.join(map(str, written))}")
    for name, reason in outcome.failed.items():
        console.tell(f"failed: {name}: {reason}")


def _entry(table: "Table", entry: Any) -> dict[str, Any]:
    ours = {rule: None if found is None else asdict(found) for rule, found in entry.summaries.items()}
    theirs = [{"mean": one.mean, "std": one.std, "protocol": one.protocol} for one in entry.published]
    result = {"ours": ours, "published": theirs, "difference": entry.difference(table.rule)}
    return {"cell": dict(entry.cell), "measure": entry.measure.key, **result}


def _state(request: Request, trial: "Trial") -> tuple[str, str]:
    """Return new, begun, done or refused, and the reason for a refusal."""
    from surelabel.jobs import find_state

    try:
        return find_state(trial, request.folder / "runs" / trial.name), ""
    except SurelabelError as error:
        return "refused", str(error)


def _show_plan(request: Request, trials: "list[Trial]", json: bool) -> None:
    """Show the runs, and how much of each is done."""
    rows = [_describe_run(request, trial) for trial in {trial.name: trial for trial in trials}.values()]
    states = Counter(row["state"] for row in rows)
    totals = {"epochs": sum(row["epochs"] for row in rows), "epochs_left": sum(row["epochs_left"] for row in rows)}
    if json:
        counts = {state: states[state] for state in ("new", "begun", "done", "refused")}
        console.say_json({"folder": request.folder, "num_runs": len(rows), **counts, **totals, "runs": rows})
        return
    console.say_table(("run", "state", "epochs", "left"), [list(row.values())[:4] for row in rows])
    console.say()
    shown = ", ".join(f"{count} {state}" for state, count in states.items()) or "none"
    console.say(
        f"{len(rows)} runs ({shown}), {totals['epochs']} epochs, {totals['epochs_left']} left, in {request.folder}"
    )
    for row in rows:
        if row["problem"]:
            console.tell(f"refused: {row['problem']}")


def _describe_run(request: Request, trial: "Trial") -> dict[str, Any]:
    from surelabel.runs.run_dir import RunDir

    state, problem = _state(request, trial)
    epochs = trial.config.train.epochs
    trained = len(RunDir(request.folder / "runs" / trial.name).metrics()) if state == "begun" else 0
    left = {"new": epochs, "begun": max(0, epochs - trained)}.get(state, 0)
    about = {"problem": problem, "cell": dict(trial.cell), "seed": trial.seed}
    return {"name": trial.name, "state": state, "epochs": epochs, "epochs_left": left, **about}
