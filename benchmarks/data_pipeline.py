"""Measure what the data pipeline costs, as ratios of times from one run.

    python benchmarks/data_pipeline.py --data ROOT [--rounds 200] [--starts 5] [--threads 1]

ROOT holds cifar10/train.parquet, 50,000 images, from the Hugging Face hub.

Batches: samples per second of the loader over images in memory, with and without augmentation,
against a bare loop that indexes the same tensors, and against a torch DataLoader with the usual
per-sample transforms, all in one process; for the batches alone, and for training a small network
on them. In each round every contender makes one batch, in random order. Results are medians over
rounds with a bootstrap interval, of the wall time and of the CPU time, which other programs on the
machine disturb less.

Streams: JPEG photographs that worker processes decode, resize to 256 and crop to 224, against a
DataLoader with as many workers that does the same per sample with Pillow; whole passes, in turns.

Starts: seconds until the first batch (reading the table, decoding, fingerprint, mean and standard
deviation), the first time and with the cache, against a bare loop that only decodes the same bytes
with Pillow. Each runs in a separate process, in turns; the time of imports is not counted. The
peak memory of the process is shown too.
"""

import argparse
import contextlib
import io
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 64
MEAN, STD = (125.3, 123.0, 113.9), (63.0, 62.1, 66.7)
SOURCE = "cifar10/train.parquet"


# Starts, each in a separate process.


def read_encoded(data: Path) -> list[bytes]:
    """Read the encoded images from the table."""
    import pyarrow.parquet as pq

    return pq.read_table(data / SOURCE, columns=["img"])["img"].combine_chunks().field("bytes").to_pylist()


def bare_start(data: Path) -> Callable[[], object]:
    """Return a start that only decodes; the bytes are in memory when the clock starts."""
    from PIL import Image

    blobs = read_encoded(data)
    return lambda: [np.asarray(Image.open(io.BytesIO(blob))) for blob in blobs]


def our_start(data: Path) -> Callable[[], object]:
    """Return a start that does what a run does before it trains."""
    from surelabel.config import DataConfig
    from surelabel.data import load_corpus
    from surelabel.training import build

    with contextlib.suppress(ImportError):
        import pandas  # noqa: F401  # pyarrow imports it if it is installed; not to be timed

    def start() -> object:
        corpus = load_corpus(DataConfig(source=str(data / SOURCE)))
        return corpus, corpus.fingerprint(), build.normalisation(corpus)

    return start


