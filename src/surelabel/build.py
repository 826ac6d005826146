"""The one place that turns a configuration into objects."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from surelabel import methods, models, noise
from surelabel.config import DataConfig, ModelConfig, NoiseConfig, RunConfig, TrainConfig
from surelabel.core.method import Method, Task
from surelabel.core.plan import seed_of
from surelabel.data import load_corpus
from surelabel.data.examples import Corpus, Examples
from surelabel.data.loaders import Loader
from surelabel.data.transforms import Augment, statistics
from surelabel.errors import ConfigError
from surelabel.models.network import Network


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
        Examples(p.x, label, p.ids, p.label if p.clean is None else p.clean)
        for p, label in zip(parts, labels, strict=True)
    ]
    return Corpus(noisy[0], loaded.class_names, noisy[1] if len(noisy) > 1 else None, loaded.tests), manifest


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


def normalisation(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of inputs, in a shape that broadcasts to one of them."""
    shape = (-1, *[1] * (x.dim() - 2))
    mean, std = statistics(x)
    return mean.view(shape), std.view(shape)


def task(
    config: RunConfig,
    given: Tensor,
    num_classes: int,
    input_shape: tuple[int, ...],
    seed: int,
    scale: tuple[Tensor, Tensor],
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
    )


def method(config: RunConfig, job: Task) -> Method:
    """The configured method for a task."""
    name = config.method.name
    return methods.find(name)(job, **methods.checked_options(name, config.method.options))


def loader(config: TrainConfig, rows: Examples, device: torch.device) -> Loader:
    """Batches of the training rows, augmented where that makes sense."""
    wanted = rows.is_image and max(rows.x.shape[2:]) > models.TINY_SIDE if config.augment is None else config.augment
    if wanted and not rows.is_image:
        raise ConfigError(
            "train.augment: only images can be cropped and flipped, these are feature vectors; use auto or false"
        )
    augment = Augment(config.crop_padding, config.flip, config.seed) if wanted else None
    return Loader(rows, config.batch_size, config.seed, augment, device)
