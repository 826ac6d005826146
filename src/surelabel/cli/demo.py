"""`surelabel demo`: cross entropy and CAR on the same digits, wrong labels and network.

`surelabel demo photos` is in `demo_photos.py`.
"""

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surelabel import console
from surelabel.cli.fit import saying_how_to_resume
from surelabel.cli.options import Json, app
from surelabel.errors import ConfigError, RunError, did_you_mean
from surelabel.files import refuse_overwriting, replace_stream

if TYPE_CHECKING:
    from surelabel.engine.loop import Progress
    from surelabel.runs.run_dir import RunDir

EPOCHS = 200
QUICK_EPOCHS = 20
PHOTO_EPOCHS, PIXEL_EPOCHS = 60, 10
"""On photos, with and without pretrained features; an epoch on pixels takes many times as long."""
NUM_PHOTOS = 1000
QUICK_PHOTO_EPOCHS, QUICK_PHOTOS = 10, 300
SETTINGS: Mapping[str, Any] = {
    # Exactly four of ten labels are wrong: with `include_true_class` some would stay right.
    "noise": {"kind": "symmetric", "rate": 0.4, "include_true_class": False},
    # Large enough to memorise every wrong label, small enough to train twice within a minute.
    "model": {"name": "mlp", "options": {"widths": [256, 256], "norm": "batch"}},
    "optimiser": {"name": "sgd", "rate": 0.05, "weight_decay": 5e-4, "schedule": {"kind": "cosine"}},
    "train.batch_size": 64,
    # With layers this small a second thread costs more time than it saves.
    "train.threads": 1,
    "train.device": "cpu",
}
PENALTY_WEIGHT = 0.2
METHODS: Mapping[str, Mapping[str, Any]] = {
    "cross_entropy": {},
    # 0.2 instead of the default 0.9: low confidence costs less, so wrong labels are damped more.
    # Training starts more slowly, which does not matter in 200 epochs on easy data.
    "car": {"method.penalty_weight": PENALTY_WEIGHT},
}
METHOD_NAMES = {"cross_entropy": "Cross entropy", "car": "CAR"}
RESULT_NAMES = {
    "test_accuracy": "test accuracy, last epoch",
    "best_test_accuracy": "test accuracy, best epoch (an oracle's choice)",
    "memorised": "wrong labels memorised",
    "quality_auroc": "wrong labels found: AUROC of quality",
    "correction_accuracy": "training labels right after correction",
    "seconds": "seconds of training",
}
FIGURES = {"digits": "memorisation.png", "photos": "photos.png"}
"""The name of the figure of each demo."""
FIGURE_SUFFIXES = (".png", ".pdf", ".svg")


@app.command()
def demo(
    name: Annotated[
        str,
        typer.Argument(
            metavar="digits|photos",
            help="digits: cross entropy and CAR with 40 % wrong labels. photos: find photos in wrong folders. "
            "Default: digits",
            show_default=False,
        ),
    ] = "digits",
    seed: Annotated[
        int, typer.Option(metavar="S", min=0, help="Random seed for weights, batch order, noise and photos.")
    ] = 0,
    epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Training epochs; fewer are faster but show a weaker effect. Default: "
            f"{EPOCHS} on digits, {PHOTO_EPOCHS} on photos, or {PIXEL_EPOCHS} without "
            "pretrained features",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=f"Train for at most {QUICK_EPOCHS} epochs, in about ten seconds; on photos for at most "
            f"{QUICK_PHOTO_EPOCHS}, on {QUICK_PHOTOS} of them.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the runs and the photos in this new folder. Default: keep none"),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Image file to write. Default: memorisation.png or photos.png in --out, or in surelabel-demo",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show in a minute or two, on bundled data, what wrong labels do and how they are found."""
    if name not in FIGURES:
        raise ConfigError(f"demo {name}: {did_you_mean(name, FIGURES)}expected {' or '.join(FIGURES)}")
    figure = figure or (out or Path("surelabel-demo")) / FIGURES[name]
    check_places(out, figure)
    with contextlib.ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="surelabel-demo-")))
        if name == "photos":
            _photos(folder, out, figure, seed, epochs, quick, json)
        else:
            _digits(folder, out, figure, seed, min(epochs or EPOCHS, QUICK_EPOCHS) if quick else epochs or EPOCHS, json)


def _photos(
    folder: Path, out: Path | None, figure: Path, seed: int, epochs: int | None, quick: bool, json: bool
) -> None:
    from surelabel.cli import demo_photos
    from surelabel.encoding.registry import usual_backbone

    epochs = epochs or (PIXEL_EPOCHS if usual_backbone("images") is None else PHOTO_EPOCHS)
    epochs, count = (min(epochs, QUICK_PHOTO_EPOCHS), QUICK_PHOTOS) if quick else (epochs, NUM_PHOTOS)
    with saying_how_to_resume(None if out is None else out / demo_photos.RUN), console.progress("photos") as progress:
        result = demo_photos.run(folder, figure, seed, epochs, count, progress)
    if json:
        console.say_json(result)
    else:
        demo_photos.show(result, out)


