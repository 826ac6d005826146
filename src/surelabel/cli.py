"""The command `surelabel`. PyTorch and other heavy packages are imported inside the commands: --help is quick."""

import contextlib
import itertools
import logging
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
import typer.core

import surelabel
from surelabel import screen
from surelabel.config import RunConfig, parsed_assignment, read_config, set_field, validated
from surelabel.errors import ConfigError, SurelabelError
from surelabel.processes import is_further_process

if TYPE_CHECKING:
    from surelabel.runs import RunDir
    from surelabel.verdicts import Audit

NUM_SHOWN = 5
"""Rows that `fit` and `predict` show."""
AUDIT_COLUMNS = ("rank", "id", "given", "suggested", "quality", "suggested_probability", "tau")
"""What of the ranked table fits on a screen."""


class OneLineErrors(typer.core.TyperGroup):
    """Commands whose errors, where the user can mend them, are one line on stderr and exit code 2."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and exit."""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except SurelabelError as error:
            code = _failed(str(error))
        except OSError as error:
            code = _failed(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except typer.Abort:
            code = 130
        except Exception as error:
            # A usage error: its class lives in click or in typer's own copy of it, by version.
            if not hasattr(error, "format_message"):
                raise
            command = getattr(getattr(error, "ctx", None), "command_path", "surelabel")
            code = _failed(f"{error.format_message().rstrip('.')}; see: {command} --help")
        sys.exit(code if isinstance(code, int) else 0)


def _failed(text: str) -> int:
    screen.tell(f"error: {' '.join(text.split())}")
    return 2


app = typer.Typer(
    cls=OneLineErrors,
    help="Train on wrong labels, find them, correct them.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value, last on stdout.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.", show_default=False)]
Trust = Annotated[bool, typer.Option("--trust", help="Import a method that is not part of surelabel.")]
Device = Annotated[str | None, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps.")]
Devices = Annotated[int | None, typer.Option(metavar="N", help="Processes that train together.")]
Threads = Annotated[int | None, typer.Option(metavar="N", help="CPU threads of each process.")]


def main() -> None:
    """The console entry point."""
    app(prog_name="surelabel")


@app.callback(invoke_without_command=True)
def _begin(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    if version or context.invoked_subcommand is None:
        screen.say(f"surelabel {surelabel.__version__}" if version else context.get_help())
        raise typer.Exit
    log = logging.getLogger("surelabel")
    log.handlers, log.propagate = [screen.Notes()], False


@app.command()
def demo(
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="Of weights, order and noise.")] = 0,
    epochs: Annotated[int | None, typer.Option(metavar="N", min=1, help="Fewer end sooner and show less.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the two runs in this new folder.")] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to draw. Default: surelabel-demo/memorisation.png")
    ] = None,
    json: Json = False,
) -> None:
    """Show the effect: cross entropy and CAR on digits with 40 % wrong labels, in less than a minute."""
    from surelabel import demo

    figure = figure or (out or Path("surelabel-demo")) / "memorisation.png"
    demo.check_places(out, figure)
    epochs = epochs or demo.EPOCHS
    runs, results = {}, {}
    with contextlib.ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="surelabel-demo-")))
        stack.enter_context(_saying_how_to_resume(None))
        with screen.progress() as progress:
            for method in demo.METHODS:
                progress.title = demo.SHOWN_NAMES[method]
                runs[method] = demo.train(method, folder / method, seed, epochs, progress)
                results[method] = demo.figures(runs[method])
        noise = demo.noise_rate(runs["car"])
        demo.draw(runs, figure)
        memorised = {method: demo.memorised_over_epochs(run) for method, run in runs.items()}
    if json:
        screen.say_json({**results, "seed": seed, "noise": noise, "epochs": epochs, "figure": figure})
        return
    _show_demo(results, memorised, noise)
    screen.say(f"Figure: {figure}" + (f"   Runs: {out}" if out else ""))


def _show_demo(results: dict[str, dict[str, float]], memorised: dict[str, Any], noise: float) -> None:
    from surelabel import demo

    screen.say()
    names = [demo.SHOWN_NAMES[method] for method in results]
    rows = [(text, *(figures[key] for figures in results.values())) for key, text in demo.SHOWN_FIGURES.items()]
    screen.say_table(("", *names), rows)
    if screen.is_terminal():
        screen.say("\nWrong labels that the network repeats, from the first epoch to the last:")
        for method, shares in memorised.items():
            screen.say(f"  {demo.SHOWN_NAMES[method]:14s} {screen.sparkline(shares)}  {100 * shares[-1]:.0f} %")
    screen.say()
    for sentence in demo.story(results, noise):
        screen.say_prose(sentence)
    screen.say()