def peak_memory() -> float:
    """Return the peak so far in MB; getrusage's would include the parent process."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def measure(kind: str, data: Path) -> None:
    """Time one start in this process and print the result as JSON."""
    start = bare_start(data) if kind == "bare" else our_start(data)
    before, wall, cpu = peak_memory(), time.perf_counter(), time.process_time()
    kept = start()
    seconds = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    print(json.dumps({**seconds, "memory_before": before, "memory": peak_memory()}))
    del kept


def measure_in_process(kind: str, data: Path, cache: Path) -> dict[str, float]:
    """Time one start in a separate process."""
    command = [sys.executable, __file__, "--data", str(data), "--measure", kind]
    environment = {**os.environ, "SURELABEL_CACHE": str(cache)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure_starts(data: Path, rounds: int) -> dict[str, list[dict[str, float]]]:
    """Time all kinds of start in turns; a first start has an empty cache."""
    found: dict[str, list[dict[str, float]]] = {"bare": [], "first": [], "cached": []}
    with tempfile.TemporaryDirectory() as folder:
        filled = Path(folder) / "filled"
        measure_in_process("cached", data, filled)
        for number in range(rounds):
            for kind in random.Random(number).sample(list(found), len(found)):
                cache = filled if kind == "cached" else Path(folder) / str(number)
                found[kind].append(measure_in_process(kind, data, cache))
            print(f"start {number + 1} of {rounds}", file=sys.stderr)
    return found


# Batches, in this process.

Batches = Iterator[tuple[Any, Any]]
"""Inputs and labels, endlessly."""


def make_contenders(x, label) -> dict[str, Batches]:
    """Return endless passes over all rows, by name."""
    from torch.utils.data import DataLoader

    from surelabel.data.augment import Augment
    from surelabel.data.corpus import Examples
    from surelabel.data.loader import Loader

    rows = Examples(x, label, np.arange(len(x)).astype(str))
    return {
        "bare loop": index_batches(x, label),
        "loader": loader_batches(Loader(rows, BATCH)),
        "augmenting loader": loader_batches(Loader(rows, BATCH, augment=Augment(4, True, 0))),
        "per-sample DataLoader": repeat(DataLoader(PerSample(x, label), BATCH, shuffle=True)),
    }


def index_batches(x, label) -> Batches:
    """Yield batches by indexing the tensors."""
    import torch

    while True:
        for index in torch.randperm(len(x)).split(BATCH):
            yield x[index], label[index]


def loader_batches(loader) -> Batches:
    """Yield batches of our loader, as the engine does."""
    from surelabel.core import View

    for epoch in itertools.count():
        for step in loader.passes({"batch": View()}, f"train/{epoch}/0"):
            yield step["batch"].x, step["batch"].label


def repeat(loader) -> Batches:
    """Yield the batches of a DataLoader, epoch after epoch."""
    while True:
        yield from loader


class PerSample:
    """The way of tutorials: images are padded, cropped, mirrored and normalised one at a time."""

    def __init__(self, x, label) -> None:
        import torch

        self.x, self.label = x, label
        self.mean, self.std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, row: int):
        import torch
        import torch.nn.functional as F

        padded = F.pad(self.x[row], (4, 4, 4, 4))
        top, left, mirror = (int(torch.randint(high, ())) for high in (9, 9, 2))
        image = padded[:, top : top + 32, left : left + 32]
        return ((image.flip(2) if mirror else image).float() - self.mean) / self.std, self.label[row]


def train_steps(batches: Batches, mean: tuple[float, ...], std: tuple[float, ...]) -> Iterator[None]:
    """Train a small network, one step per iteration."""
    import torch
    import torch.nn.functional as F

    from surelabel import models
    from surelabel.models import Network

    backbone = models.make_backbone("cnn", (3, 32, 32), {})
    scale = {name: torch.tensor(values).view(3, 1, 1) for name, values in (("mean", mean), ("std", std))}
    network = Network(backbone, 10, **scale)
    optimiser = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9)
    for x, label in batches:
        loss = F.cross_entropy(network(x).logits, label)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        yield


Row = dict[str, Any]


def compare(contenders: dict[str, Iterator[Any]], num_rows: int, rounds: int, warm_up: int = 5) -> dict[str, Row]:
    """Return samples per second of each contender, and their ratio to the first one's.

    In each round every contender does one step, in random order.
    """
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for number in range(-warm_up, rounds):
        for name in random.Random(number).sample(list(contenders), len(contenders)):
            began = time.perf_counter(), time.process_time()
            next(contenders[name])
            if number >= 0:
                times[name].append((time.perf_counter() - began[0], time.process_time() - began[1]))
    base = next(iter(times.values()))
    return {
        name: {
            "samples_per_second": num_rows / statistics.median(wall for wall, _ in own),
            "ratio": bootstrap([b / t for (b, _), (t, _) in zip(base, own, strict=True)]),
            "cpu_ratio": bootstrap([b / t for (_, b), (_, t) in zip(base, own, strict=True)]),
        }
        for name, own in times.items()
    }


def bootstrap(ratios: list[float], draws: int = 4000) -> tuple[float, float, float]:
    """Return the median and its 95 % interval."""
    medians = np.median(np.random.default_rng(0).choice(ratios, (draws, len(ratios))), axis=1)
    return statistics.median(ratios), *map(float, np.quantile(medians, [0.025, 0.975]))


# Streams of large images.


def write_photographs(folder: Path, blobs: list[bytes], count: int) -> list[Path]:
    """Write CIFAR images as JPEG files of 500 x 375 pixels."""
    from PIL import Image

    paths = [folder / f"{number:04d}.jpg" for number in range(count)]
    for path, blob in zip(paths, blobs, strict=False):
        Image.open(io.BytesIO(blob)).convert("RGB").resize((500, 375), Image.Resampling.BICUBIC).save(path, quality=90)
    return paths


class PerPhotograph:
    """The way of tutorials: open, resize the short side to 256, crop 224, mirror, normalise."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int):
        import torch
        from PIL import Image

        image = Image.open(self.paths[row]).convert("RGB")
        scale = 256 / min(image.size)
        image = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BILINEAR)
        left, top = (int(torch.randint(free + 1, ())) for free in (image.width - 224, image.height - 224))
        x = torch.from_numpy(np.array(image.crop((left, top, left + 224, top + 224)))).permute(2, 0, 1)
        x = x.flip(2) if torch.rand(()) < 0.5 else x
        return (x.float() / 255 - 0.5) / 0.25