def _digits(folder: Path, out: Path | None, figure: Path, seed: int, epochs: int, json: bool) -> None:
    runs, results = {}, {}
    with saying_how_to_resume(None), console.progress() as progress:
        for method in METHODS:
            progress.title = METHOD_NAMES[method]
            runs[method] = train(method, folder / method, seed, epochs, progress)
            results[method], noise = measure(runs[method])
    draw(runs, figure)
    if json:
        console.say_json({**results, "seed": seed, "noise": noise, "epochs": epochs, "figure": figure})
        return
    _show_demo(results, {method: memorised_over_epochs(run) for method, run in runs.items()}, noise)
    console.say(f"Figure: {figure}" + (f"   Runs: {out}" if out else ""))


def _show_demo(results: dict[str, dict[str, float]], memorised: dict[str, Any], noise: float) -> None:
    console.say()
    names = [METHOD_NAMES[method] for method in results]
    rows = [(text, *(result[key] for result in results.values())) for key, text in RESULT_NAMES.items()]
    console.say_table(("", *names), rows)
    if console.is_terminal():
        console.say("\nWrong labels memorised, from the first epoch to the last:")
        for method, fractions in memorised.items():
            console.say(f"  {METHOD_NAMES[method]:14s} {console.sparkline(fractions)}  {100 * fractions[-1]:.0f} %")
    console.say()
    for sentence in story(results, noise):
        console.say_prose(sentence)
    console.say()


def check_places(out: Path | None, figure: Path) -> None:
    """Raise before training if the results could not be written after it."""
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out}: already exists and is not an empty folder; choose another folder")
    refuse_overwriting([figure], option="--figure")
    if figure.suffix.lower() not in FIGURE_SUFFIXES:
        raise ConfigError(f"--figure {figure}: the name must end in {', '.join(FIGURE_SUFFIXES)}")


def train(method: str, out: Path, seed: int, epochs: int, progress: "Progress") -> "RunDir":
    """Train one of the two methods and return its run."""
    # Judged by training alone: the demo compares what the two methods learn.
    judged = {"train.second_opinion": False}
    settings = {**SETTINGS, **judged, "method": method, **METHODS[method], "train.seed": seed, "train.epochs": epochs}
    from surelabel import api

    return api.fit("digits", out, settings=settings, progress=progress)


def measure(run: "RunDir") -> tuple[dict[str, float], float]:
    """Return the values of the table, and the realised fraction of wrong labels.

    All values but the best accuracy are the last epoch's.
    """
    from surelabel import api

    rows, measured = run.metrics(), api.audit(run).measures()
    last = rows[-1]
    result = {
        "test_accuracy": last["tests"]["test"]["top1"],
        "best_test_accuracy": max(row["tests"]["test"]["top1"] for row in rows if row.get("tests")),
        "memorised": last["false_labels"]["memorised"],
        "quality_auroc": measured["quality_auroc"],
        "correction_accuracy": measured["correction_accuracy"],
        # Training only: the first run also loads PyTorch.
        "seconds": sum(row["seconds"] for row in rows),
    }
    return result, measured["wrong_labels"]


def story(results: Mapping[str, Mapping[str, float]], noise: float) -> list[str]:
    """Describe the result in sentences that hold for any numbers."""
    plain, car = results["cross_entropy"], results["car"]
    best = f"its best epoch had {plain['best_test_accuracy']:.1%}, but only the test labels could have told"
    sentences = [
        f"{noise:.0%} of the training labels were made wrong on purpose. In the end cross entropy has memorised "
        f"{plain['memorised']:.0%} of the wrong labels, CAR {car['memorised']:.0%}.",
        f"On test digits with right labels cross entropy ends at {plain['test_accuracy']:.1%} ({best}), "
        f"CAR at {car['test_accuracy']:.1%}.",
        f"CAR's targets name the true class of {car['correction_accuracy']:.1%} of the training digits; sorted by its "
        f"`quality`, a wrong label ranks before a right one {car['quality_auroc']:.1%} of the time.",
        f"CAR has penalty_weight={PENALTY_WEIGHT:g} here, which suits long runs on easy data; the default is 0.9.",
    ]
    return [sentence.replace("%", " %") for sentence in sentences]


def draw(runs: "Mapping[str, RunDir]", path: Path) -> None:
    """Draw memorisation over epochs to an image file."""
    from surelabel.plotting.memorisation import memorisation_figure

    figure = memorisation_figure({METHOD_NAMES[method]: run.metrics() for method, run in runs.items()})
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_stream(path, lambda file: figure.savefig(file, format=path.suffix[1:], dpi=150))


def memorised_over_epochs(run: "RunDir") -> Sequence[float]:
    """Return the fraction of wrong labels that the network predicts after each epoch."""
    return [row["false_labels"]["memorised"] for row in run.metrics() if "false_labels" in row]
