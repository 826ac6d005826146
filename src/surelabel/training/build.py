"""The one place that turns a configuration into objects."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from surelabel import methods, models, noise
from surelabel.config import DataConfig, ModelConfig, NoiseConfig, RunConfig
from surelabel.core.method import Method, Opinion, Task, no_opinion
from surelabel.core.stages import seed_of
from surelabel.core.tables import TableForm
from surelabel.data import load_corpus
from surelabel.data.augment import Augment, input_statistics
from surelabel.data.corpus import Corpus, Examples
from surelabel.data.encodable import Encoder
from surelabel.data.loader import Loader
from surelabel.data.relabel import mark_trusted
from surelabel.encoding.encode import attach_encoder
from surelabel.errors import ConfigError
from surelabel.models.network import Network
from surelabel.training import second_opinion

DENSE_BELOW = 2**28
"""Bytes up to which a table of all rows and classes is dense, unless that is configured."""
MEASURED_ROWS, MEASURED_BYTES = 4096, 2**27
"""The most rows and bytes used to estimate mean and deviation of inputs outside memory."""


def corpus(
    data: DataConfig,
    noise_config: NoiseConfig | None,
    seed: int,
    given: Any = None,
    encoder: Encoder | None = None,
) -> tuple[Corpus, noise.Manifest | None]:
    """Load the data set, or the object `given` for it, and inject noise if configured.

    Noise goes into the labels of training and held-out rows. The `encoder` of an earlier run makes
    features of text; without it, one is fitted.
    """
    loaded = attach_encoder(load_corpus(data, given, encoder), data, encoder)
    if noise_config is None:
        return mark_trusted(loaded, data), None
    parts = loaded.labelled_parts
    clean = torch.cat([part.label if part.clean is None else part.clean for part in parts])
    ids = np.concatenate([part.ids for part in parts])
    given, manifest = noise.inject(
        clean.numpy(), loaded.class_names, noise_config, seed, ids=ids, inputs=_make_reader(parts)
    )
    labels = torch.split(torch.from_numpy(given), [len(part) for part in parts])
    noisy = [
        replace(p, label=label, clean=p.label if p.clean is None else p.clean, original=None, trusted=None)
        for p, label in zip(parts, labels, strict=True)
    ]
    injected = replace(loaded, train=noisy[0], validation=noisy[1] if len(noisy) > 1 else None)
    marked = mark_trusted(injected, data, before=loaded)
    return marked, _restate(manifest, marked)


def _restate(manifest: noise.Manifest, corpus: Corpus) -> noise.Manifest:
    """Describe the labels that are trained on: confirmed ones are set after the draw."""
    parts = corpus.labelled_parts
    num_set = sum(int(part.trusted.sum()) for part in parts if part.trusted is not None)
    num_removed = manifest.num_samples - sum(map(len, parts))
    if not num_set and not num_removed:
        return manifest
    label, clean = (torch.cat([getattr(part, name) for part in parts]).numpy() for name in ("label", "clean"))
    remark = f"then {num_set} confirmed labels set" + (f" and {num_removed} rows removed" if num_removed else "")
    restated = noise.restate(manifest, clean, label, remark)
    ids = np.concatenate([part.ids for part in parts])
    return restated.model_copy(update={"ids_sha256": noise.ids_sha256(ids)}) if num_removed else restated


def _make_reader(parts: list[Examples]) -> noise.Inputs:
    """Return a function that reads inputs at rising row numbers, counted over all parts."""
    *starts, _ = np.cumsum([0, *map(len, parts)])

    def read(rows: np.ndarray) -> np.ndarray:
        pieces = zip(parts, starts, np.split(rows, np.searchsorted(rows, starts[1:])), strict=True)
        found = [part.x[torch.from_numpy(piece - start)] for part, start, piece in pieces if len(piece)]
        return torch.cat(found).numpy()

    return read


Scale = tuple[Tensor | None, Tensor | None]
"""Mean and standard deviation of raw inputs; None leaves inputs unscaled."""


@dataclass
class NetworkFactory:
    """Makes the networks of a run; each call draws different initial weights from one seed."""

    config: ModelConfig
    input_shape: tuple[int, ...]
    num_classes: int
    seed: int
    mean: Tensor | None = None
    std: Tensor | None = None
    size: int | None = None
    """Pixels per side at which networks see images, if they are scaled to that."""
    reads_weights: bool = True
    """Whether backbones start from the configured weights; if not, theirs are loaded later."""
    num_made: int = 0
    notes: list[str] = field(default_factory=list)
    """Notes on weights in a file that were not used."""

    def __call__(self, outputs: int | None = None, indicator: bool = False, indicator_layers: int = 1) -> nn.Module:
        """Make a network with `outputs` logits, and an indicator branch if asked for."""
        config = self.config
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_of(self.seed, "network", self.num_made))
            shape = self.input_shape if self.size is None else (self.input_shape[0], self.size, self.size)
            weights = config.weights if self.reads_weights else None
            backbone = models.make_backbone(config.name, shape, config.options)
            note = None if weights is None else models.start_from(backbone, weights)
            mean, std = self._scale(backbone, shape)
            network = Network(
                backbone,
                outputs or self.num_classes,
                mean=mean,
                std=std,
                frozen=config.freeze,
                size=self.size,
                indicator=indicator,
                indicator_layers=indicator_layers,
                mirror=config.mirror,
            )
        self.num_made += 1
        self.notes += [note] if note is not None and note not in self.notes else []
        return network

    def _scale(self, backbone: nn.Module, shape: tuple[int, ...]) -> Scale:
        """Return the scale of inputs that the weights expect, if that is known and wanted."""
        by_weights = self.config.weights is not None and self.config.normalise_as == "weights"
        return (models.get_pixel_scale(backbone, shape) if by_weights else None) or (self.mean, self.std)


def size_seen(config: RunConfig) -> int | None:
    """Return the pixels per side to which images are scaled for a network with pretrained weights.

    None if they keep the size that the user chose, or that all other networks get.
    """
    model, data = config.model, config.data
    if model.weights is None or data.image_size is not None or data.crop is not None:
        return None
    return model.feature_size or models.intended_size(model.name, model.weights)


def data_for(config: RunConfig) -> DataConfig:
    """Return the settings of the data, with images as large as a pretrained network wants them."""
    if config.data.largest_size is not None:
        return config.data
    return config.data.model_copy(update={"largest_size": size_seen(config)})


def notes(method: Method) -> list[str]:
    """Return notes for the user on the initial weights of a method's networks."""
    factory = method.task.network
    return list(factory.notes) if isinstance(factory, NetworkFactory) else []


