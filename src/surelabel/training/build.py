"""The one place that turns a configuration into objects."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from surelabel import methods, models, noise
from surelabel.config import DataConfig, ModelConfig, NoiseConfig, RunConfig
from surelabel.core.method import Method, Task
from surelabel.core.stages import seed_of
from surelabel.data import load_corpus
from surelabel.data.augment import Augment, input_statistics
from surelabel.data.corpus import Corpus, Examples
from surelabel.data.loader import Loader
from surelabel.data.relabel import mark_trusted
from surelabel.errors import ConfigError
from surelabel.models.network import Network

MEASURED_ROWS, MEASURED_BYTES = 4096, 2**27
"""Of inputs that are not in memory, the most rows and bytes whose mean and deviation stand for all."""


def corpus(
    data: DataConfig, noise_config: NoiseConfig | None, seed: int, given: Any = None
) -> tuple[Corpus, noise.Manifest | None]:
    """The data set, or the object `given` for it, with noise injected into its training and held-out labels if asked for."""
    loaded = load_corpus(data, given)
    if noise_config is None:
        return mark_trusted(loaded, data), None
    parts = _labelled(loaded)
    clean = torch.cat([part.label if part.clean is None else part.clean for part in parts])
    ids = np.concatenate([part.ids for part in parts])
    given, manifest = noise.inject(
        clean.numpy(), loaded.class_names, noise_config, seed, ids=ids, inputs=_reader(parts)
    )
    labels = torch.from_numpy(given).split([len(part) for part in parts])
    noisy = [
        replace(p, label=label, clean=p.label if p.clean is None else p.clean)
        for p, label in zip(parts, labels, strict=True)
    ]
    injected = replace(loaded, train=noisy[0], validation=noisy[1] if len(noisy) > 1 else None)
    marked = mark_trusted(injected, data, before=loaded)
    return marked, _restated(manifest, marked)


def _labelled(corpus: Corpus) -> list[Examples]:
    """The parts that noise goes into."""
    return [part for part in (corpus.train, corpus.validation) if part is not None]


def _restated(manifest: noise.Manifest, corpus: Corpus) -> noise.Manifest:
    """The record of the labels that are trained on: confirmed ones are set after the draw."""
    parts = _labelled(corpus)
    num_set = sum(int(part.trusted.sum()) for part in parts if part.trusted is not None)
    if not num_set:
        return manifest
    label, clean = (torch.cat([getattr(part, name) for part in parts]).numpy() for name in ("label", "clean"))
    return noise.restated(manifest, clean, label, f"then {num_set} confirmed labels set")


def _reader(parts: list[Examples]) -> noise.Inputs:
    """Inputs of all parts at rising row numbers, counted over the parts."""
    *starts, _ = np.cumsum([0, *map(len, parts)])

    def read(rows: np.ndarray) -> np.ndarray:
        pieces = zip(parts, starts, np.split(rows, np.searchsorted(rows, starts[1:])), strict=True)
        found = [part.x[torch.from_numpy(piece - start)] for part, start, piece in pieces if len(piece)]
        return torch.cat(found).numpy()

    return read


Scale = tuple[Tensor | None, Tensor | None]
"""Mean and standard deviation of raw inputs; None leaves them as they are."""


@dataclass
class NetworkFactory:
    """Makes a run's networks: each call draws other initial weights, all from one seed."""

    config: ModelConfig
    input_shape: tuple[int, ...]
    num_classes: int
    seed: int
    mean: Tensor | None = None
    std: Tensor | None = None
    num_made: int = 0
    notes: list[str] = field(default_factory=list)
    """What in a file of weights was not used."""

    def __call__(self, outputs: int | None = None, indicator: bool = False, indicator_layers: int = 1) -> nn.Module:
        """A network with `outputs` logits, and an indicator branch if asked for."""
        # Features that a frozen backbone gave are inputs to what comes after it, and to nothing else.
        config = self.config.on_features if self.config.cache_features else self.config
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_of(self.seed, "network", self.num_made))
            backbone, (mean, std), note = started(config, self.input_shape, (self.mean, self.std))
            network = Network(
                backbone,
                cast(int, backbone.num_features),
                outputs or self.num_classes,
                mean=mean,
                std=std,
                frozen=config.freeze,
                indicator=indicator,
                indicator_layers=indicator_layers,
            )
        self.num_made += 1
        self.notes += [note] if note is not None and note not in self.notes else []
        return network


