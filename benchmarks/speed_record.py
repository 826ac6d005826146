"""Train on CIFAR-10 with wrong labels in little time, and count what it takes.

    python benchmarks/speed_record.py --cifar10 FOLDER --noise symmetric --epochs 4 8 16 --figure .
    python benchmarks/speed_record.py --cifar10 FOLDER --noise human --epochs 16
    python benchmarks/speed_record.py --cifar10 FOLDER --images 5000 --epochs 10 --ablate --seeds 10

Every row is `--recipe fast` with a method: the samples that were trained on, minutes from start to
verdict, floating-point operations of training (two per multiply-add, counted by torch on a batch),
their share of the paper's (500 epochs of ResNet-34 on 50,000 images), and the test accuracy of the
last epoch. `symmetric` replaces 40 % of the labels by a random class, which may be the true
one, as in the paper; `human` are the labels that people gave. `--ablate` leaves out one part of
the recipe at a time. With two or more --epochs a power law is fitted to the errors of each method
and carried on to a hundredth of the paper's operations; `--figure` draws it. This is an
extrapolation: nobody trained that run. Finished runs in --folder are not trained again.
"""

import argparse
import statistics
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode
from training_runs import measure, slug, train

from surelabel.config import validate
from surelabel.models import Network, make_backbone
from surelabel.overrides import RECIPES, parsed_assignment, set_field
from surelabel.plotting.drawing import GREY, GRID, LINES, Drawing, add_legend, make_figure
from surelabel.runs.run_dir import RunDir

SHAPE, NUM_CLASSES, PAPER_EPOCHS, PAPER_ROWS = (3, 32, 32), 10, 500, 50_000
SHARE, PAPER_ACCURACY = 1 / 100, 0.935
"""Of the paper's operations: the moonshot is to reach its accuracy with them."""
MEASURED = ("test", "auroc", "correction", "memorised")
WITHOUT: dict[str, dict[str, Any]] = {
    "nothing": {},
    "whitening": {"model.options.whiten": False},
    "alternating flips": {"train.flip": True},
    "translation by 2 (4 instead)": {"train.crop_padding": 4},
    "bias rate": {"optimiser.bias_rate": 1.0},
    "test-time mirror": {"model.mirror": False},
    "batches of 256 (64, a quarter of the rate)": {"train.batch_size": 64, "optimiser.rate": 0.05},
}
"""What a run goes without, by name."""


@cache
def operations_of_paper() -> float:
    """Return the operations of the paper's training."""
    return PAPER_EPOCHS * PAPER_ROWS * count_operations("resnet34", {})


def count_operations(model: str, options: dict[str, Any], rows: int = 8) -> float:
    """Return operations per sample, forward and backward."""
    network = Network(make_backbone(model, SHAPE, options), NUM_CLASSES).train()
    x, y = torch.randn(rows, *SHAPE), torch.arange(rows) % NUM_CLASSES
    network(x)  # whitening looks at its first batch
    with FlopCounterMode(display=False) as counter:
        F.cross_entropy(network(x).logits, y).backward()
    return counter.get_total_flops() / rows


