"""Train the same network on the same images with our engine and with its peers, in one run.

    python benchmarks/peers.py [--rounds 5] [--images 4096] [--epochs 2] [--threads 2]

Contenders: `engine` is surelabel's with cross entropy, `engine without augmentation` the same on
plain images; `bare loop` is a loop over tensors in memory, without augmentation; `dataloader` is a
DataLoader with torchvision's random crop and flip; `skorch` trains on the same data set;
`cleanlab` is its pipeline: five folds by cross_val_predict over skorch, then find_label_issues,
then a model of the rows without issues, all without augmentation. Each runs in a process of its
own, in random order within a round. Printed are samples per second of training, seconds from start
to a verdict on every label, seconds to a verdict and a model (our engine has both at the same
time), and peak memory; then their ratios, medians over rounds with bootstrap intervals, and the
load of the machine before the first round. Images are noise over one pattern per class, and a
fifth of the labels are wrong. skorch and cleanlab come with `pip install -e ".[dev]"`.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

NUM_CLASSES, BATCH, RATE, DECAY = 10, 128, 0.05, 5e-4
FOLDS, WRONG = 5, 0.2
Figures = dict[str, float | None]


def images(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images that show their class through noise, and labels, of which some are wrong."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 2, (NUM_CLASSES, 3, 32, 32), dtype=np.uint8)
    shown = rng.integers(0, NUM_CLASSES, count)
    x = rng.integers(0, 192, (count, 3, 32, 32), dtype=np.uint8) + 63 * patterns[shown]
    is_wrong = rng.random(count) < WRONG
    return x, np.where(is_wrong, (shown + rng.integers(1, NUM_CLASSES, count)) % NUM_CLASSES, shown)


def make_network() -> torch.nn.Module:
    """Return the network that all contenders train, which maps raw pixels to logits."""
    from surelabel.models import Network, make_backbone

    class Logits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = Network(make_backbone("fast_cnn", (3, 32, 32)), NUM_CLASSES, mean=(127.5,), std=(64.0,))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.network(x).logits

    return Logits()


class Photos(torch.utils.data.Dataset):
    """Images one by one, cropped and flipped by torchvision, as most training scripts do."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        from surelabel.core.torchvision_import import import_torchvision

        import_torchvision()
        from torchvision import transforms

        self.x, self.y = torch.from_numpy(x), torch.from_numpy(y)
        self.view = transforms.Compose([transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip()])

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.view(self.x[row]).float(), self.y[row]


