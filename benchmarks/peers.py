"""Train the same network on the same images with our engine and with its peers, in one run.

    python benchmarks/peers.py [--rounds 5] [--images 4096] [--epochs 2] [--threads 2]

Contenders: `engine` is surelabel's with cross entropy, `engine without augmentation` the same on
plain images; `bare loop` is a loop over tensors in memory, without augmentation; `dataloader` is a
DataLoader with torchvision's random crop and flip; `skorch` trains on the same data set;
`cleanlab` is its pipeline: five folds by cross_val_predict over skorch, then find_label_issues,
without augmentation. Each runs in a process of its own, in random order within a round. Printed are
samples per second of training, seconds from start to a verdict on every label, and peak memory;
then their ratios, medians over rounds with bootstrap intervals, and the load of the machine before
the first round. Images are random: their content does not change the time. skorch and cleanlab
come with `pip install -e ".[dev]"`.
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
FOLDS = 5
Figures = dict[str, float | None]


def images(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random images of CIFAR's size, and labels."""
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8), rng.integers(0, NUM_CLASSES, count)


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
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        run = surelabel.fit(
            (x, y), f"{folder}/run", method="cross_entropy", epochs=epochs, batch_size=BATCH, rate=RATE,
            threads=torch.get_num_threads(), settings=settings,
        )  # fmt: skip
        surelabel.audit(run)
        verdict = time.perf_counter() - began
        training = sum(row["seconds"] for row in run.metrics())
    return {"training": training, "verdict": verdict}


def bare_loop(x: np.ndarray, y: np.ndarray, epochs: int) -> Figures:
    """Train in a loop over tensors."""
    inputs, label = torch.from_numpy(x), torch.from_numpy(y)
    network = make_network()

    def batches() -> Any:
        for rows in torch.randperm(len(label)).split(BATCH):
            yield inputs[rows].float(), label[rows]

    began = time.perf_counter()
    steps(network, batches, epochs)
    return {"training": time.perf_counter() - began, "verdict": None}


def dataloader(x: np.ndarray, y: np.ndarray, epochs: int) -> Figures:
    """Train from a DataLoader in this process."""
    loader = torch.utils.data.DataLoader(Photos(x, y), BATCH, shuffle=True)
    network = make_network()
    began = time.perf_counter()
    steps(network, lambda: loader, epochs)
    return {"training": time.perf_counter() - began, "verdict": None}


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
    return {"training": time.perf_counter() - began, "verdict": None}


def cleanlab(x: np.ndarray, y: np.ndarray, epochs: int) -> Figures:
    """Predict each fold by a network that has not seen it, and look for label errors."""
    from cleanlab.filter import find_label_issues
    from sklearn.model_selection import cross_val_predict

    began = time.perf_counter()
    probabilities = cross_val_predict(classifier(epochs), x.astype(np.float32), y, cv=FOLDS, method="predict_proba")
    training = time.perf_counter() - began
    find_label_issues(y, probabilities, return_indices_ranked_by="self_confidence", n_jobs=1)
    return {"training": training / (FOLDS - 1), "verdict": time.perf_counter() - began}


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
    print(json.dumps({"speed": speed, "verdict": found["verdict"], "memory": memory, "at start": before}))


def ratio(rounds: list[dict[str, Any]], one: str, other: str, what: str) -> str:
    """Return the median ratio of two contenders over rounds, with its 95 % interval."""
    from step_overhead import bootstrap  # not at the top: it would count as memory of the contenders

    median, low, high = bootstrap([found[one][what] / found[other][what] for found in rounds])
    return f"{median:.2f} [{low:.2f}, {high:.2f}]"


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
    print("| contender | samples/s | seconds to verdict | peak MiB |\n|---|---|---|---|")
    for name in words.only:
        speed, memory = (statistics.median(found[name][what] for found in rounds) for what in ("speed", "memory"))
        verdicts = [found[name]["verdict"] for found in rounds]
        verdict = "none" if verdicts[0] is None else f"{statistics.median(verdicts):.1f}"
        print(f"| {name} | {speed:.0f} | {verdict} | {memory:.0f} |")
    compared = [
        ("engine without augmentation", "bare loop", "speed"), ("engine", "dataloader", "speed"),
        ("engine", "skorch", "speed"), ("engine", "cleanlab", "verdict"), ("engine", "bare loop", "memory"),
        ("engine", "cleanlab", "memory"),
    ]  # fmt: skip
    print("\n| ratio | median [95 % interval] |\n|---|---|")
    for one, other, what in compared:
        if one in words.only and other in words.only:
            print(f"| {what}: {one} over {other} | {ratio(rounds, one, other, what)} |")


if __name__ == "__main__":
    main()