def configure(words: argparse.Namespace, method: str, epochs: int, seed: int, changes: dict[str, Any]) -> Any:
    """Return the configuration of one run."""
    content: dict[str, Any] = {"data": {"source": "cifar10", "root": str(words.cifar10)}}
    if words.noise == "human":
        content["data"] = {"source": str(words.cifar10), "label_column": "human_label", "clean_column": "label"}
    else:
        content["noise"] = {"kind": "symmetric", "rate": 0.4, "include_true_class": True}
    settings = {**RECIPES["fast"], "method": method, "train.epochs": epochs, "train.seed": seed, **changes}
    settings["model.features"] = "none"
    if words.ablate:  # only the test accuracy of the last epoch matters
        settings |= {"train.evaluate_every": epochs, "train.second_opinion": False}
    if words.images:
        settings["data.epoch"] = {"batches": words.images // settings["train.batch_size"]}
    if words.threads:
        settings["train.threads"] = words.threads
    settings |= dict(map(parsed_assignment, words.set))
    for name, value in settings.items():
        set_field(content, name, value)
    return content


def wall_minutes(run: RunDir) -> float:
    """Return the minutes from the start of a run to its end, if it was not interrupted."""
    return ((run.path / "done").stat().st_mtime - (run.path / "env.json").stat().st_mtime) / 60


class Record(NamedTuple):
    """What a kind of run took and reached; means over seeds."""

    samples: int
    minutes: float
    operations: float
    measured: dict[str, float]

    def __str__(self) -> str:
        times_less = 1 / share_of_paper(self.operations)
        took = [f"{self.samples:,}", f"{self.minutes:.1f}", f"{self.operations:.2e}", f"1/{times_less:.0f}"]
        return " | ".join([*took, *(f"{self.measured[name]:.3f}" for name in MEASURED)])


def share_of_paper(operations: float) -> float:
    """Return operations as a fraction of those of the paper's training."""
    return operations / operations_of_paper()


def describe(folder: Path, seeds: list[int]) -> Record:
    """Read the finished runs of all seeds."""
    runs = [RunDir.open(folder.with_name(f"{folder.name}--{seed}")) for seed in seeds]
    found = [measure(str(run.path)) for run in runs]
    samples = sum(row["num_samples"] for row in runs[0].metrics())
    config = runs[0].config()
    return Record(
        samples,
        statistics.mean(wall_minutes(run) for run in runs),
        samples * count_operations(config.model.name, dict(config.model.options)),
        {name: statistics.mean(one[name] for one in found) for name in found[0]},
    )


def fit_power_law(records: list[Record]) -> tuple[float, float]:
    """Return a and b of log(error) = a + b log(share of the paper's operations)."""
    shares = [share_of_paper(record.operations) for record in records]
    errors = [1 - record.measured["test"] for record in records]
    b, a = np.polyfit(np.log(shares), np.log(errors), 1)
    return float(a), float(b)


def accuracy_at(law: tuple[float, float], share: float) -> float:
    """Return the accuracy that a power law gives for a share of the paper's operations."""
    return float(1 - np.exp(law[0] + law[1] * np.log(share)))


def draw(curves: dict[str, list[Record]], noise: str) -> Drawing:
    """Draw accuracy over operations, with the lines carried on to `SHARE`."""
    figure, axes = make_figure()
    said = []
    for (method, records), (colour, _) in zip(curves.items(), LINES, strict=False):
        law = fit_power_law(records)
        shares = [share_of_paper(record.operations) for record in records]
        axes.plot(shares, [100 * record.measured["test"] for record in records], "o", color=colour, label=method)
        for first, last, dash in ((min(shares), max(shares), "-"), (max(shares), SHARE, ":")):
            line = np.geomspace(first, last, 50)
            axes.plot(line, [100 * accuracy_at(law, share) for share in line], dash, color=colour, linewidth=1)
        said.append(f"{method}: {100 * accuracy_at(law, SHARE):.1f} % at a hundredth")
    axes.plot([], [], ":", color=GREY, linewidth=1, label="extrapolation: no run")
    axes.axhline(100 * PAPER_ACCURACY, color=GREY, linewidth=1, label="the paper, all its operations")
    axes.set_xscale("log")
    axes.set_xlabel("Share of the paper's operations")
    axes.set_ylabel("Test accuracy, %")
    axes.grid(color=GRID, linewidth=0.6)
    add_legend(figure)
    text = f"Points are runs with {noise} labels, lines a power law, dotted where no run is: {'; '.join(said)}."
    return Drawing(f"speed-{noise}", "Accuracy over operations", text, figure)


def main() -> None:
    """Train what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar10", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--noise", choices=("symmetric", "human"), default="symmetric")
    parser.add_argument("--methods", nargs="+", default=["cross_entropy", "adaptive_car"])
    parser.add_argument("--epochs", type=int, nargs="+", default=[16])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--images", type=int, help="rows of an epoch, of 50,000; default all")
    parser.add_argument("--ablate", action="store_true", help="leave out one part of the recipe at a time")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="a setting of all runs")
    parser.add_argument("--folder", type=Path, default=Path("runs/speed"))
    parser.add_argument("--figure", type=Path, metavar="FOLDER", help="draw accuracy over operations into this folder")
    words = parser.parse_args()
    columns = ("method", "epochs", "without", "samples", "minutes", "FLOP", "share", *MEASURED)
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    curves: dict[str, list[Record]] = {}
    for method in words.methods:
        for epochs in words.epochs:
            for part, changes in (WITHOUT if words.ablate else {"nothing": {}}).items():
                name = "-".join([words.noise, method, f"{epochs}-{words.images or 'all'}-{part}", *words.set])
                folder = words.folder / slug(name)
                for seed in words.seeds:
                    config = configure(words, method, epochs, seed, changes)
                    validate(config)
                    train(config, str(folder.with_name(f"{folder.name}--{seed}")))
                record = describe(folder, words.seeds)
                curves.setdefault(method, []).append(record)
                print(f"| {method} | {epochs} | {part} | {record} |", flush=True)
    if words.ablate or len(words.epochs) == 1:
        return
    for method, records in curves.items():
        reached = accuracy_at(fit_power_law(records), SHARE)
        print(f"{method}: {reached:.3f} at {SHARE:.0%} of the paper's operations, by extrapolation")
    if words.figure:
        drawing = draw(curves, words.noise)
        print(drawing.text, *drawing.write(words.figure), sep="\n")


if __name__ == "__main__":
    main()
