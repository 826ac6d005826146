"""The method interface: networks, per-sample state, and a description of training."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn

from surelabel.core.batch import Batch
from surelabel.core.run import Rows, Verdict
from surelabel.core.stages import Clock, Stage
from surelabel.core.tables import ClassTable, Form, TableForm

Published = float | Literal["published"] | None
"""An option of a stage's optimiser: a value, the paper's for SGD, or None, the run's."""
Problem = Literal["settings", "chance"]
"""What `advice` is about: the settings, before training, or training that stays at chance.

>>> from typing import get_args
>>> from surelabel.core import Problem
>>> get_args(Problem)
('settings', 'chance')
"""


class NetworkFactory(Protocol):
    """Makes the networks of a run; each call draws other initial weights from the run's seed."""

    def __call__(self, outputs: int | None = None, indicator: bool = False, indicator_layers: int = 1) -> nn.Module:
        """Make a network that maps x to Outputs with `outputs` logits (default: one per class)."""


class RowReader(Protocol):
    """Gives (n, K) rows for a slice: a tensor does, and what computes rows when they are read."""

    def __getitem__(self, rows: slice, /) -> Tensor:
        """Return the rows of a slice."""


@dataclass(frozen=True)
class Opinion:
    """What models that have not seen a row's own label say of its class.

    >>> import torch
    >>> from surelabel.core import Opinion
    >>> transition = torch.tensor([[0.9, 0.1], [0.3, 0.7]])  # 30 % of class 1 are labelled 0
    >>> opinion = Opinion(probability=torch.tensor([[0.2, 0.8]]), transition=transition)
    >>> joint = opinion.probability * opinion.transition[:, 0]  # of a row that is labelled 0
    >>> joint / joint.sum()
    tensor([[0.4286, 0.5714]])
    """

    probability: "RowReader"
    """(N, K) probabilities of the true class, by the input alone; slices of rows are read."""
    transition: Tensor
    """(K, K) P(given label | true class), estimated from the given labels."""


def no_opinion() -> Opinion | None:
    """Return None: nothing says more than the given labels."""
    return None


