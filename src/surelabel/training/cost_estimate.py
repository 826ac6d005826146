"""Estimate the cost of a run before it starts.

The estimate has sizes, class balance, duplicates and memory. The time is that of a few timed steps,
of the start of the run, and of a verdict on some rows.
"""

import contextlib
import math
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from surelabel import noise
from surelabel.config import RunConfig
from surelabel.console import Silent
from surelabel.core.mapped_store import MappedStore
from surelabel.core.state import SampleStore
from surelabel.data.corpus import Corpus
from surelabel.data.duplicates import DuplicateGroup, find_duplicates, find_leaked_rows, hash_rows
from surelabel.data.inputs import Inputs
from surelabel.data.neighbours import CHUNK_VALUES, MOST_ROWS
from surelabel.encoding import features
from surelabel.encoding.encode import encode_all
from surelabel.engine import distributed
from surelabel.engine.loop import Interrupted
from surelabel.engine.record import SampleRecord
from surelabel.engine.signals import stop_on_signals
from surelabel.runs.run_dir import RunDir
from surelabel.runs.samples import DENSE_UP_TO, NUM_KEPT, TopK
from surelabel.training import build, head, pretrained, second_opinion
from surelabel.training.session import train
from surelabel.verdicts.curve import calibrate
from surelabel.verdicts.evidence import TRAINED
from surelabel.verdicts.probe import affordable_landmarks
from surelabel.verdicts.row_readers import WHOLE_VALUES

HASHED_ROWS = 200_000
"""Inputs outside memory are hashed only up to this many rows: reading more would take too long."""
FIRST_STEPS, TIMED_STEPS, LONGEST = 2, 12, 15.0
"""Slow first steps that are not timed, steps that are timed, and seconds after which to stop."""
EVALUATION_SHARE = 1 / 3
"""The cost of a batch without a backward pass, as a fraction of a training step."""
IMPORT_SECONDS = 3.0
"""Seconds in which Python starts and imports what a run needs."""
JUDGED_ROWS = 1000
"""Rows whose verdict is timed."""
TIMED_BATCH = 32
"""Rows whose pretrained features are timed, after the same number that warms up."""
OPTIMISER_COPIES = {"sgd": 3, "adamw": 4}
"""Numbers per weight in training: the weight, its gradient, and the state of the optimiser."""

NUM_TABLES, COLUMN_BYTES = 6, 400
"""Tables of classes and their values at the end of a run, and bytes of a row's other columns."""
FEATURE_BYTES, WORKING_BYTES, CHUNK_BYTES, IMAGE_FEATURES = 16, 24, 2**29, 1024
"""Bytes of the second opinion: of a feature, of a row's value in a feature map or of a class, and
of a chunk of rows if all would be too many; and the features of an image. They fit the peaks in
docs/results/million.md."""
DISTANCE_BYTES = 16
"""Bytes of a distance between two rows while neighbours are looked for."""


@dataclass(frozen=True)
class Plan:
    """The estimate."""

    sizes: dict[str, int]
    """Rows of the training, validation and test sets."""
    class_counts: dict[str, int]
    """Given labels of the training rows."""
    input_shape: tuple[int, ...]
    twins: list[DuplicateGroup] | None
    """Groups of equal training inputs; None if they were not searched for."""
    leaked: dict[str, list[str]] | None
    """Ids of test rows whose input is also a training input, by test set."""
    bytes: dict[str, int]
    """Memory, by use; "tables on disk" are in a file."""
    peak_bytes: int
    """Memory that the run needs at its largest moment, with the software itself."""
    is_in_memory: bool
    """Whether the training inputs are in memory."""
    epochs: int
    batches: int
    """Batches of the first epoch."""
    step_seconds: float
    """Median of the timed steps."""
    other_seconds: float
    """The start, the comparison of networks, the second opinion and the verdict."""
    total_seconds: float
    pretrained: str = "none"
    """The network whose features are computed first."""
    feature_rows: int = 0
    """Rows whose features are not in the cache yet."""
    feature_seconds: float = 0.0
    """What computing them takes."""
    warnings: list[str] = field(default_factory=list)


