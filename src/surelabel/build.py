"""The one place that turns a configuration into objects."""

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from surelabel import methods, models, noise
from surelabel.config import DataConfig, ModelConfig, NoiseConfig, RunConfig
from surelabel.core.method import Method, Task
from surelabel.core.plan import seed_of
from surelabel.data import load_corpus
from surelabel.data.examples import Corpus
from surelabel.data.loaders import Loader
from surelabel.data.transforms import Augment, statistics
from surelabel.errors import ConfigError
from surelabel.models.network import Network

MEASURED_ROWS = 4096
"""Of inputs that are not in memory, the rows whose mean and deviation stand for all."""


def corpus(data: DataConfig, noise_config: NoiseConfig | None, seed: int) -> tuple[Corpus, noise.Manifest | None]:
    """The data set, with noise injected into its training and held-out labels where that was asked for."""
    loaded = load_corpus(data)
    if noise_config is None:
        return loaded, None
    parts = [part for part in (loaded.train, loaded.validation) if part is not None]
    clean = torch.cat([part.label if part.clean is None else part.clean for part in parts])
    given, manifest = noise.inject(
        clean.numpy(), loaded.class_names, noise_config, seed if noise_config.seed is None else noise_config.seed
    )
    labels = torch.from_numpy(given).split([len(part) for part in parts])
    noisy = [
        replace(p, label=label, clean=p.label if p.clean is None else p.clean)
        for p, label in zip(parts, labels, strict=True)
    ]
    return replace(loaded, train=noisy[0], validation=noisy[1] if len(noisy) > 1 else None), manifest


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

    def __call__(self, outputs: int | None = None, indicator: bool = False, indicator_layers: int = 1) -> nn.Module:
        """A network with `outputs` logits, and an indicator branch if asked for."""
        name = models.auto_name(self.input_shape) if self.config.name == "auto" else self.config.name
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_of(self.seed, "network", self.num_made))
            backbone = models.backbone(name, self.input_shape, self.config.options)
            network = Network(
                backbone,
                cast(int, backbone.num_features),
                outputs or self.num_classes,
                mean=self.mean,
                std=self.std,
                indicator=indicator,
                indicator_layers=indicator_layers,
            )
        self.num_made += 1
        return network


def normalisation(corpus: Corpus) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of inputs, in a shape that broadcasts to one of them."""
    x, look = corpus.train.x, corpus.look
    if look.mean is not None and look.std is not None:
        mean, std = torch.tensor(look.mean), torch.tensor(look.std)
    else:
        mean, std = statistics(x if isinstance(x, Tensor) else x[_spread(len(x), MEASURED_ROWS)])
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
    rows, train, look = corpus.train, config.train, corpus.look
    wanted = rows.is_image and max(rows.x.shape[2:]) > models.TINY_SIDE if train.augment is None else train.augment
    if wanted and not rows.is_image:
        raise ConfigError(
            "train.augment: only images can be cropped and flipped, these are feature vectors; use auto or false"
        )
    padding = look.crop_padding if train.crop_padding is None else train.crop_padding
    flip = look.flip if train.flip is None else train.flip
    augment = Augment(padding, flip, train.seed) if wanted else None
    return Loader(rows, train.batch_size, train.seed, augment, device)