def steps(network: torch.nn.Module, batches: Callable[[], Any], epochs: int) -> None:
    """Train with SGD on what `batches` yields in each epoch."""
    optimiser = torch.optim.SGD(network.parameters(), RATE, momentum=0.9, weight_decay=DECAY)
    network.train()
    for _ in range(epochs):
        for x, y in batches():
            loss = F.cross_entropy(network(x), y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()


def engine(x: np.ndarray, y: np.ndarray, epochs: int, augment: bool = True) -> Figures:
    """Train with surelabel, to its verdict."""
    import surelabel

    settings = {"train.augment": augment, "optimiser.schedule": {"kind": "constant"}, "model.name": "fast_cnn"}
    settings["model.features"] = "none"
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        run = surelabel.fit(
            (x, y), f"{folder}/run", method="cross_entropy", epochs=epochs, batch_size=BATCH, rate=RATE,
            threads=torch.get_num_threads(), settings=settings,
        )  # fmt: skip
        surelabel.audit(run)
        verdict = time.perf_counter() - began
        training = sum(row["seconds"] for row in run.metrics())
    return {"training": training, "verdict": verdict, "verdict and model": verdict}


def bare_loop(x: np.ndarray, y: np.ndarray, epochs: int) -> Figures:
    """Train in a loop over tensors."""
    inputs, label = torch.from_numpy(x), torch.from_numpy(y)
    network = make_network()

    def batches() -> Any:
        for rows in torch.randperm(len(label)).split(BATCH):
            yield inputs[rows].float(), label[rows]

    began = time.perf_counter()
    steps(network, batches, epochs)
    return {"training": time.perf_counter() - began, "verdict": None, "verdict and model": None}


def dataloader(x: np.ndarray, y: np.ndarray, epochs: int) -> Figures:
    """Train from a DataLoader in this process."""
    loader = torch.utils.data.DataLoader(Photos(x, y), BATCH, shuffle=True)
    network = make_network()
    began = time.perf_counter()
    steps(network, lambda: loader, epochs)
    return {"training": time.perf_counter() - began, "verdict": None, "verdict and model": None}


def classifier(epochs: int) -> Any:
    """Return the network as a scikit-learn classifier."""
    from skorch import NeuralNetClassifier

    return NeuralNetClassifier(
        make_network, criterion=torch.nn.CrossEntropyLoss, optimizer=torch.optim.SGD, optimizer__momentum=0.9,
        optimizer__weight_decay=DECAY, lr=RATE, batch_size=BATCH, max_epochs=epochs, train_split=None, verbose=0,
        iterator_train__shuffle=True,
    )  # fmt: skip


def skorch(x: np.ndarray, y: np.ndarray, epochs: int) -> Figures:
    """Train with skorch from the same data set as the DataLoader."""
    began = time.perf_counter()
    classifier(epochs).fit(Photos(x, y), torch.from_numpy(y))
    return {"training": time.perf_counter() - began, "verdict": None, "verdict and model": None}


def cleanlab(x: np.ndarray, y: np.ndarray, epochs: int) -> Figures:
    """Find label errors by networks that have not seen them, then train on the other rows."""
    from cleanlab.filter import find_label_issues
    from sklearn.model_selection import cross_val_predict

    began = time.perf_counter()
    inputs = x.astype(np.float32)
    probabilities = cross_val_predict(classifier(epochs), inputs, y, cv=FOLDS, method="predict_proba")
    training = time.perf_counter() - began
    has_issue = find_label_issues(y, probabilities, n_jobs=1)
    verdict = time.perf_counter() - began
    classifier(epochs).fit(inputs[~has_issue], y[~has_issue])
    model = time.perf_counter() - began
    return {"training": training / (FOLDS - 1), "verdict": verdict, "verdict and model": model}


CONTENDERS: dict[str, Callable[..., Figures]] = {
    "engine": engine,
    "engine without augmentation": lambda x, y, epochs: engine(x, y, epochs, augment=False),
    "bare loop": bare_loop,
    "dataloader": dataloader,
    "skorch": skorch,
    "cleanlab": cleanlab,
}


def run_one(name: str, count: int, epochs: int, threads: int) -> None:
    """Run a contender in this process and print its figures as JSON."""
    torch.set_num_threads(threads)
    x, y = images(count)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = CONTENDERS[name](x, y, epochs)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    speed = count * epochs / (found["training"] or 1)
    print(json.dumps(found | {"speed": speed, "memory": memory, "at start": before}))


def ratio(rounds: list[dict[str, Any]], one: str, other: str, what: str) -> str:
    """Return the median ratio of two contenders over rounds, with its 95 % interval."""
    from step_overhead import bootstrap  # not at the top: it would count as memory of the contenders

    median, low, high = bootstrap([found[one][what] / found[other][what] for found in rounds])
    return f"{median:.2f} [{low:.2f}, {high:.2f}]"


def median(rounds: list[dict[str, Any]], name: str, what: str) -> str:
    """Return the median of a figure over rounds, or that a contender does not have it."""
    figures = [found[name][what] for found in rounds]
    return "none" if None in figures else f"{statistics.median(figures):.0f}"


def main() -> None:
    """Run all contenders in turn and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=4096)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--one", choices=CONTENDERS, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.one:
        run_one(words.one, words.images, words.epochs, words.threads)
        return
    load, rounds = os.getloadavg()[0], []
    command = [sys.executable, __file__, *(f"--{n}={getattr(words, n)}" for n in ("images", "epochs", "threads"))]
    for number in range(words.rounds):
        found = {}
        for name in random.sample(words.only, len(words.only)):
            output = subprocess.run([*command, "--one", name], check=True, capture_output=True, text=True).stdout
            found[name] = json.loads(output.splitlines()[-1])
            print(f"round {number + 1}: {name} done", file=sys.stderr, flush=True)
        rounds.append(found)
    print(f"{words.rounds} rounds, {words.images:,} images, {words.epochs} epochs, {words.threads} threads, fast_cnn, "
          f"batches of {BATCH}; load before the first round {load:.1f} of {os.cpu_count()} cores\n")  # fmt: skip
    columns = {"samples/s": "speed", "s to verdict": "verdict", "s to verdict and model": "verdict and model",
               "peak MiB": "memory"}  # fmt: skip
    print(f"| contender | {' | '.join(columns)} |\n|{'---|' * (1 + len(columns))}")
    for name in words.only:
        cells = [median(rounds, name, what) for what in columns.values()]
        print(f"| {name} | {' | '.join(cells)} |")
    compared = [
        ("engine without augmentation", "bare loop", "speed"), ("engine", "dataloader", "speed"),
        ("engine", "skorch", "speed"), ("engine", "cleanlab", "verdict"), ("engine", "cleanlab", "verdict and model"),
        ("engine", "bare loop", "memory"), ("engine", "cleanlab", "memory"),
    ]  # fmt: skip
    print("\n| ratio | median [95 % interval] |\n|---|---|")
    for one, other, what in compared:
        if one in words.only and other in words.only:
            print(f"| {what}: {one} over {other} | {ratio(rounds, one, other, what)} |")


if __name__ == "__main__":
    main()
