"""`surelabel fit`, and what it shares with `resume`: logs, interruption and the final summary."""

import contextlib
import itertools
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surelabel import console, launcher
from surelabel.cli.audit import NUM_SHOWN, say_findings, say_plans, say_ranked
from surelabel.cli.options import Json, app, takes_settings
from surelabel.cli.plan import say_plan
from surelabel.config import RunConfig
from surelabel.errors import ConfigError, RunError, describe_os_error

if TYPE_CHECKING:
    from surelabel.runs.run_dir import RunDir
    from surelabel.verdicts import Audit

Log = Annotated[
    list[str] | None,
    typer.Option("--log", metavar="NAME", help="Also log to tensorboard or wandb. May be repeated. Default: neither"),
]


@app.command()
@takes_settings
def fit(
    settings: RunConfig,
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="New run directory. Default: runs/DATA-METHOD-NUMBER")
    ] = None,
    log: Log = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, as `plan` does, without training.")
    ] = False,
    json: Json = False,
) -> None:
    """Train on labels that may be wrong, and judge every one of them."""
    if dry_run:
        say_plan(settings, json)
    elif out is not None:
        _fit(settings, out, log or [], json)
    else:
        with _new_folder(settings) as free:
            _fit(settings, free, log or [], json)


@contextlib.contextmanager
def _new_folder(settings: RunConfig) -> Iterator[Path]:
    """Create runs/DATA-METHOD-NUMBER with the first free number; remove it if it stays empty."""
    if launcher.started_as()[1] > 1:
        raise ConfigError("--out is missing: the processes that torchrun starts must name the same run directory")
    name, runs = f"{Path(settings.data.source).resolve().stem}-{settings.method.name}", Path("runs")
    candidates = (runs / f"{name}-{number}" for number in itertools.count(1))
    made = [] if runs.exists() else [runs]
    made.append(next(path for path in candidates if _create(path)))
    sys.argv += ["--out", str(made[-1])]  # for further processes, which --devices starts with these arguments
    try:
        yield made[-1]
    finally:
        del sys.argv[-2:]
        with contextlib.suppress(OSError):
            for path in reversed(made):
                path.rmdir()


def _create(folder: Path) -> bool:
    """Create a folder; return False if it exists, as when another process has just created it."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return False
    return True


def _fit(settings: RunConfig, out: Path, log: list[str], json: bool) -> None:
    from surelabel import api
    from surelabel.training.tracking import tracked

    began = time.perf_counter()
    with (
        saying_how_to_resume(out),
        console.progress(settings.method.name) as bar,
        tracked(log, out, settings, bar) as progress,
    ):
        run = api.fit(settings, out, progress=progress)
    report(run, time.perf_counter() - began, json)


@contextlib.contextmanager
def saying_how_to_resume(run: Path | None) -> Iterator[None]:
    """Turn an interrupted run into a message and the exit code that shells expect of the signal."""
    from surelabel.core.collective import world_size
    from surelabel.engine.loop import Interrupted
    from surelabel.runs.run_dir import RunDir

    try:
        yield
    except OSError as error:
        if run is None or not RunDir(run).is_prepared:
            raise
        raise RunError(f"{describe_os_error(error)}; what was saved is intact, {_resume_hint(run)}") from error
    except KeyboardInterrupt as error:
        console.tell("stopped" if run is None else _describe_stop(RunDir(run), isinstance(error, Interrupted)))
        # A launcher kills all processes if one fails: of those that agree to stop, only rank 0 may.
        is_follower = launcher.has_nonzero_rank() and world_size() > 1
        raise typer.Exit(0 if is_follower else 128 + (error.args[0] if error.args else signal.SIGINT)) from None


def _describe_stop(run: "RunDir", is_saved: bool) -> str:
    """Say what an interrupted run has left; `is_saved` unless a second Ctrl-C came before that."""
    if not run.has_begun:
        return "stopped; nothing was written"
    state = "the state is saved" if run.state_file.exists() else "training had not begun"
    if not is_saved:
        state = "what was saved before is intact"
    return f"stopped; {state}. {_resume_hint(run.path).capitalize()}"


def _resume_hint(run: Path) -> str:
    return f"resume with: surelabel resume {shlex.quote(str(run))}"


def report(run: "RunDir", seconds: float, json: bool) -> None:
    """Print the summary of a finished run."""
    if launcher.has_nonzero_rank():
        return
    from surelabel.runs.run_dir import METRICS_FILE
    from surelabel.verdicts import audit

    rows, table = run.metrics(), audit(run)
    if not rows:
        raise RunError(f"{run.path / METRICS_FILE}: holds no epoch of this finished run; restore it from a copy")
    tested = [next(iter(row["tests"].values()))["top1"] for row in rows if row.get("tests")]
    result = {
        "run": run.path,
        "method": run.config().method.name,
        "epochs": rows[-1]["epoch"],
        "test_accuracy": tested[-1] if tested else None,
        "best_test_accuracy_oracle": max(tested, default=None),
        "measures": table.measures() or None,
        "rows": len(table),
        "suspicious": table.num_suspicious,
        "worth_a_look": table.worth_a_look.to_dict(),
        "noise_rate": table.noise_rate.rate,
        "noise_interval": table.noise_rate.interval,
        "seconds": seconds,
    }
    if json:
        console.say_json(result)
    else:
        _summarise(result, table, run)


def _summarise(result: dict[str, Any], table: "Audit", run: "RunDir") -> None:
    console.say(f"\n{result['run']}: {result['method']}, {result['epochs']} epochs, {result['seconds']:.0f} s")
    if result["test_accuracy"] is not None:
        best = f"best epoch {result['best_test_accuracy_oracle']:.3f}, known only with the test labels"
        console.say(f"Test accuracy: {result['test_accuracy']:.3f} in the last epoch ({best})")
    else:
        console.say("Test accuracy: unknown; give test data with --test, or --set data.test_fraction=0.2")
    say_findings(table)
    say_plans(table.budgets(), table)
    console.say("\nThe most suspicious:")
    say_ranked(table, NUM_SHOWN)
    path = shlex.quote(str(run.path))
    console.say(f"\nNext:\n  surelabel report {path}     a page to look at")
    console.say(f"  surelabel review {path}     go through the suspects")
    console.say(f"  surelabel export {path}     the cleaned labels")
