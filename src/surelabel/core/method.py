"""What a training method is: networks, per-sample state, and a description of its training."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from surelabel.core.batch import Batch
from surelabel.core.stages import Clock, Stage, View
from surelabel.core.state import SampleStore


class NetworkFactory(Protocol):
    """Makes the networks of a run; each call draws other initial weights from the run's seed."""

    def __call__(self, outputs: int | None = None, indicator: bool = False, indicator_layers: int = 1) -> nn.Module:
        """A network with `outputs` logits (default: one per class) that maps x to Outputs."""


@dataclass(frozen=True)
class Task:
    """What a method may know about the job. No clean label and no noise rate is in it."""

    num_classes: int
    num_samples: int
    given: Tensor
    """(N,) given labels of the training rows."""
    epochs: int
    """Epochs of the whole run, which a method with several stages divides."""
    network: NetworkFactory
    rate_period: int = 1
    """Epochs per learning-rate restart; 1 without restarts."""
    seed: int = 0
    trusted: Tensor | None = None
    """(N,) bool: rows whose given label a person has confirmed; None is nobody's."""

    def share(self, fraction: float, least: int = 1) -> int:
        """`fraction` of the run in whole epochs: how lengths that a paper gives in its own epochs carry over."""
        return max(least, round(fraction * self.epochs))

    def warm_up(self, fraction: float) -> int:
        """`fraction` of the run, but at least five epochs where the run has ten: after fewer, losses do not tell labels apart."""
        return self.share(fraction, least=max(1, min(5, self.epochs // 2)))


@dataclass(frozen=True)
class Step:
    """What a training step returns."""

    terms: Mapping[str, Tensor]
    """Named, already weighted scalars; their sum is the objective."""
    seen: Tensor | None = None
    """(B, K) logits of the unmixed first view, from which the engine keeps each sample's history."""


class Record(Protocol):
    """Each training sample's history, as (N,) tensors: what the network said when the sample was trained on."""

    @property
    def visits(self) -> Tensor:
        """Epochs in which the sample was seen; 0 for rows that never were."""

    @property
    def prediction(self) -> Tensor:
        """The class predicted at the last visit."""

    @property
    def mean_given_probability(self) -> Tensor:
        """The running mean over visits of p at the given label."""

    @property
    def mean_margin(self) -> Tensor:
        """The running mean of the given label's logit minus the largest other."""

    @property
    def first_learned(self) -> Tensor:
        """The epoch at which the given label was first predicted; 0 for never."""

    @property
    def forgotten(self) -> Tensor:
        """How often the prediction went from the given label to another."""


class Run(Protocol):
    """The handle that `plan`, `then`, `stop` and the verdict get. No loader, optimiser, rank or path is behind it."""

    @property
    def clock(self) -> Clock:
        """Where training stands, at the start of the current epoch."""

    @property
    def record(self) -> Record:
        """Each training sample's history."""

    @property
    def history(self) -> Sequence[Mapping[str, Any]]:
        """One row of metrics per finished epoch."""

    @property
    def all(self) -> Tensor:
        """(N,) every position of the training set."""

    @property
    def rng(self) -> torch.Generator:
        """Equal on all ranks, and new in every epoch."""

    def collect(self, function: Callable[[Batch], Tensor], view: View, train_mode: bool = False) -> Tensor:
        """`function` of every batch of `view`, without gradient, as (len(view), ...) rows in the view's order."""

    def note(self, name: str, value: Any) -> None:
        """Keep an estimate in the metrics, under this epoch."""


class Method(nn.Module):
    """A way to train on labels that may be wrong.

    The keyword-only arguments of `__init__` are the method's options: the command line, the configuration file and the
    estimator read them there. Their meaning stands in the class docstring, one line `name: text` each, under "Options".
    """

    paper: ClassVar[str] = ""
    year: ClassVar[int] = 0
    kind: ClassVar[str] = ""
    """loss, correction, selection, label correction, regularisation or semi-supervised."""
    forward_passes: ClassVar[float] = 1
    """Forward passes of a network over a batch's rows in one training step, counted over all networks."""
    backward_passes: ClassVar[float] = 1

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task
        self.register_buffer("given", task.given.clone(), persistent=False)
        trusted = torch.zeros(task.num_samples, dtype=torch.bool) if task.trusted is None else task.trusted.clone()
        self.register_buffer("trusted", trusted, persistent=False)

    given: Tensor
    """(N,) given labels."""
    trusted: Tensor
    """(N,) rows whose given label is known to be right: a method that mixes its own targets keeps to the label there."""

    def step(self, batch: Batch, clock: Clock) -> Step:
        """The objective on one batch."""
        raise NotImplementedError(f"{type(self).__name__} defines neither `step` nor stages of its own")

    def stages(self) -> list[Stage]:
        """Training as a list; a pure function of the method's buffers, asked again after each stage."""
        return [Stage("train", self.task.epochs, self.step)]

    def networks(self) -> dict[str, nn.Module]:
        """The direct children that are trained."""
        return {
            name: child for name, child in self.named_children() if any(p.requires_grad for p in child.parameters())
        }

    def predict(self, x: Tensor) -> Tensor:
        """(B, K) class probabilities: the mean over networks."""
        outputs = [network(x).logits.softmax(1) for network in self.networks().values()]
        return torch.stack(outputs).mean(0)

    def confidence(self, x: Tensor) -> Tensor | None:
        """(B,) tau of inputs, for methods that have one."""
        return None

    def targets(self) -> SampleStore | None:
        """The (N, K) table of targets, for methods that correct labels as they train; rows need not sum to one."""
        return None

    def target_tables(self) -> list[SampleStore]:
        """Every table that a loss aims at; the engine keeps the rows of trusted labels fixed in them."""
        targets = self.targets()
        return [] if targets is None else [targets]

    def label_quality(self, run: Run) -> Tensor:
        """(N,) in [0, 1], low is suspicious: by default the running mean of p at the given label.

        Averaged over training it remembers the early epochs, in which wrong labels were not yet memorised.
        """
        return run.record.mean_given_probability.clamp(0, 1)

    def corrected(self, run: Run) -> Tensor:
        """(N, K) soft labels: by default the final prediction for each row."""
        return run.collect(lambda batch: self.predict(batch.x), View(augment=False))

    def evidence(self, run: Run) -> dict[str, Tensor]:
        """Further (N,) columns that support the verdict, by name."""
        return {}

    def warnings(self) -> list[str]:
        """What is wrong with the settings, said before training starts, with values that would work."""
        return []

    def hint_at_chance(self) -> str:
        """What to change when training does not leave chance level."""
        return "try another learning rate"


def options_of(method: type[Method]) -> dict[str, inspect.Parameter]:
    """The options of a method: the keyword-only parameters of its constructor."""
    parameters = inspect.signature(method.__init__).parameters.values()
    return {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def option_help(method: type[Method]) -> dict[str, str]:
    """The line that the class docstring has for each option."""
    text = inspect.getdoc(method) or ""
    entries = re.findall(r"^ {4}(\w+): (.+(?:\n {6,}.+)*)", text, flags=re.MULTILINE)
    return {name: re.sub(r"\s+", " ", line) for name, line in entries}