@app.command()
def fit(
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="digits, an .npz file, a folder of class folders, or a .csv table."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="New run directory. Default: runs/DATA-METHOD-NUMBER")
    ] = None,
    method: Annotated[
        str | None, typer.Option(metavar="NAME", help="As `surelabel methods` lists them. Default: car")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="auto, mlp, cnn, resnet18 or resnet34.")] = None,
    epochs: Annotated[int | None, typer.Option(metavar="N", help="Epochs of the whole run.")] = None,
    batch_size: Annotated[int | None, typer.Option(metavar="N", help="Rows of a batch.")] = None,
    rate: Annotated[float | None, typer.Option(metavar="X", help="Highest learning rate.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Of weights, order, augmentation and noise.")] = None,
    noise: Annotated[
        str | None,
        typer.Option(metavar="KIND:RATE", help="Inject noise: symmetric:0.4, symmetric:0.4:include, pair:0.3."),
    ] = None,
    test: Annotated[str | None, typer.Option(metavar="PATH", help="Test data of the same kind.")] = None,
    device: Device = None,
    devices: Devices = None,
    threads: Threads = None,
    precision: Annotated[str | None, typer.Option(metavar="P", help="32-true, bf16-mixed or 16-mixed.")] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings as YAML; options go over them.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Any setting, e.g. method.penalty_weight=10; goes over all."),
    ] = None,
    json: Json = False,
) -> None:
    """Train on labels that may be wrong, and judge every one of them."""
    content: dict[str, Any] = {} if config is None else read_config(config)
    named = {
        "data.source": data,
        "data.test": test,
        "train.epochs": epochs,
        "train.batch_size": batch_size,
        "optimiser.rate": rate,
        "train.seed": seed,
        "noise": None if noise is None else _noise(noise),
        "train.device": device,
        "train.devices": devices,
        "train.threads": threads,
        "train.precision": precision,
    }
    _choose(content, "method", method)
    _choose(content, "model", model)
    for field, value in named.items():
        if value is not None:
            set_field(content, field, value)
    for assignment in set_ or []:
        set_field(content, *parsed_assignment(assignment))
    settings = _whole(content)
    _fit(settings, out or _free_folder(settings), json)


def _choose(content: dict[str, Any], part: str, name: str | None) -> None:
    """Take another method or model than the file's, whose options are then not its own."""
    before, default = content.get(part), RunConfig.model_fields[part].default.name
    if name is not None and name != (before.get("name", default) if isinstance(before, dict) else before):
        content[part] = name


def _noise(text: str) -> dict[str, Any]:
    """`KIND:RATE`, and `:include` for symmetric noise that draws from all classes."""
    kind, _, rest = text.partition(":")
    rate, _, mode = rest.partition(":")
    if kind in ("asymmetric", "matrix"):
        rate = f"noise.rate={rate or 0.3}"
        more = (
            [rate, '"noise.class_map={cat: dog}"']
            if kind == "asymmetric"
            else ['"noise.matrix=[[0.9, 0.1], [0.2, 0.8]]"']
        )
        fields = " ".join(f"--set {field}" for field in (f"noise.kind={kind}", *more))
        raise ConfigError(f"--noise {text}: {kind} noise needs more: {fields}")
    if kind not in ("symmetric", "pair") or mode not in ("", "include") or (mode and kind != "symmetric"):
        raise ConfigError(f"--noise {text}: expected symmetric:RATE, symmetric:RATE:include or pair:RATE")
    try:
        return {"kind": kind, "rate": float(rate), "include_true_class": mode == "include"}
    except ValueError:
        raise ConfigError(f"--noise {text}: {rate!r} is not a rate; expected a number in 0..1") from None


def _whole(content: dict[str, Any]) -> RunConfig:
    """All settings, checked as far as that goes without the data."""
    data = content.get("data")
    if data is None or (isinstance(data, dict) and data.get("source") is None):
        raise ConfigError("DATA is missing: name a data set or a path, or give --config FILE with data.source")
    return validated(content)


def _free_folder(settings: RunConfig) -> Path:
    name = f"{Path(settings.data.source).resolve().stem}-{settings.method.name}"
    candidates = (Path("runs") / f"{name}-{number}" for number in itertools.count(1))
    return next(path for path in candidates if not path.exists())


