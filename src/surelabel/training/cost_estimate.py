"""What a run would train on and cost, said before it starts: sizes, balance, duplicates, memory and time from timed steps."""

import contextlib
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from surelabel import noise
from surelabel.config import RunConfig
from surelabel.console import Silent
from surelabel.core.state import SampleStore
from surelabel.data.corpus import Corpus
from surelabel.data.duplicates import DuplicateGroup, find_duplicates, find_leaked_rows, hash_rows
from surelabel.data.inputs import Inputs
from surelabel.engine.loop import Interrupted
from surelabel.runs.run_dir import RunDir
from surelabel.training import build
from surelabel.training.session import train

HASHED_ROWS = 200_000
"""Inputs outside memory are hashed up to so many rows: reading more would take longer than anybody waits for a plan."""
FIRST_STEPS, TIMED_STEPS, LONGEST = 2, 12, 15.0
"""Steps that are not counted, because the first ones are slow; steps that are; and seconds after which no more are made."""
EVALUATION_SHARE = 1 / 3
"""Of a step, that a batch without a backward pass costs."""
OPTIMISER_COPIES = {"sgd": 3, "adamw": 4}
"""Numbers held per weight in training: the weight, its gradient, and what the optimiser keeps."""


@dataclass(frozen=True)
class Plan:
    """What was found out."""

    sizes: dict[str, int]
    """Rows of train, validation and each test set."""
    class_counts: dict[str, int]
    """Given labels of the training rows."""
    input_shape: tuple[int, ...]
    twins: list[DuplicateGroup] | None
    """Groups of equal training inputs; None where they were not looked for."""
    leaked: dict[str, list[str]] | None
    """Ids of test rows whose input is also trained on, for each test set."""
    bytes: dict[str, int]
    """Memory, by what it is for."""
    is_in_memory: bool
    """Whether the training inputs are."""
    epochs: int
    batches: int
    """Of the first epoch."""
    step_seconds: float
    """Median of the timed steps."""
    total_seconds: float
    warnings: list[str] = field(default_factory=list)


class _Stopwatch(Silent):
    """Notes when each step ended, and what the engine warns of."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.batches, self.epochs = 0, 0
        self.warnings: list[str] = []

    def begin(self, num_epochs: int, done: int) -> None:
        self.epochs = num_epochs
        self.times.append(time.perf_counter())

    def step(self, epoch: int, batch: int, num_batches: int, loss: float) -> None:
        self.times.append(time.perf_counter())
        self.batches = max(self.batches, num_batches)

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def has_seen_enough(self) -> bool:
        return len(self.times) > FIRST_STEPS + TIMED_STEPS or self.times[-1] - self.times[0] > LONGEST

    @property
    def step_seconds(self) -> float:
        steps = [after - before for before, after in zip(self.times, self.times[1:], strict=False)]
        return statistics.median(steps[FIRST_STEPS:] or steps)


def plan(config: RunConfig) -> Plan:
    """Look at the data and make a few steps of the run, which leaves nothing behind."""
    corpus, manifest = build.corpus(config.data, config.noise, config.train.seed)
    groups, shared = _duplicates(corpus)
    watch = _timed(config, corpus, manifest)
    sizes = {name: len(rows) for name, rows in _parts(corpus).items()}
    return Plan(
        sizes=sizes,
        class_counts=_class_counts(corpus),
        input_shape=corpus.train.input_shape,
        twins=groups,
        leaked=shared,
        bytes=_memory(config, corpus),
        is_in_memory=isinstance(corpus.train.x, Tensor),
        epochs=watch.epochs,
        batches=watch.batches,
        step_seconds=watch.step_seconds,
        total_seconds=_total(config, watch, sum(sizes.values()) - sizes["train"]),
        warnings=watch.warnings,
    )


def _parts(corpus: Corpus) -> dict[str, Any]:
    held_out = {} if corpus.validation is None else {"validation": corpus.validation}
    return {"train": corpus.train, **held_out, **corpus.tests}


def _class_counts(corpus: Corpus) -> dict[str, int]:
    counts = corpus.train.label.bincount(minlength=corpus.num_classes).tolist()
    return dict(zip(corpus.class_names, counts, strict=True))


def _duplicates(corpus: Corpus) -> tuple[list[DuplicateGroup] | None, dict[str, list[str]] | None]:
    parts = [corpus.train, *corpus.tests.values()]
    if any(not isinstance(rows.x, Tensor) and len(rows) > HASHED_ROWS for rows in parts):
        return None, None
    keys = hash_rows(corpus.train.x)
    shared = {name: find_leaked_rows(keys, hash_rows(rows.x)) for name, rows in corpus.tests.items()}
    ids = {name: [str(corpus.tests[name].ids[p]) for p in positions] for name, positions in shared.items()}
    return find_duplicates(corpus.train, keys), ids


def _memory(config: RunConfig, corpus: Corpus) -> dict[str, int]:
    """Bytes of inputs, per-sample tables, and weights with what the optimiser keeps."""
    rows = corpus.train
    job = build.task(
        config, rows.label, corpus.num_classes, rows.input_shape, config.train.seed, build.normalisation(corpus)
    )
    method = build.method(config, job)
    stores = [module for module in method.modules() if isinstance(module, SampleStore)]
    weights = sum(p.numel() * p.element_size() for net in method.networks().values() for p in net.parameters())
    return {
        "inputs": sum(_size(part.x) for part in _parts(corpus).values()),
        "per-sample state": sum(store.num_bytes for store in stores),
        "weights and optimiser": weights * OPTIMISER_COPIES[config.optimiser.name],
    }


def _size(x: Inputs) -> int:
    count = 1
    for side in x.shape:
        count *= side
    return count * x.dtype.itemsize


def _timed(config: RunConfig, corpus: Corpus, manifest: noise.Manifest | None) -> _Stopwatch:
    """A few real steps in a folder that is thrown away, by one process."""
    alone = config.model_copy(update={"train": config.train.model_copy(update={"devices": 1})})
    watch = _Stopwatch()
    with tempfile.TemporaryDirectory(prefix="surelabel-plan-") as folder, contextlib.suppress(Interrupted):
        train(alone, (corpus, manifest), RunDir(Path(folder) / "run"), watch, watch.has_seen_enough)
    return watch


def _total(config: RunConfig, watch: _Stopwatch, num_evaluated: int) -> float:
    """All epochs at the pace of the timed steps, and the evaluations."""
    training = watch.epochs * watch.batches
    evaluated = watch.epochs / config.train.evaluate_every * num_evaluated / config.train.batch_size
    return watch.step_seconds * (training + EVALUATION_SHARE * evaluated)