def started(config: ModelConfig, input_shape: tuple[int, ...], scale: Scale) -> tuple[nn.Module, Scale, str | None]:
    """A backbone with the weights it starts from, the scale of inputs that these expect, else `scale`, and a note for the user."""
    backbone = models.backbone(config.name, input_shape, config.options)
    if config.weights is None:
        return backbone, scale, None
    note = models.start_from(backbone, config.weights)
    own = models.pixel_scale(backbone, input_shape)
    return backbone, scale if own is None else own, note


def untrained(config: RunConfig) -> RunConfig:
    """The same without weights to start from, for networks that get a run's own."""
    return config.model_copy(update={"model": config.model.model_copy(update={"weights": None})})


def notes(method: Method) -> list[str]:
    """What is to be said about the weights that a method's networks started from."""
    factory = method.task.network
    return list(factory.notes) if isinstance(factory, NetworkFactory) else []


def normalisation(corpus: Corpus) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of inputs, in a shape that broadcasts to one of them."""
    x, look = corpus.train.x, corpus.image_defaults
    if look.mean is not None and look.std is not None:
        mean, std = torch.tensor(look.mean), torch.tensor(look.std)
    else:
        most = max(1, min(MEASURED_ROWS, MEASURED_BYTES // (math.prod(x.shape[1:]) * x.dtype.itemsize)))
        mean, std = input_statistics(x if isinstance(x, Tensor) else x[_spread(len(x), most)])
    shape = (-1, *[1] * (len(x.shape) - 2))
    return mean.view(shape), std.view(shape)


def _spread(num_rows: int, most: int) -> Tensor:
    """At most so many positions, evenly over all."""
    return torch.linspace(0, num_rows - 1, min(most, num_rows)).long()


def task(
    config: RunConfig,
    given: Tensor,
    num_classes: int,
    input_shape: tuple[int, ...],
    seed: int,
    scale: tuple[Tensor, Tensor],
    trusted: Tensor | None = None,
) -> Task:
    """What a method is told: labels, lengths, and networks drawn from `seed` for inputs of that shape and (mean, std)."""
    return Task(
        num_classes=num_classes,
        num_samples=len(given),
        given=given,
        epochs=config.train.epochs,
        network=NetworkFactory(config.model, input_shape, num_classes, seed, *scale),
        rate_period=config.optimiser.rate_period,
        seed=seed,
        trusted=trusted,
    )


def method(config: RunConfig, job: Task) -> Method:
    """The configured method for a task."""
    name = config.method.name
    return methods.find(name)(job, **methods.checked_options(name, config.method.options))


def loader(config: RunConfig, corpus: Corpus, device: torch.device) -> Loader:
    """Batches of the training rows, augmented where that makes sense."""
    rows, train, look = corpus.train, config.train, corpus.image_defaults
    wanted = rows.is_image and max(rows.x.shape[2:]) > models.TINY_SIDE if train.augment is None else train.augment
    if wanted and not rows.is_image:
        raise ConfigError(
            "train.augment: only images can be cropped and flipped, these are feature vectors; use auto or false"
        )
    crop = rows.crop if rows.is_image else None
    if crop and crop > min(rows.x.shape[2:]):
        raise ConfigError(f"data.crop: {crop} is more than images of {rows.x.shape[2]} x {rows.x.shape[3]} pixels have")
    usual = 0 if crop else look.crop_padding
    padding = usual if train.crop_padding is None else train.crop_padding
    flip = look.flip if train.flip is None else train.flip
    augment = Augment(padding, flip, train.seed, crop) if wanted else None
    return Loader(rows, train.batch_size, train.seed, augment, device)
