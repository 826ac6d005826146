"""A task, a batch and a run that are small enough to compute results by hand."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from surelabel.core import Batch, Clock, Method, Rows, Task, Verdict, View
from surelabel.models import Network


class Slices:
    """Makes networks that copy their input: the n-th copies K logits and h from n (K + 1) on."""

    def __init__(self, num_classes: int, num_networks: int) -> None:
        self.num_classes, self.num_networks, self.num_made = num_classes, num_networks, 0

    def __call__(self, outputs: int | None = None, indicator: bool = False, **_layers: int) -> nn.Module:
        width = self.num_classes + 1
        num_outputs = outputs or self.num_classes  # a (K + 1)th logit takes the place of h
        backbone = nn.Identity()
        backbone.num_features = width * self.num_networks
        network = Network(backbone, num_outputs, indicator=indicator)
        start = width * (self.num_made % self.num_networks)
        with torch.no_grad():
            for layer in (network.classifier, network.indicator):
                if layer is not None:
                    layer.weight.zero_()
                    layer.bias.zero_()
            network.classifier.weight[:, start : start + num_outputs] = torch.eye(num_outputs)
            if network.indicator is not None:
                network.indicator.weight[0, start + self.num_classes] = 1
        self.num_made += 1
        return network


class FakeRun:
    """A Run over a few inputs, without an engine."""

    def __init__(self, x: Tensor, label: Tensor, epoch: int = 1, seen: Tensor | None = None) -> None:
        self.x, self.label = x, label
        self.clock = clock_at(epoch)
        self.record = SimpleNamespace(mean_given_probability=seen)
        self.history: list[dict[str, Any]] = []
        self.notes: dict[str, Any] = {}
        self.num_collected = 0
        self.drawn: dict[str, Tensor] = {}

    @property
    def rng(self) -> torch.Generator:
        return self.clock.generator("run")

    @torch.no_grad()
    def collect(self, function: Callable[[Batch], Tensor], view: View, _train_mode: bool = False) -> Tensor:
        self.num_collected += 1
        index = torch.arange(len(self.label)) if view.indices is None else view.indices
        return function(batch_of(self.x[index], self.label[index], index))

    def draw_rows(self, purpose: str) -> Tensor | None:
        return self.drawn.get(purpose)

    def note(self, name: str, value: Any) -> None:
        self.notes[name] = value


def clock_at(epoch: int, epochs: int = 20, step: int = 0, steps: int = 1, seed: int = 0) -> Clock:
    return Clock("train", epoch, epochs, step, steps, (epoch - 1) / epochs, seed)


def batch_of(
    x: Tensor, label: Tensor, index: Tensor | None = None, weight: Tensor | None = None, copies: int = 1
) -> Batch:
    index = torch.arange(len(label)) if index is None else index
    return Batch(index, (x,) * copies, label, torch.ones(len(label)) if weight is None else weight)


@pytest.fixture(scope="session")
def make_task() -> Callable[..., Task]:
    """A Task over given labels, with networks that copy their input."""

    def make(given: Tensor, num_classes: int = 3, epochs: int = 20, num_networks: int = 1, **others: Any) -> Task:
        factory = Slices(num_classes, num_networks)
        return Task(num_classes, len(given), given, epochs, factory, **others)

    return make


@pytest.fixture(scope="session")
def make_batch() -> Callable[..., Batch]:
    """A Batch of all rows, or of those at `index`."""
    return batch_of


@pytest.fixture(scope="session")
def make_clock() -> Callable[..., Clock]:
    """A Clock at an epoch."""
    return clock_at


@pytest.fixture(scope="session")
def make_run() -> Callable[..., FakeRun]:
    """A Run over inputs and labels."""
    return FakeRun


@pytest.fixture(scope="session")
def verdict_of() -> Callable[..., Verdict]:
    """The verdict of a method on all rows, given the running means of p at their labels."""

    @torch.no_grad()
    def verdict(method: Method, x: Tensor, given: Tensor, seen: Tensor | None = None) -> Verdict:
        record = SimpleNamespace(mean_given_probability=torch.zeros(len(given)) if seen is None else seen)
        return method.verdict(Rows(torch.arange(len(given)), given, method.predict(x), record))

    return verdict
