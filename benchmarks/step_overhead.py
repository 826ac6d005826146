"""What CAR and the engine cost: ratios of times measured side by side in one run.

    python benchmarks/step_overhead.py [--pairs 40] [--threads 2]

Step: the engine's whole training step (forward, loss, per-sample state, backward, optimiser) with CAR against cross entropy, same
network, same batch of 64. The two are timed alternately, the order drawn anew for each pair; the ratio is the median over
pairs, with a bootstrap interval. Epoch: the engine's epoch (evaluation and checkpoints aside) against a bare loop over the
same tensors with the same network and optimiser, also alternately; the ratio is of samples per second.
"""

import argparse
import json
import statistics
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F

from surelabel import build
from surelabel.config import validated
from surelabel.core.plan import View
from surelabel.data.examples import Corpus, Examples
from surelabel.engine import distributed
from surelabel.engine.fit import Engine, Setup
from surelabel.progress import Silent
from surelabel.runs import RunDir

BATCH = 64


def random_corpus(num_rows: int) -> Corpus:
    """Images of CIFAR's size with random labels; what they show does not change the time."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.integers(0, 256, (num_rows, 3, 32, 32), dtype=np.uint8))
    label = torch.from_numpy(rng.integers(0, 10, num_rows))
    return Corpus(Examples(x, label, np.arange(num_rows).astype(str)), tuple("0123456789"))


def make_engine(method: str, model: str, corpus: Corpus, folder: str, threads: int) -> Engine:
    """An engine that is ready to train, without augmentation, as the bare loop has none."""
    content = {
        "data": {"source": "random"},
        "method": method,
        "model": model,
        "train": {"epochs": 1000, "batch_size": BATCH, "augment": False, "threads": threads, "device": "cpu"},
    }
    config = validated(content)
    scale = build.normalisation(corpus.train.x)
    fabric = distributed.start(config.train)
    setup = Setup(
        config,
        corpus,
        lambda seed: build.method(config, build.task(config, corpus.train.label, 10, (3, 32, 32), seed, scale)),
        build.loader(config.train, corpus.train, fabric.device),
        RunDir(folder),
        fabric,
        Silent(),
    )
    engine = Engine(setup)
    engine.method.train()
    return engine


def bootstrap(ratios: list[float], draws: int = 4000) -> tuple[float, float, float]:
    """The median and its 95 % interval."""
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(ratios, (draws, len(ratios))), axis=1)
    return statistics.median(ratios), *np.quantile(medians, [0.025, 0.975])


def interleaved(first, second, pairs: int, warm_up: int = 3) -> list[float]:
    """Times of `first` over times of `second`, pair by pair, in random order within a pair."""
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


def step_ratio(model: str, pairs: int, threads: int) -> tuple[float, float, float]:
    """A CAR step over a cross-entropy step."""
    corpus = random_corpus(BATCH)
    with tempfile.TemporaryDirectory() as folder:
        actions = []
        for method in ("car", "cross_entropy"):
            engine = make_engine(method, model, corpus, folder, threads)
            stage = engine.method.stages()[0]
            engine._begin_stage(stage)
            # After the first correction, so that CAR's table is read and written in every step.
            engine.position.epoch = engine.position.run_epoch = 500
            batches = next(iter(engine.loader.passes({"batch": View()}, "bench")))
            clock = engine._clock(stage, 0, 1)
            settings = engine.config.optimiser
            actions.append(
                lambda e=engine, s=stage, b=batches, c=clock, o=settings: e._train_step(s.step, dict(b), c, o)
            )
        return bootstrap(interleaved(*actions, pairs))


def epoch_ratio(pairs: int, threads: int, num_rows: int = 512) -> tuple[float, float, float]:
    """The engine's samples per second over a bare loop's."""
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

        return bootstrap(interleaved(bare_epoch, engine_epoch, pairs))


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = {}
    for model in ("cnn", "resnet18"):
        result[f"car_step_over_cross_entropy_step_{model}"] = step_ratio(model, arguments.pairs, arguments.threads)
    result["engine_epoch_over_bare_loop_throughput_cnn"] = epoch_ratio(arguments.pairs, arguments.threads)
    if arguments.json:
        print(json.dumps(result))
        return
    print(
        f"{arguments.pairs} interleaved pairs, {arguments.threads} threads, batch {BATCH}; median [95 % bootstrap interval]"
    )
    for name, (median, low, high) in result.items():
        print(f"{name:48} {median:.3f} [{low:.3f}, {high:.3f}]")


if __name__ == "__main__":
    main()
