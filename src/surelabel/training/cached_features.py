"""Features computed once: a frozen backbone runs over all rows, without augmentation, and the run trains on what it gives."""

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
from surelabel.runs.run_dir import RunDir, read_tensors
from surelabel.training import build

FILE = "features.safetensors"
"""In the run directory: the backbone's weights, so that predicting needs no other file."""
VERSION = 1
"""Of how features are computed; another one makes the cached ones void."""
BATCH = 128
CHUNK = 16 * BATCH
"""Rows after which progress may be told."""
TELL_EVERY = 10.0
"""Seconds."""
IN_MEMORY_BELOW = 2 * 2**30
"""Bytes of features that are read into memory; more stay in their file."""

Say = Callable[[str], None]


def extractor(config: RunConfig, corpus: Corpus, run_dir: RunDir, say: Say) -> Extractor | None:
    """The backbone that gives the features of a run; None where networks train on the inputs themselves."""
    if not config.model.cache_features:
        return None
    if config.train.augment:
        raise ConfigError("train.augment: features are computed once, without augmentation; use null or false")
    if run_dir.has_begun:
        return load(run_dir)
    made, note = _built(config, corpus.train.input_shape, build.normalisation(corpus))
    if note is not None:
        say(note)
    return made


def _built(config: RunConfig, input_shape: tuple[int, ...], scale: build.Scale) -> tuple[Extractor, str | None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(config.train.seed, "features"))
        backbone, (mean, std), note = build.started(config.model, input_shape, scale)
    return Extractor(backbone, mean=mean, std=std, frozen=True), note


def keep(run_dir: RunDir, extractor: Extractor) -> None:
    """Write the backbone's weights into the run directory."""
    from safetensors.torch import save_file

    weights = {name: value.contiguous().cpu() for name, value in extractor.state_dict().items()}
    run_dir.write(FILE, lambda path: save_file(weights, path))


def load(run_dir: RunDir) -> Extractor:
    """The backbone that the features of a run came from."""
    shape, file = tuple(run_dir.data()["input_shape"]), run_dir.path / FILE
    scale_shape = (shape[0], *[1] * (len(shape) - 1))
    made, _ = _built(build.untrained(run_dir.config()), shape, (torch.zeros(scale_shape), torch.ones(scale_shape)))
    weights = read_tensors(file)
    try:
        made.load_state_dict(weights)
    except RuntimeError:  # its text has a line for each kind of mismatch, with all names
        raise RunError(f"{file}: the backbone does not fit the run's configuration") from None
    return made


def extract(corpus: Corpus, extractor: Extractor | None, config: RunConfig, say: Say) -> Corpus:
    """The corpus with features instead of inputs; without an extractor it is left as it is."""
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
    """What decides about features besides the inputs: the network, its weights and its normalisation."""
    digest = hashlib.sha256(repr((VERSION, config.model.name, sorted(config.model.options.items()))).encode())
    for name, value in sorted(extractor.state_dict().items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


class _Sweep:
    """Runs a backbone over rows, or finds what it gave before."""

    def __init__(self, extractor: Extractor, device: torch.device, weights: str, say: Say) -> None:
        self.extractor, self.device, self.weights, self.say = extractor, device, weights, say

    def of(self, rows: Examples) -> Examples:
        """The rows with their features as inputs."""
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
