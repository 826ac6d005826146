"""Cached features: a frozen backbone runs once over all rows, and the run trains on its outputs."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from surelabel.config import RunConfig
from surelabel.core.stages import View, seed_of
from surelabel.data import cache
from surelabel.data.corpus import Corpus, Examples
from surelabel.data.inputs import Inputs, MappedInputs, digest_inputs
from surelabel.data.loader import Loader
from surelabel.data.sources.interface import ImageDefaults
from surelabel.engine import distributed
from surelabel.errors import ConfigError, RunError
from surelabel.models import Extractor
from surelabel.runs.run_dir import RunDir
from surelabel.training import build

FILE = "features.safetensors"
"""The weights of the backbone in the run directory, so that predicting needs no other file."""
VERSION = 1
"""Version of the computation of features; another version ignores cached ones."""
BATCH = 128
CHUNK = 16 * BATCH
"""Rows between checks whether to report progress."""
TELL_EVERY = 10.0
"""Seconds between reports of progress."""
IN_MEMORY_BELOW = 2 * 2**30
"""Bytes up to which features are read into memory; larger ones stay in their file."""

Say = Callable[[str], None]


def extractor(config: RunConfig, corpus: Corpus, run_dir: RunDir, say: Say) -> Extractor | None:
    """Return the backbone whose features the run trains on; None if it trains on the inputs."""
    if not config.model.cache_features:
        return None
    if config.train.augment:
        raise ConfigError("train.augment: features are computed once, without augmentation; use null or false")
    if run_dir.is_prepared:
        return load(run_dir)
    made, note = _build(config, corpus.train.input_shape, build.normalisation(corpus))
    if note is not None:
        say(note)
    return made


def _build(config: RunConfig, input_shape: tuple[int, ...], scale: build.Scale) -> tuple[Extractor, str | None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(config.train.seed, "features"))
        backbone, (mean, std), note = build.make_backbone(config.model, input_shape, scale)
    return Extractor(backbone, mean=mean, std=std, frozen=True), note


def keep(run_dir: RunDir, extractor: Extractor) -> None:
    """Write the backbone's weights into the run directory."""
    weights = {name: value.contiguous().cpu() for name, value in extractor.state_dict().items()}
    run_dir.write_tensors(FILE, weights)


def load(run_dir: RunDir) -> Extractor:
    """Load the backbone that computed the features of a run."""
    shape, file = tuple(run_dir.data()["input_shape"]), run_dir.path / FILE
    scale_shape = (shape[0], *[1] * (len(shape) - 1))
    scale = torch.zeros(scale_shape), torch.ones(scale_shape)
    made, _ = _build(build.without_weights(run_dir.config()), shape, scale)
    weights = run_dir.tensors(FILE)
    try:
        made.load_state_dict(weights)
    except RuntimeError:  # its text lists every mismatch on lines of their own
        raise RunError(f"{file}: the backbone does not fit the run's configuration") from None
    return made


def extract(corpus: Corpus, extractor: Extractor | None, config: RunConfig, say: Say) -> Corpus:
    """Replace the inputs of a corpus by features; without an extractor return it unchanged."""
    if extractor is None:
        return corpus
    if config.train.threads is not None:
        torch.set_num_threads(config.train.threads)
    device = torch.device(distributed.device_name(config.train))
    sweep = _Sweep(extractor.to(device), device, _digest(config, extractor), say)
    return replace(
        corpus,
        train=sweep.of(corpus.train),
        validation=None if corpus.validation is None else sweep.of(corpus.validation),
        tests={name: sweep.of(rows) for name, rows in corpus.tests.items()},
        image_defaults=ImageDefaults(),
    )


def _digest(config: RunConfig, extractor: Extractor) -> str:
    """Hash all that determines features besides inputs: network, weights and normalisation."""
    digest = hashlib.sha256(repr((VERSION, config.model.name, sorted(config.model.options.items()))).encode())
    for name, value in sorted(extractor.state_dict().items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


class _Sweep:
    """Runs a backbone over rows, or reads the cached features."""

    def __init__(self, extractor: Extractor, device: torch.device, weights: str, say: Say) -> None:
        self.extractor, self.device, self.weights, self.say = extractor, device, weights, say

    def of(self, rows: Examples) -> Examples:
        """Return the rows with their features as inputs."""
        key = cache.make_key("features", self.weights, digest_inputs(rows.x), tuple(rows.x.shape), rows.crop)
        found = cache.load_or_fill(
            key, (len(rows), self.extractor.num_features), np.float32, lambda out: self._fill(out, rows)
        )
        return replace(rows, x=_inputs(found, key), crop=None)

    @torch.no_grad()
    def _fill(self, out: np.ndarray, rows: Examples) -> None:
        self.say(f"computing the features of {len(rows):,} rows, once; they are kept in {cache.folder()}")
        loader, began = Loader(rows, BATCH, device=self.device), time.monotonic()
        told = began
        for start in range(0, len(rows), CHUNK):
            view = View(torch.arange(start, min(start + CHUNK, len(rows))), augment=False, batch_size=BATCH)
            features = loader.collect(lambda batch: self.extractor(batch.x), view).float().cpu()
            _refuse_not_finite(features, rows.ids[start:])
            out[start : start + len(features)] = features.numpy()
            done, now = start + len(features), time.monotonic()
            if now - told >= TELL_EVERY:
                told, left = now, (now - began) / done * (len(rows) - done)
                self.say(f"features: {done:,} of {len(rows):,} rows, {left:.0f} s left")


def _refuse_not_finite(features: Tensor, ids: np.ndarray) -> None:
    bad = ~torch.isfinite(features).all(1)
    if bad.any():
        name = ids[int(bad.nonzero()[0])]
        raise ConfigError(f"model.weights: the backbone gives NaN or infinite features for the row {name}")


def _inputs(array: np.ndarray, key: str) -> Inputs:
    if isinstance(array, np.memmap) and array.nbytes > IN_MEMORY_BELOW:
        return MappedInputs(Path(str(array.filename)), array, stamp=key)
    return torch.from_numpy(np.array(array))