def compare_streams(data: Path, rounds: int, workers: int, count: int = 384) -> dict[str, Row]:
    """Compare whole passes over photographs."""
    import torch
    from torch.utils.data import DataLoader

    from surelabel.config import DataConfig
    from surelabel.core import View
    from surelabel.data.augment import Augment
    from surelabel.data.corpus import Examples
    from surelabel.data.images.load import Files, load_images
    from surelabel.data.loader import Loader

    with tempfile.TemporaryDirectory() as folder:
        paths = write_photographs(Path(folder), read_encoded(data), count)
        usual = DataLoader(PerPhotograph(paths), BATCH, shuffle=True, num_workers=workers)
        config = DataConfig(source="photographs", decode="stream", image_size=256, cache=False, workers=workers)
        x, _ = load_images(Files(paths), config, None, "photographs")
        rows = Examples(x, torch.zeros(count, dtype=torch.long), np.arange(count).astype(str), crop=224)
        loader = Loader(rows, BATCH, augment=Augment(0, True, 0, crop=224))
        passes = {
            "per-sample DataLoader": lambda: iter(usual),
            "streaming loader": lambda: loader.passes({"batch": View()}, str(time.perf_counter())),
        }
        return compare({name: whole_passes(one) for name, one in passes.items()}, count, rounds, warm_up=1)


def whole_passes(one_pass: Callable[[], Iterator[Any]]) -> Iterator[int]:
    """Do a whole pass at each iteration."""
    while True:
        yield sum(1 for _ in one_pass())


# The tables.


def compare_batches(data: Path, rounds: int) -> dict[str, dict[str, Row]]:
    """Compare batches alone, and training on them."""
    from surelabel.config import DataConfig
    from surelabel.data import load_corpus

    train = load_corpus(DataConfig(source=str(data / SOURCE))).train
    alone = compare(make_contenders(train.x, train.label), BATCH, rounds)
    scales = {"per-sample DataLoader": ((0.0,) * 3, (1.0,) * 3)}
    training = {
        name: train_steps(contender, *scales.get(name, (MEAN, STD)))
        for name, contender in make_contenders(train.x, train.label).items()
    }
    return {"batches alone": alone, "training on them": compare(training, BATCH, rounds)}


def show(title: str, table: dict[str, Row], with_cpu: bool) -> None:
    """Print samples per second, and ratios with their intervals."""
    print(f"\n{title}")
    for name, row in table.items():
        ratios = "   ".join(
            "{} {:.3f} [{:.3f}, {:.3f}]".format(kind, *row[key])
            for kind, key in [("wall", "ratio"), ("CPU", "cpu_ratio")][: 1 + with_cpu]
        )
        print(f"  {name:22} {row['samples_per_second']:8,.0f} samples/s   {ratios}", flush=True)


def show_starts(found: dict[str, list[dict[str, float]]]) -> None:
    """Print seconds, the ratio with its interval, and memory."""
    print("\nstarts, over the bare decode loop: wall time [95 % interval], CPU time;", end=" ")
    print("peak memory, of which before the start")
    for kind, runs in found.items():
        pairs = list(zip(runs, found["bare"], strict=True))
        median, low, high = bootstrap([own["seconds"] / bare["seconds"] for own, bare in pairs])
        cpu = statistics.median(own["cpu_seconds"] / bare["cpu_seconds"] for own, bare in pairs)
        own = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        print(
            f"  {kind:8} {own['seconds']:6.2f} s   {median:.3f} [{low:.3f}, {high:.3f}]   CPU {cpu:.3f}"
            f"   {own['memory']:5.0f} MB, {own['memory_before']:.0f} MB"
        )


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help=f"folder that holds {SOURCE}")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--walks", type=int, default=5, help="passes over the photographs")
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="threads of training")
    parser.add_argument("--workers", type=int, default=2, help="processes that decode photographs")
    parser.add_argument("--only", choices=("batches", "streams", "starts"))
    parser.add_argument("--measure", choices=("bare", "first", "cached"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure, arguments.data)
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f};", end=" ")
    print("ratios over a table's first line, median [95 % interval]")
    if arguments.only in (None, "batches"):
        import torch

        torch.set_num_threads(arguments.threads)
        for name, table in compare_batches(arguments.data, arguments.rounds).items():
            show(
                f"{name}, {arguments.rounds} rounds, batch {BATCH}, {arguments.threads} thread(s)", table, with_cpu=True
            )
    if arguments.only in (None, "streams"):
        title = f"photographs, {arguments.walks} walks, {arguments.workers} workers"
        show(title, compare_streams(arguments.data, arguments.walks, arguments.workers), with_cpu=False)
    if arguments.only in (None, "starts"):
        show_starts(measure_starts(arguments.data, arguments.starts))


if __name__ == "__main__":
    main()