@dataclass(frozen=True)
class Task:
    """What a method may know about the job: neither clean labels nor the noise rate.

    >>> import torch
    >>> from surelabel.core import Task
    >>> given = torch.tensor([0, 1, 1])
    >>> task = Task(2, 3, given, epochs=100, network=lambda: torch.nn.Linear(4, 2))
    >>> task.epochs_of(60 / 500)  # a paper warms up for 60 of 500 epochs
    12
    """

    num_classes: int
    num_samples: int
    given: Tensor
    """(N,) given labels of the training rows."""
    epochs: int
    """Epochs of the whole run; a method with several stages divides them."""
    network: NetworkFactory
    restart_period: int = 1
    """Epochs between learning-rate restarts; 1 without restarts."""
    uses_sgd: bool = True
    """Whether the run's optimiser is SGD, for which papers publish their rates."""
    seed: int = 0
    trusted: Tensor | None = None
    """(N,) bool: rows whose given label a person has confirmed; None if no row is."""
    batch_size: int = 128
    """Rows of a batch, at most, unless a view has another size."""
    visits_per_epoch: float = 1.0
    """How often an epoch visits a row, on average; below 1 if it has a fixed number of batches."""
    opinion: Callable[[], Opinion | None] = no_opinion
    """Forms a second opinion on the training rows, which takes seconds; None if there is none."""
    form: TableForm = field(default_factory=TableForm)
    """How tables with a value per sample and class are kept."""

    def class_table(self, fill: float = 0.0, one_hot: bool = False) -> ClassTable:
        """Make an (N, K) table of `fill`, and of 1 at the given labels if `one_hot`."""
        return self.form.make(self.given, self.num_classes, fill, one_hot)

    def epochs_of(self, fraction: float, least: int = 1) -> int:
        """Return `fraction` of the run in whole epochs, to rescale a length that a paper states."""
        return max(least, round(fraction * self.epochs))

    def for_sgd(self, value: Published, published: float) -> float | None:
        """Return the value of an option of a stage's optimiser; None means the run's.

        "published" is the paper's value if the run uses SGD, as the paper does, else the run's.
        """
        if value == "published":
            return published if self.uses_sgd else None
        return value

    def warm_up(self, fraction: float) -> int:
        """Return `fraction` of the run, but at least five epochs, or half of a run below ten.

        After fewer epochs losses do not separate right labels from wrong ones.
        """
        return self.epochs_of(fraction, least=max(1, min(5, self.epochs // 2)))


@dataclass(frozen=True, init=False)
class Candidates:
    """Values that `surelabel tune` tries for a method's most sensitive options.

    >>> from surelabel.core import Candidates
    >>> candidates = Candidates("The grid of the paper.", momentum=(0.9, 0.7), threshold=(0.5,))
    >>> candidates.values["momentum"]
    (0.9, 0.7)
    """

    source: str
    """Where the values come from, in a sentence."""
    values: Mapping[str, tuple[Any, ...]]
    """Options and their values; the first is the default."""

    def __init__(self, source: str = "", **values: tuple[Any, ...]) -> None:
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "values", values)


@dataclass(frozen=True)
class Step:
    """The result of a training step.

    >>> import torch
    >>> from surelabel.core import Step
    >>> step = Step({"loss": torch.tensor(0.7), "penalty": 0.5 * torch.tensor(0.2)})
    >>> sum(step.terms.values())
    tensor(0.8000)
    """

    terms: Mapping[str, Tensor]
    """Named scalars, already weighted; their sum is the objective."""
    seen: Tensor | None = None
    """(B, K) logits of the first copy, unmixed, from which the engine updates the record."""
    is_mixed: bool = False
    """Whether the networks that are trained saw mixed inputs, which belong to no single sample."""


@dataclass(frozen=True)
class TargetTable:
    """A table of targets that a method corrects as it trains.

    >>> import torch
    >>> from surelabel.core import SampleStore, TargetTable
    >>> table = TargetTable(SampleStore.one_hot(torch.tensor([0, 1, 1]), num_classes=2))
    >>> table.store.read(torch.tensor([1]))
    tensor([[0., 1.]])
    """

    store: ClassTable
    """(N, K) targets; rows need not sum to one."""
    is_current: bool = True
    """Whether the loss aims at it now; the target of a row is the sum over the current tables."""


class Method(nn.Module):
    """A way to train on labels that may be wrong.

    A subclass overrides up to seven hooks: `step`, `stages`, `predict`, `tau`, `verdict`,
    `target_tables` and `advice`. The keyword-only arguments of `__init__` are its options. The
    command line, the configuration file and the estimator read them there; the class docstring
    explains each in a line `name: text` under "Options".

    >>> import torch
    >>> from surelabel.core import Batch, Clock, Method, Step, Task
    >>> from surelabel.losses import cross_entropy
    >>> class Plain(Method):
    ...     def __init__(self, task: Task) -> None:
    ...         super().__init__(task)
    ...         self.network = task.network()
    ...
    ...     def step(self, batch: Batch, clock: Clock) -> Step:
    ...         logits = self.network(batch.x).logits
    ...         return Step({"loss": batch.mean(cross_entropy(logits, batch.label))}, seen=logits)
    >>> given = torch.tensor([0, 1, 1])
    >>> method = Plain(Task(2, 3, given, epochs=20, network=lambda: torch.nn.Linear(4, 2)))
    >>> [(stage.name, stage.epochs) for stage in method.stages()]
    [('train', 20)]

    docs/add-a-method.md explains a complete method.
    """

    paper: ClassVar[str] = ""
    year: ClassVar[int] = 0
    kind: ClassVar[str] = ""
    """loss, correction, selection, label correction, regularisation or semi-supervised."""
    when: ClassVar[str] = ""
    """When to use it, in a sentence or two, for people who choose a method."""
    resists_wrong_labels: ClassVar[bool] = True
    """Whether it is meant for wrong labels; a run of one that is not is told to use another."""
    forward_passes: ClassVar[float] = 1
    """Forward passes over a batch's rows in one training step, summed over all networks."""
    backward_passes: ClassVar[float] = 1
    table_forms: ClassVar[tuple[Form, ...]] = ("dense",)
    """Forms that its (N, K) tables may have, which it then makes by `task.class_table`."""
    candidates: ClassVar[Candidates] = Candidates()
    """Values to try for at most three options, with their source."""

    given: Tensor
    """(N,) given labels."""
    trusted: Tensor
    """(N,) bool: rows whose given label a person has confirmed; losses must aim at it."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task
        self.register_buffer("given", task.given.clone(), persistent=False)
        trusted = torch.zeros(task.num_samples, dtype=torch.bool) if task.trusted is None else task.trusted.clone()
        self.register_buffer("trusted", trusted, persistent=False)

    # The seven hooks.

    def step(self, batch: Batch, clock: Clock) -> Step:
        """Compute the objective on a batch; batches of further views are passed by name."""
        raise NotImplementedError(f"{type(self).__name__} overrides neither `step` nor `stages`")

    def stages(self) -> list[Stage]:
        """Return the stages of training.

        The engine calls this often, so it must depend on nothing but buffers and options.
        """
        return [Stage("train", self.task.epochs, self.step)]

    def predict(self, x: Tensor) -> Tensor:
        """Return (B, K) class probabilities: by default the mean over networks."""
        outputs = [network(x).logits.softmax(1) for network in self.networks().values()]
        return torch.stack(outputs).mean(0)

    def tau(self, x: Tensor) -> Tensor | None:  # noqa: ARG002 - overriding methods use it
        """Return the (B,) confidence of inputs; None for methods without one."""
        return None

    def verdict(self, rows: Rows) -> Verdict:
        """Judge the given labels of a chunk of rows after training, from buffers and `rows`.

        The default quality is the running mean of p at the given label: averaged over training, it
        remembers the early epochs, in which wrong labels were not yet memorised. What needs all
        rows belongs in the `then` of a stage.
        """
        return Verdict(rows.mean_given_probability, corrected=rows.prediction)

    def target_tables(self) -> list[TargetTable]:
        """Return all tables of targets; the engine fixes the rows of trusted labels in each."""
        return []

    def advice(self, problem: Problem) -> list[str]:
        """Return sentences that say what to change about `problem`, with values that work."""
        return ["try another learning rate"] if problem == "chance" else []

    def networks(self) -> dict[str, nn.Module]:
        """Return the direct children that are trained, by name."""
        return {
            name: child for name, child in self.named_children() if any(p.requires_grad for p in child.parameters())
        }


def options_of(method: type[Method]) -> dict[str, inspect.Parameter]:
    """Return the options of a method: the keyword-only parameters of its constructor."""
    parameters = inspect.signature(method.__init__).parameters.values()
    return {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def option_help(method: type[Method]) -> dict[str, str]:
    """Return the line that the class docstring has for each option."""
    text = inspect.getdoc(method) or ""
    entries = re.findall(r"^ {4}(\w+): (.+(?:\n {6,}.+)*)", text, flags=re.MULTILINE)
    return {name: re.sub(r"\s+", " ", line) for name, line in entries}