class _Stopwatch(Silent):
    """Records when each step ended, and the warnings of the engine."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.created = time.perf_counter()
        self.batches, self.epochs = 0, 0
        self.warnings: list[str] = []

    def begin(self, num_epochs: int, _done: int) -> None:
        self.epochs = num_epochs
        self.times.append(time.perf_counter())

    def step(self, _epoch: int, _batch: int, num_batches: int, _loss: float) -> None:
        self.times.append(time.perf_counter())
        self.batches = max(self.batches, num_batches)

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def has_seen_enough(self) -> bool:
        return len(self.times) > FIRST_STEPS + TIMED_STEPS or self.times[-1] - self.times[0] > LONGEST

    @property
    def start_seconds(self) -> float:
        return self.times[0] - self.created

    @property
    def step_seconds(self) -> float:
        steps = [after - before for before, after in zip(self.times, self.times[1:], strict=False)]
        return statistics.median(steps[FIRST_STEPS:] or steps)


def plan(config: RunConfig) -> Plan:
    """Inspect the data and train a few steps in a temporary folder."""
    begun = time.perf_counter()
    corpus, manifest = build.corpus(build.data_for(config), config.noise, config.train.seed)
    start = IMPORT_SECONDS + time.perf_counter() - begun
    groups, shared = _find_duplicates(corpus)
    resolved, corpus, feature_rows, feature_seconds = _time_features(config, corpus)
    uses = _count_bytes(resolved, corpus)
    watch = _time_steps(resolved, corpus, manifest)
    sizes = {name: len(rows) for name, rows in corpus.parts.items()}
    comparison, verdict = _comparison_seconds(resolved, corpus, watch), _verdict_seconds(resolved, corpus)
    other = start + watch.start_seconds + comparison + verdict
    return Plan(
        sizes=sizes,
        class_counts=_class_counts(corpus),
        input_shape=corpus.train.input_shape,
        twins=groups,
        leaked=shared,
        bytes=uses,
        peak_bytes=_peak_bytes(uses),
        is_in_memory=isinstance(corpus.train.x, Tensor) or corpus.train.x.is_in_memory,
        epochs=watch.epochs,
        batches=watch.batches,
        step_seconds=watch.step_seconds,
        other_seconds=other,
        total_seconds=_epoch_seconds(config, watch, sum(sizes.values()) - sizes["train"]) + other + feature_seconds,
        pretrained=resolved.model.features,
        feature_rows=feature_rows,
        feature_seconds=feature_seconds,
        warnings=[*pretrained.notes(config, resolved, corpus), *watch.warnings],
    )


def _time_features(config: RunConfig, corpus: Corpus) -> tuple[RunConfig, Corpus, int, float]:
    """Return the configuration and the rows with features, how many are not cached, and their time.

    Nobody waits for them here: rows get random ones, which cost as much afterwards.
    """
    resolved = pretrained.resolve(config, corpus)
    if resolved.model.features == pretrained.NONE:
        return resolved, corpus, 0, 0.0
    distributed.use_threads(config.train)
    encoder = pretrained.open_encoder(resolved.model, corpus)
    encodable = [pretrained.as_encodable(rows, encoder) for rows in corpus.parts.values()]
    num_rows, seconds = sum(map(len, encodable)), 0.0
    num_missing = num_rows if num_rows > HASHED_ROWS else features.count_missing(encodable)
    if num_missing:
        some = np.arange(min(TIMED_BATCH, len(corpus.train)))
        encodable[0].encode(some)
        begun = time.perf_counter()
        encodable[0].encode(some)
        seconds = (time.perf_counter() - begun) * num_missing / len(some)
    generator = torch.Generator().manual_seed(0)
    random: dict[str, Inputs] = {
        name: torch.randn(len(rows), encoder.num_features, generator=generator) for name, rows in corpus.parts.items()
    }
    return resolved, pretrained.with_features(corpus, encoder, random), num_missing, seconds


def _class_counts(corpus: Corpus) -> dict[str, int]:
    counts = corpus.train.label.bincount(minlength=corpus.num_classes).tolist()
    return dict(zip(corpus.class_names, counts, strict=True))


def _find_duplicates(corpus: Corpus) -> tuple[list[DuplicateGroup] | None, dict[str, list[str]] | None]:
    parts = [corpus.train, *corpus.tests.values()]
    if any(not isinstance(rows.x, Tensor) and len(rows) > HASHED_ROWS for rows in parts):
        return None, None
    keys = hash_rows(corpus.train.x)
    shared = {name: find_leaked_rows(keys, hash_rows(rows.x)) for name, rows in corpus.tests.items()}
    ids = {name: [str(corpus.tests[name].ids[p]) for p in positions] for name, positions in shared.items()}
    return find_duplicates(corpus.train, keys), ids


def _count_bytes(config: RunConfig, corpus: Corpus) -> dict[str, int]:
    """Return the bytes of inputs, per-sample state, weights with the optimiser, and the verdict."""
    config = pretrained.settled(config)
    seen = pretrained.as_trained(config, corpus)
    rows = seen.train
    job = build.task(
        config, rows.label, corpus.num_classes, rows.input_shape, config.train.seed, build.normalisation(seen)
    )
    method = build.method(config, job)
    record = SampleRecord(rows.label, corpus.num_classes)
    networks = [p for net in method.networks().values() for p in net.parameters()]
    mapped = [module for module in method.modules() if isinstance(module, MappedStore)]
    tables = [module for module in method.modules() if isinstance(module, SampleStore) and module not in mapped]
    uses = {
        "inputs": sum(_num_bytes(x) for part in corpus.parts.values() for x in (part.x, part.features)),
        "per-sample state": sum(store.num_bytes for store in tables) + record.num_bytes,
        "weights and optimiser": sum(p.nbytes for p in networks) * OPTIMISER_COPIES[config.optimiser.name],
        "verdict": _count_verdict(config, corpus),
    }
    return {**uses, "tables on disk": sum(store.num_bytes for store in mapped)} if mapped else uses


def _count_verdict(config: RunConfig, corpus: Corpus) -> int:
    """Return the bytes of the columns that a run ends with, and of the second opinion on them."""
    num_rows, num_classes = sum(map(len, corpus.labelled_parts)), corpus.num_classes
    kept = num_classes if num_classes <= DENSE_UP_TO else NUM_KEPT
    columns = num_rows * (COLUMN_BYTES + NUM_TABLES * kept * 8)
    if not second_opinion.is_possible(config, corpus):
        return columns
    # Vectors are taken whole; images are described by a few hundred numbers.
    width = math.prod(corpus.train.input_shape) if len(corpus.train.input_shape) == 1 else IMAGE_FEATURES
    width += 0 if corpus.pretrained is None else corpus.pretrained.num_features
    features = num_rows * width * FEATURE_BYTES
    values = num_rows * max(num_classes, affordable_landmarks(num_rows, num_classes))
    # Feature maps have fewer columns than landmarks, so that twice as many rows may still be kept.
    is_kept = values <= 2 * WHOLE_VALUES
    working = min(values, WHOLE_VALUES) * WORKING_BYTES if is_kept else CHUNK_BYTES
    distances = min(num_rows**2, CHUNK_VALUES) * DISTANCE_BYTES if num_rows <= MOST_ROWS else 0
    return columns + features + working + distances


def _peak_bytes(uses: dict[str, int]) -> int:
    """Return what the run needs at most, from the peak of this process, which has trained a little.

    A saved state is a copy of the per-sample state; it is gone when the labels are judged.
    """
    unit = 1 if sys.platform == "darwin" else 1024
    trained = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return trained + max(uses["per-sample state"], uses["verdict"])


def _num_bytes(x: Inputs | None) -> int:
    if x is None:
        return 0
    return x.nbytes if isinstance(x, Tensor) else x.num_bytes


def _time_steps(config: RunConfig, corpus: Corpus, manifest: noise.Manifest | None) -> _Stopwatch:
    """Train a few steps in a temporary folder, in one process."""
    alone = config.model_copy(update={"train": config.train.model_copy(update={"devices": 1, "folds": 0})})
    watch = _Stopwatch()
    with (
        tempfile.TemporaryDirectory(prefix="surelabel-plan-") as folder,
        contextlib.suppress(Interrupted),
        stop_on_signals() as stop,
    ):
        train(alone, (corpus, manifest), RunDir(folder), watch, watch.has_seen_enough, stop, choose_head=False)
    return watch


def _comparison_seconds(config: RunConfig, corpus: Corpus, watch: _Stopwatch) -> float:
    """Return the seconds in which networks on feature vectors are compared first."""
    comparison = head.compare_what(config, corpus)
    if comparison is None:
        return 0.0
    on_images = comparison.image_visits and comparison.image_visits * head.seconds_per_image(config, corpus)
    return watch.step_seconds * comparison.num_visits / config.train.batch_size + on_images


def _epoch_seconds(config: RunConfig, watch: _Stopwatch, num_evaluated: int) -> float:
    """Return the seconds of all epochs and evaluations at the pace of the timed steps."""
    # Each of N folds trains on (N - 1) / N of the rows.
    training = watch.epochs * watch.batches * max(1, config.train.num_folds)
    evaluated = watch.epochs / config.train.evaluate_every * num_evaluated / config.train.batch_size
    return watch.step_seconds * (training + EVALUATION_SHARE * evaluated)


def _verdict_seconds(config: RunConfig, corpus: Corpus) -> float:
    """Return the seconds of the second opinion and the verdict, from those on some of the rows."""
    num_rows, rng = sum(map(len, corpus.labelled_parts)), np.random.default_rng(config.train.seed)
    chosen = np.sort(rng.permutation(len(corpus.train))[:JUDGED_ROWS])
    some = replace(encode_all(replace(corpus, train=corpus.train.subset(chosen), tests={})), validation=None)
    given, p = some.train.label.numpy(), rng.dirichlet(np.ones(corpus.num_classes), len(chosen)).astype(np.float32)
    soft = TopK.from_dense(p, given)
    columns = {
        "given": given,
        "verdict": np.full(len(given), TRAINED),
        "quality": p[np.arange(len(given)), given],
        "first_learned": rng.integers(0, config.train.epochs + 1, len(given)),
        "target": soft,
        "probability": soft,
    }
    begun = time.perf_counter()
    if second_opinion.judge_run(config, some, columns) is not None:
        return (time.perf_counter() - begun) * num_rows / len(given)
    calibrate(columns)  # takes as long for many rows as for some
    return time.perf_counter() - begun
