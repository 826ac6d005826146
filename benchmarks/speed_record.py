"""Train on CIFAR-10 with wrong labels in little time, and count what it takes.

    python benchmarks/speed_record.py --cifar10 FOLDER --noise symmetric --epochs 8 16 32
    python benchmarks/speed_record.py --cifar10 FOLDER --noise human --epochs 16
    python benchmarks/speed_record.py --cifar10 FOLDER --images 5000 --epochs 10 --ablate --seeds 10

Every row is `--recipe fast` with a method: the samples that were trained on, minutes from start to
verdict, floating-point operations of training (two per multiply-add, counted by torch on a batch),
their share of the paper's (500 epochs of ResNet-34 on 50,000 images), and the test accuracy of the
last epoch. `symmetric` replaces 40 % of the labels by a random class, which may be the true
one, as in the paper; `human` are the labels that people gave. `--ablate` leaves out one part of
the recipe at a time. Finished runs in --folder are not trained again.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode
from training_runs import measure, slug, train

from surelabel.config import validate
from surelabel.models import Network, make_backbone
from surelabel.overrides import RECIPES, set_field
from surelabel.runs.run_dir import RunDir

SHAPE, NUM_CLASSES, PAPER_EPOCHS, PAPER_ROWS = (3, 32, 32), 10, 500, 50_000
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
    if words.ablate:  # only the test accuracy of the last epoch matters
        settings |= {"train.evaluate_every": epochs, "train.second_opinion": False}
    if words.images:
        settings["data.epoch"] = {"batches": words.images // settings["train.batch_size"]}
    if words.threads:
        settings["train.threads"] = words.threads
    for name, value in settings.items():
        set_field(content, name, value)
    return content


def wall_minutes(run: RunDir) -> float:
    """Return the minutes from the start of a run to its end, if it was not interrupted."""
    return ((run.path / "done").stat().st_mtime - (run.path / "env.json").stat().st_mtime) / 60


def describe(folder: Path, seeds: list[int]) -> list[str]:
    """Return the cells of a row, from the finished runs of all seeds."""
    runs = [RunDir.open(folder.with_name(f"{folder.name}--{seed}")) for seed in seeds]
    found = [measure(str(run.path)) for run in runs]
    rows = sum(row["num_samples"] for row in runs[0].metrics())
    minutes = statistics.mean(wall_minutes(run) for run in runs)
    config = runs[0].config()
    operations = rows * count_operations(config.model.name, dict(config.model.options))
    paper = PAPER_EPOCHS * PAPER_ROWS * count_operations("resnet34", {})
    means = {name: statistics.mean(one[name] for one in found) for name in found[0]}
    figures = [f"{rows:,}", f"{minutes:.1f}", f"{operations:.2e}", f"1/{paper / operations:.0f}"]
    return [*figures, *(f"{means[name]:.3f}" for name in MEASURED)]


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
    parser.add_argument("--folder", type=Path, default=Path("runs/speed"))
    words = parser.parse_args()
    columns = ("method", "epochs", "without", "samples", "minutes", "FLOP", "share", *MEASURED)
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for method in words.methods:
        for epochs in words.epochs:
            for part, changes in (WITHOUT if words.ablate else {"nothing": {}}).items():
                name = f"{words.noise}-{method}-{epochs}-{words.images or 'all'}-{part}"
                folder = words.folder / slug(name)
                for seed in words.seeds:
                    config = configure(words, method, epochs, seed, changes)
                    validate(config)
                    train(config, str(folder.with_name(f"{folder.name}--{seed}")))
                cells = describe(folder, words.seeds)
                print(f"| {method} | {epochs} | {part} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