def _fit(settings: RunConfig, out: Path, json: bool) -> None:
    from surelabel import api

    began = time.perf_counter()
    with _saying_how_to_resume(out), screen.progress(settings.method.name) as progress:
        run = api.fit(settings, out, progress=progress)
    _report(run, time.perf_counter() - began, json)


@app.command()
def resume(
    run: Run,
    device: Device = None,
    devices: Devices = None,
    threads: Threads = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="optimiser.rate or optimiser.clip.")
    ] = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Go on with a run that was stopped; it may go on elsewhere than it began."""
    from surelabel import api
    from surelabel.runs import RunDir

    named = {"train.device": device, "train.devices": devices, "train.threads": threads}
    settings = {name: value for name, value in named.items() if value is not None}
    settings |= dict(map(parsed_assignment, set_ or []))
    opened = RunDir.open(run)
    if opened.is_done:
        screen.tell(f"note: {run} has already ended; nothing is left to do")
    began = time.perf_counter()
    with _saying_how_to_resume(run), screen.progress(opened.config().method.name) as progress:
        api.resume(opened, progress=progress, settings=settings, trust=trust)
    _report(opened, time.perf_counter() - began, json)


@contextlib.contextmanager
def _saying_how_to_resume(run: Path | None) -> Iterator[None]:
    """Turn a run that was asked to stop into a line and the exit code that shells expect of the signal."""
    from surelabel.engine.fit import Interrupted

    try:
        yield
    except Interrupted as error:
        screen.tell("stopped" if run is None else f"stopped; the state is saved. Go on with: surelabel resume {run}")
        # The launcher kills everybody when a further process fails: only the first one tells the shell.
        raise typer.Exit(
            0 if is_further_process() else 128 + (error.args[0] if error.args else signal.SIGINT)
        ) from None


def _report(run: "RunDir", seconds: float, json: bool) -> None:
    """What `fit` and `resume` say in the end."""
    if is_further_process():
        return
    from surelabel.verdicts import audit

    table, rows = audit(run), run.metrics()
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
        "seconds": seconds,
    }
    if json:
        screen.say_json(result)
    else:
        _summarise(result, table, run)


def _summarise(result: dict[str, Any], table: "Audit", run: "RunDir") -> None:
    screen.say(f"\n{result['run']}: {result['method']}, {result['epochs']} epochs, {result['seconds']:.0f} s")
    if result["test_accuracy"] is not None:
        best = f"best epoch {result['best_test_accuracy_oracle']:.3f}, known only with the test labels"
        screen.say(f"Test accuracy: {result['test_accuracy']:.3f} in the last epoch ({best})")
    else:
        screen.say("Test accuracy: unknown; give test data with --test, or --set data.test_fraction=0.2")
    _say_suspicious(table)
    _say_measures(table)
    screen.say("\nThe most suspicious:")
    _say_ranked(table, NUM_SHOWN)
    screen.say(f"\nNext:\n  surelabel audit {run.path}           all labels, ranked, as csv")
    screen.say(f"  surelabel predict {run.path} DATA    classes of new data")


def _say_suspicious(table: "Audit") -> None:
    screen.say(f"Labels that look wrong: {table.num_suspicious} of {len(table)} (quality below 0.5)")
    if 2 * table.num_suspicious > len(table):
        screen.say_prose(
            "That is more than half. Perhaps the network has not learned the classes yet: train longer first."
        )


def _say_measures(table: "Audit") -> None:
    """How good the verdict is, where the truth is known."""
    measured = table.measures()
    if measured:
        ranked = f"AUROC of quality {measured['quality_auroc']:.3f}; " if "quality_auroc" in measured else ""
        wrong, right = measured["wrong_labels"], measured["suggested_accuracy"]
        text = f"The true labels are known here: {wrong:.1%} are wrong; {ranked}suggestions are right in {right:.1%}"
        screen.say_prose(text.replace("%", " %"))


def _say_ranked(table: "Audit", count: int) -> None:
    has_tau = any(row["tau"] == row["tau"] for row in table.head(1))
    columns = [name for name in AUDIT_COLUMNS if name != "tau" or has_tau] + ["clean"] * ("clean" in table.columns)
    shown = [name.replace("suggested_probability", "p(suggested)") for name in columns]
    screen.say_table(shown, [[row[name] for name in columns] for row in table.head(count)])


@app.command()
def predict(
    run: Run,
    data: Annotated[str, typer.Argument(metavar="DATA", help="Inputs like those of the run; labels are not needed.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Where to write. Default: RUN/predictions-DATA.csv")
    ] = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Classes, probabilities and confidence (tau) of new data."""
    from surelabel import api
    from surelabel.predictions import FIXED_COLUMNS, class_column, predictions, write_csv
    from surelabel.runs import RunDir

    model, file = api.load(run, trust=trust), _file(out, run / f"predictions-{Path(data).resolve().stem}.csv")
    columns = predictions(model, data)
    RunDir(file.parent).write(file.name, lambda path: write_csv(path, columns))
    num_rows, classes = len(columns["id"]), [class_column(name) for name in model.class_names]
    head = [{name: values[row] for name, values in columns.items()} for row in range(min(NUM_SHOWN, num_rows))]
    if json:
        screen.say_json({"csv": file, "rows": num_rows, "classes": model.class_names, "head": head})
        return
    shown = [name for name in FIXED_COLUMNS if name in columns]
    rows = [[*(row[name] for name in shown), max(row[name] for name in classes)] for row in head]
    screen.say_table([*shown, "probability"], rows)
    screen.say(f"{num_rows} rows, with a probability for each of {len(classes)} classes: {file}")


