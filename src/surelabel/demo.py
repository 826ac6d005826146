"""The demonstration: cross entropy and CAR on the same digits with the same wrong labels and the same network."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from surelabel import api
from surelabel.engine.loop import Progress
from surelabel.errors import ConfigError, RunError
from surelabel.files import replace_stream
from surelabel.runs.run_dir import RunDir

EPOCHS = 200
SETTINGS: Mapping[str, Any] = {
    # Four of ten labels are wrong, and none of those is right by accident: `include_true_class` would leave some right.
    "noise": {"kind": "symmetric", "rate": 0.4, "include_true_class": False},
    # Large enough to memorise every wrong label, small enough for two trainings within a minute on two cores.
    "model": {"name": "mlp", "options": {"widths": [256, 256], "norm": "batch"}},
    "optimiser": {"name": "sgd", "rate": 0.05, "weight_decay": 5e-4, "schedule": {"kind": "cosine"}},
    "train.batch_size": 64,
    # With layers this small a second thread costs more than it brings.
    "train.threads": 1,
    "train.device": "cpu",
}
METHODS: Mapping[str, Mapping[str, Any]] = {
    "cross_entropy": {},
    # Below the default of 0.9: doubt is cheap, so wrong labels are damped more, and 200 epochs on an easy set forgive
    # the slow beginning that comes with it.
    "car": {"method.penalty_weight": 0.2},
}
SHOWN_NAMES = {"cross_entropy": "Cross entropy", "car": "CAR"}
SHOWN_FIGURES = {
    "test_accuracy": "test accuracy, last epoch",
    "best_test_accuracy": "test accuracy, best epoch (an oracle's choice)",
    "memorised": "wrong labels memorised",
    "quality_auroc": "wrong labels found: AUROC of quality",
    "correction_accuracy": "training labels right after correction",
    "seconds": "seconds of training",
}
FIGURE_KINDS = (".png", ".pdf", ".svg")


def check_places(out: Path | None, figure: Path) -> None:
    """An error before training where the results could not be written after it."""
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out}: this folder is not empty; choose another folder")
    if figure.suffix.lower() not in FIGURE_KINDS:
        raise ConfigError(f"--figure {figure}: the name must end in {', '.join(FIGURE_KINDS)}")


def train(method: str, out: Path, seed: int, epochs: int, progress: Progress) -> RunDir:
    """The finished run."""
    settings = {**SETTINGS, "method": method, **METHODS[method], "train.seed": seed, "train.epochs": epochs}
    return api.fit("digits", out, settings=settings, progress=progress)


def figures(run: RunDir) -> dict[str, float]:
    """What the table shows of a run; all but the best accuracy are the last epoch's."""
    rows, measured = run.metrics(), api.audit(run).measures()
    last = rows[-1]
    return {
        "test_accuracy": last["tests"]["test"]["top1"],
        "best_test_accuracy": max(row["tests"]["test"]["top1"] for row in rows if row.get("tests")),
        "memorised": last["false_labels"]["memorised"],
        "quality_auroc": measured["quality_auroc"],
        "correction_accuracy": measured["correction_accuracy"],
        # Of training alone: the first of two runs also pays for loading PyTorch.
        "seconds": sum(row["seconds"] for row in rows),
    }


def noise_rate(run: RunDir) -> float:
    """The realised share of wrong labels."""
    return api.audit(run).measures()["wrong_labels"]


def story(results: Mapping[str, Mapping[str, float]], noise: float) -> list[str]:
    """What happened, in plain sentences that hold whatever the numbers are."""
    plain, car = results["cross_entropy"], results["car"]
    best = f"its best epoch had {plain['best_test_accuracy']:.1%}, but only the test labels could have told"
    sentences = [
        f"{noise:.0%} of the training labels were made wrong on purpose. In the end cross entropy's network repeats "
        f"{plain['memorised']:.0%} of the wrong labels, CAR's {car['memorised']:.0%}.",
        f"On test digits with right labels cross entropy ends at {plain['test_accuracy']:.1%} ({best}), "
        f"CAR at {car['test_accuracy']:.1%}.",
        f"CAR's targets name the true class of {car['correction_accuracy']:.1%} of the training digits; sorted by its "
        f"`quality`, a wrong label stands before a right one {car['quality_auroc']:.1%} of the time.",
    ]
    return [sentence.replace("%", " %") for sentence in sentences]


def draw(runs: Mapping[str, RunDir], path: Path) -> None:
    """Memorisation over epochs, as an image file."""
    from surelabel.analysis.memorisation import memorisation_figure

    figure = memorisation_figure({SHOWN_NAMES[method]: run.metrics() for method, run in runs.items()})
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_stream(path, lambda file: figure.savefig(file, format=path.suffix[1:], dpi=150))


def memorised_over_epochs(run: RunDir) -> Sequence[float]:
    """The share of wrong labels that the network repeats, epoch by epoch."""
    return [row["false_labels"]["memorised"] for row in run.metrics() if "false_labels" in row]
