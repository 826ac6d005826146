"""Measure what CAR and the engine cost, as ratios of times from one run.

    python benchmarks/step_overhead.py [--pairs 40] [--threads 2]
    python benchmarks/step_overhead.py --methods --pairs 8 --side 16

Step: the engine's whole training step (forward, loss, per-sample state, backward, optimiser) with
CAR against the same step with cross entropy, on the same network and the same batch of 64. The two
are timed in pairs, in random order within a pair. The ratio is the median over pairs, with a
bootstrap interval.

Epoch: the engine's epoch, without evaluation and checkpoints, against a bare loop over the same
tensors with the same network and optimiser, also in pairs. The ratio is of samples per second.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from surelabel import methods
from surelabel.cli.methods import describe_training
from surelabel.config import validate
from surelabel.console import Silent
from surelabel.core.method import Method
from surelabel.data.corpus import Corpus, Examples
from surelabel.engine import distributed
from surelabel.engine.loop import Engine, Setup
from surelabel.runs.run_dir import RunDir
from surelabel.training import build

BATCH = 64


def random_corpus(num_rows: int, side: int = 32) -> Corpus:
    """Make random images, by default of CIFAR's size; their content does not change the time."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.integers(0, 256, (num_rows, 3, side, side), dtype=np.uint8))
    label = torch.from_numpy(rng.integers(0, 10, num_rows))
    return Corpus(Examples(x, label, np.arange(num_rows).astype(str)), tuple("0123456789"))


def make_engine(method: str, model: str, corpus: Corpus, folder: str, threads: int) -> Engine:
    """Make an engine that is ready to train, without augmentation, like the bare loop."""
    content = {
        "data": {"source": "random"},
        "method": method,
        "model": model,
        "train": {"epochs": 1000, "batch_size": BATCH, "augment": False, "threads": threads, "device": "cpu"},
    }
    config = validate(content)
    scale = build.normalisation(corpus)
    fabric = distributed.launch(config.train, Path(folder))

    def make_method(seed: int) -> Method:
        shape = tuple(corpus.train.x.shape[1:])
        return build.method(config, build.task(config, corpus.train.label, 10, shape, seed, scale))

    setup = Setup(
        config,
        corpus,
        make_method(config.train.seed),
        make_method,
        build.loader(config, corpus, fabric.device),
        RunDir(folder),
        fabric,
        Silent(),
    )
    engine = Engine(setup)
    engine.method.train()
    return engine


def bootstrap(ratios: list[float], draws: int = 4000) -> tuple[float, float, float]:
    """Return the median and its 95 % interval."""
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(ratios, (draws, len(ratios))), axis=1)
    return statistics.median(ratios), *np.quantile(medians, [0.025, 0.975])


def time_pairs(first, second, pairs: int, warm_up: int = 2) -> list[float]:
    """Return the time of `first` over that of `second`, for pairs in random order."""
    rng = np.random.default_rng(0)
    for _ in range(warm_up):
        first()
        second()
    ratios = []
    for _ in range(pairs):
        times = {}
        for action in [first, second] if rng.random() < 0.5 else [second, first]:
            began = time.perf_counter()
            action()
            times[action] = time.perf_counter() - began
        ratios.append(times[first] / times[second])
    return ratios


def make_step(method: str, model: str, corpus: Corpus, folder: str, threads: int):
    """Return a training step at three quarters of a method's last stage, and its number of rows."""
    engine = make_engine(method, model, corpus, folder, threads)
    stage = engine.method.stages()[-1]
    engine._begin_stage(stage)
    engine.position.epoch = engine.position.run_epoch = stage.epochs * 3 // 4
    engine._open_epoch(stage)
    current = engine.plan[0]
    batches = next(iter(engine.loader.passes(current.views, "bench")))
    clock, settings = engine._clock(stage, 0, 1), engine.config.optimiser
    engine.method.train()
    num_rows = len(next(iter(batches.values())).index)
    return lambda: engine._train_step(current.step, dict(batches), clock, settings), num_rows


def step_ratio(method: str, model: str, pairs: int, threads: int, side: int = 32) -> tuple[float, float, float]:
    """Return the time of a method's step over that of cross entropy, per row."""
    corpus = random_corpus(4 * BATCH, side)
    with tempfile.TemporaryDirectory() as folder:
        (first, rows), (second, base_rows) = (
            make_step(name, model, corpus, folder, threads) for name in (method, "cross_entropy")
        )
        return bootstrap([ratio * base_rows / rows for ratio in time_pairs(first, second, pairs)])


def single_network_steps(names: list[str], pairs: int, threads: int, side: int) -> None:
    """Time the steps of single-network methods on resnet18, also per listed pass.

    A backward pass counts as two forward passes.
    """
    print(f"{pairs} interleaved pairs, {threads} threads, batch {BATCH}, {side} x {side} images")
    print("step over a cross-entropy step on resnet18, and the same per listed pass (backward counted as two forward)")
    for name in names:
        about = describe_training(methods.find(name))
        if about["networks"] == 1 and name != "cross_entropy":
            passes = (about["forward_passes"] + 2 * about["backward_passes"]) / 3
            ratio = step_ratio(name, "resnet18", pairs, threads, side)
            shown = "".join(f"{value / passes:8.3f}" for value in ratio)
            print(f"{name:20} {ratio[0]:6.3f}   per pass, median and 95 % interval:{shown}", flush=True)


def epoch_ratio(pairs: int, threads: int, num_rows: int = 512) -> tuple[float, float, float]:
    """Return the engine's samples per second over those of a bare loop."""
    corpus = random_corpus(num_rows)
    with tempfile.TemporaryDirectory() as folder:
        engine = make_engine("cross_entropy", "cnn", corpus, folder, threads)
        stage = engine.method.stages()[0]
        engine._begin_stage(stage)

        def engine_epoch() -> None:
            engine._open_epoch(stage)
            engine._run_epoch(stage)
            engine.position.is_open = False

        bare = make_engine("cross_entropy", "cnn", corpus, folder, threads).method.network
        optimiser = torch.optim.SGD(bare.parameters(), 0.05, momentum=0.9, weight_decay=5e-4)
        x, label = corpus.train.x, corpus.train.label

        def bare_epoch() -> None:
            for rows in torch.randperm(num_rows).split(BATCH):
                loss = F.cross_entropy(bare(x[rows]).logits, label[rows])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()

        return bootstrap(time_pairs(bare_epoch, engine_epoch, pairs))


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=methods.names(), help="with --methods")
    parser.add_argument(
        "--side", type=int, default=32, help="image side with --methods; smaller images are a stricter test"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--methods", action="store_true", help="all single-network methods on resnet18 instead")
    arguments = parser.parse_args()
    if arguments.methods:
        single_network_steps(arguments.only, arguments.pairs, arguments.threads, arguments.side)
        return
    result = {}
    for model in ("cnn", "resnet18"):
        ratio = step_ratio("car", model, arguments.pairs, arguments.threads)
        result[f"car_step_over_cross_entropy_step_{model}"] = ratio
    result["engine_epoch_over_bare_loop_throughput_cnn"] = epoch_ratio(arguments.pairs, arguments.threads)
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"{arguments.pairs} interleaved pairs, {arguments.threads} threads, batch {BATCH}")
    print("median [95 % bootstrap interval]")
    for name, (median, low, high) in result.items():
        print(f"{name:48} {median:.3f} [{low:.3f}, {high:.3f}]")


if __name__ == "__main__":
    main()