def _file(out: Path | None, default: Path) -> Path:
    """Where to write, if that is possible."""
    file = out or default
    if file.is_dir() or not file.parent.is_dir():
        fault = "is a folder" if file.is_dir() else f"there is no folder {file.parent}"
        raise ConfigError(f"--out {file}: {fault}; expected FILE.csv in a folder that exists")
    return file


@app.command()
def audit(
    run: Run,
    out: Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Where to write. Default: RUN/audit.csv")] = None,
    top: Annotated[int, typer.Option(metavar="N", min=0, help="Rows to show.")] = 20,
    json: Json = False,
) -> None:
    """All labels of a finished run, the most suspicious first."""
    from surelabel.runs import RunDir
    from surelabel.verdicts import audit

    table, file = audit(run), _file(out, run / "audit.csv")
    RunDir(file.parent).write(file.name, table.to_csv)
    if json:
        screen.say_json(
            {"csv": file, "rows": len(table), "measures": table.measures() or None, "top": list(table.head(top))}
        )
        return
    _say_ranked(table, top)
    screen.say()
    _say_suspicious(table)
    _say_measures(table)
    screen.say(f"All {len(table)} rows: {file}")


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show this one with its options.")] = None,
    json: Json = False,
) -> None:
    """The training methods there are, or one of them with its options."""
    from surelabel.catalogue import described
    from surelabel.methods import names

    found = [described(one) for one in (names() if name is None else [name])]
    if json:
        screen.say_json(found)
    elif name is None:
        _say_methods(found)
        screen.say("Options of one: surelabel methods NAME   Use it: surelabel fit DATA --method NAME")
    else:
        _say_method(found[0])


def _say_methods(found: list[dict[str, Any]]) -> None:
    plain = ("name", "year", "kind", "networks")
    rows = [
        [
            *(method[column] for column in plain),
            method["forward_passes"],
            method["backward_passes"],
            ", ".join(method["stages"]),
            _state_text(method),
        ]
        for method in found
    ]
    screen.say_table((*plain, "forward", "backward", "stages", "state per sample"), rows, wrap=True)
    screen.say("\nforward, backward: passes of a network over a batch in one step. N samples, K classes.")


def _state_text(method: dict[str, Any]) -> str:
    return ", ".join(f"{table['name']} ({' x '.join(table['shape'])})" for table in method["state"]) or "none"


def _say_method(method: dict[str, Any]) -> None:
    screen.say_prose(f"{method['name']}: {method['summary']}\n{method['paper']}, {method['year']} ({method['kind']})\n")
    screen.say_prose(
        f"Networks: {method['networks']}. Passes a step: {method['forward_passes']} forward, "
        f"{method['backward_passes']} backward. Stages: {', '.join(method['stages'])}. "
        f"State per sample: {_state_text(method)}.\n"
    )
    if not method["options"]:
        screen.say("It has no options.")
        return
    rows = [
        [
            option["name"],
            option["type"],
            "by rule" if option["default"] is None else str(option["default"]),
            option["help"],
        ]
        for option in method["options"]
    ]
    screen.say_table(("name", "type", "default", "help"), rows, wrap=True)
    first = method["options"][0]["name"]
    screen.say(f"\nSet one: surelabel fit DATA --method {method['name']} --set method.{first}=VALUE")