def normalisation(corpus: Corpus) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of inputs, in a shape that broadcasts to one input."""
    x, look = corpus.train.x, corpus.image_defaults
    if look.mean is not None and look.std is not None:
        mean, std = torch.tensor(look.mean), torch.tensor(look.std)
    else:
        most = max(1, min(MEASURED_ROWS, MEASURED_BYTES // (math.prod(x.shape[1:]) * x.dtype.itemsize)))
        mean, std = input_statistics(x if isinstance(x, Tensor) else x[_spread_rows(len(x), most)])
    if corpus.has_term_weights:
        std = torch.full_like(std, float(std.square().mean().sqrt()))
    shape = (-1, *[1] * (len(x.shape) - 2))
    return mean.view(shape), std.view(shape)


def _spread_rows(num_rows: int, most: int) -> Tensor:
    """Return at most `most` positions, evenly spaced over all rows."""
    return torch.linspace(0, num_rows - 1, min(most, num_rows)).long()


def task(
    config: RunConfig,
    given: Tensor,
    num_classes: int,
    input_shape: tuple[int, ...],
    seed: int,
    scale: tuple[Tensor, Tensor],
    trusted: Tensor | None = None,
    opinion: Callable[[], Opinion | None] = no_opinion,
    folder: Path | None = None,
    reads_weights: bool = True,
) -> Task:
    """Make the task of a method: labels, lengths, and a factory of networks drawn from `seed`."""
    size = size_seen(config) if len(input_shape) == 3 else None
    return Task(
        num_classes=num_classes,
        num_samples=len(given),
        given=given,
        epochs=config.train.epochs,
        network=NetworkFactory(
            config.model, input_shape, num_classes, seed, *scale, size=size, reads_weights=reads_weights
        ),
        restart_period=config.optimiser.rate_period,
        uses_sgd=config.optimiser.name == "sgd",
        seed=seed,
        trusted=trusted,
        batch_size=config.train.batch_size,
        visits_per_epoch=_visits_per_epoch(config, len(given)),
        opinion=opinion,
        form=table_form(config, len(given), num_classes, folder),
    )


def table_form(config: RunConfig, num_rows: int, num_classes: int, folder: Path | None = None) -> TableForm:
    """Return how the (N, K) tables of the method are kept; files go to, or beside, `folder`."""
    wanted, kept = config.train.store, config.train.store_k
    allowed = methods.find(config.method.name).table_forms
    if wanted == "auto":
        is_large = num_rows * num_classes * 4 > DENSE_BELOW and num_classes > kept
        wanted = "topk" if is_large and "topk" in allowed else "dense"
    if wanted not in allowed:
        able = [name for name in methods.names() if wanted in methods.find(name).table_forms]
        raise ConfigError(
            f"train.store: {config.method.name} has no {wanted} tables; use auto or dense, or the method "
            f"{', '.join(able[:-1])} or {able[-1]}"
        )
    if folder is None or wanted != "memmap":
        return TableForm(wanted, kept)
    return TableForm(wanted, kept, next(place for place in (folder, *folder.absolute().parents) if place.is_dir()))


def _visits_per_epoch(config: RunConfig, num_rows: int) -> float:
    epoch = config.data.epoch
    return 1.0 if epoch == "all" else min(1.0, epoch.batches * config.train.batch_size / max(1, num_rows))


def method(config: RunConfig, task: Task) -> Method:
    """Make the configured method for a task."""
    name = config.method.name
    return methods.find(name)(task, **methods.validate_options(name, config.method.options))


def method_for(
    config: RunConfig,
    corpus: Corpus,
    scale: tuple[Tensor, Tensor],
    seed: int,
    opinion: Callable[[], Opinion | None] | None = None,
    folder: Path | None = None,
) -> Method:
    """Make the configured method for the training rows, with networks drawn from `seed`.

    It forms its own second opinion on them, if it wants one, unless it is given `opinion`. Tables
    in files are in `folder`, or beside it.
    """
    rows = corpus.train
    form = opinion or second_opinion.TrainingRows(config, corpus)
    made = task(config, rows.label, corpus.num_classes, rows.input_shape, seed, scale, rows.trusted, form, folder)
    return method(config, made)


def loader(config: RunConfig, corpus: Corpus, device: torch.device) -> Loader:
    """Make the loader of training rows, augmented by default if they are images."""
    rows, train, look = corpus.train, config.train, corpus.image_defaults
    wanted = rows.is_image and max(rows.x.shape[2:]) > models.TINY_SIDE if train.augment is None else train.augment
    if wanted and not rows.is_image:
        raise ConfigError(
            "train.augment: only images can be cropped and flipped, these are feature vectors; use auto or false"
        )
    crop = rows.crop if rows.is_image else None
    if crop and crop > min(rows.x.shape[2:]):
        raise ConfigError(f"data.crop: {crop} is larger than the images, {rows.x.shape[2]} x {rows.x.shape[3]} pixels")
    usual = 0 if crop else look.crop_padding
    padding = usual if train.crop_padding is None else train.crop_padding
    flip = look.flip if train.flip is None else train.flip
    augment = Augment(padding, flip, train.seed, crop) if wanted else None
    return Loader(rows, train.batch_size, train.seed, augment, device)
