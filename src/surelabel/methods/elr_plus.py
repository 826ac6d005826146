"""ELR+ (Liu et al., 2020): ELR for two networks, each with the OTHER's average as teacher.

For network k, with the weight average of the other network, and p~ = softmax(z) kept in
[1e-4, 1 - 1e-4] as in ELR:

    t_k <- beta t_k + (1 - beta) softmax(average of the other network, unmixed x)
                                                                    before the loss, from zero
    x, one-hot y and t_k are mixed with a partner by l ~ Beta(alpha, alpha), l <- max(l, 1 - l);
                                                                    q is the mixed t_k
    L = CE(z of the mixed x, mixed y) + lambda log(1 - <q, p~>)
    average_k <- a average_k + (1 - a) network_k,   a = gamma exp(-5 (1 - s / S)^2)
                                                                    after every optimiser step

An epoch trains the first network on all batches and then the second, which therefore learns from an
average that is an epoch further. Predictions come from the two networks themselves: the softmax of
their mean logits.

Defaults are the authors' for CIFAR-10 with symmetric noise: lambda 3, beta 0.7, gamma 0.997, alpha
1. Theirs elsewhere: asymmetric lambda 1, beta 0.9; CIFAR-100 lambda 7, beta 0.9 with `ramped` and
`reweighted`; Clothing1M gamma 0.9999. S is 40,000 steps of a network, which is 40,000 / (200 x 352)
of their run: 45,000 rows in batches of 128.

Where we differ from the authors' code:

- Their two data loaders draw the validation split and the injected noise separately, so that the
  two networks see different labels for a sample. We use one training set.
- Their averages start from separate initial weights, which the ramp forgets at once (a is 0.007 in
  the first step); ours start as copies. Batch-norm statistics of an average are copies of its
  network's; in training it normalises by the batch, as theirs does.
- Their other data sets use a = min(1 - 1 / (s + 1), gamma) instead of the ramp; we do not offer it,
  because it ends at the same gamma.
- The reweighted label y_c q_c / sum y_c q_c has a floor, because y q may underflow: without any q
  it stays the label.

The suggested label is t_1 + t_2, normalised (the authors': argmax t). The quality is the default,
here the running mean of the averages' p at the given label: on digits at 40 % symmetric noise its
AUROC is 0.998, that of t at the given label 0.85 with lambda 3 (0.9994 and 0.995 with lambda 7),
because targets follow the networks when these memorise in the end.
"""

from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeFloat, PositiveInt
from torch import Tensor, nn

from surelabel.core import (
    EMA,
    Batch,
    Candidates,
    Clock,
    Method,
    Pass,
    Rows,
    SampleStore,
    Stage,
    Step,
    TargetTable,
    Task,
    Verdict,
    View,
)
from surelabel.core.losses import cross_entropy
from surelabel.methods._mixing import draw_mixing_weight, mix
from surelabel.methods.elr import clamped_probability, early_learning_regulariser, normalised
from surelabel.methods.mean_teacher import ramp_up

PUBLISHED_RAMP_SHARE = 40_000 / (200 * 352)
NO_MASS = 1e-8
"""Added to q in the reweighted label, so that the label stays as it is where q is zero."""


def reweight(label: Tensor, q: Tensor) -> Tensor:
    """Return (B, K) y_c q_c / sum y_c q_c: the mixed label, weighted by the targets."""
    weighted = label * (q + NO_MASS)
    return weighted / weighted.sum(1, keepdim=True)


class ELRPlus(Method):
    """Two networks with mixup, each pulled towards early predictions of the other's average.

    Options:
        regularisation: lambda, the weight of the pull; the authors have 3, 1 for asymmetric noise,
          7 for 100 classes
        momentum: beta, the fraction of the old target that stays in an update; the authors have 0.7
          or 0.9
        average_decay: gamma, the fraction of the old average that stays in an update, after
          the ramp
        ramp: S, epochs over which gamma grows; default the published fraction, 40,000 of
          70,400 steps
        mixup_alpha: alpha of the Beta distribution; 0 does not mix
        ramped: let lambda grow as gamma does; the authors do so for 100 classes
        reweighted: weigh the two classes of a mixed label by the targets; the authors do so for 100
          classes
    """

    paper = "Liu et al.: Early-Learning Regularization Prevents Memorization of Noisy Labels, NeurIPS"
    year = 2020
    kind = "regularisation"
    when = "ELR with more compute: two networks, weight averages and mixup for 4 forward and 2 backward passes."
    # For each of the two networks: the mixed rows, and the other's average on the unmixed ones.
    forward_passes = 4
    backward_passes = 2
    candidates = Candidates(
        "The authors' for symmetric noise, asymmetric noise and 100 classes.",
        regularisation=(3.0, 1.0, 7.0),
        momentum=(0.7, 0.9),
    )

    ramp_now: Tensor

    def __init__(
        self,
        task: Task,
        *,
        regularisation: NonNegativeFloat = 3.0,
        momentum: Annotated[float, Field(ge=0, lt=1)] = 0.7,
        average_decay: Annotated[float, Field(ge=0, lt=1)] = 0.997,
        ramp: PositiveInt | None = None,
        mixup_alpha: NonNegativeFloat = 1.0,
        ramped: bool = False,
        reweighted: bool = False,
    ) -> None:
        super().__init__(task)
        self.regularisation, self.momentum, self.average_decay = regularisation, momentum, average_decay
        self.ramp = task.epochs_of(PUBLISHED_RAMP_SHARE) if ramp is None else ramp
        self.mixup_alpha, self.ramped, self.reweighted = mixup_alpha, ramped, reweighted
        self.first, self.second = task.network(), task.network()
        self.first_average, self.second_average = (EMA(n, self.decay) for n in (self.first, self.second))
        self.first_target, self.second_target = (SampleStore(task.num_samples, task.num_classes) for _ in range(2))
        self.register_buffer("ramp_now", torch.tensor(0.0))

    def stages(self) -> list[Stage]:
        """Train in one stage, whose epochs have a pass for each network."""
        passes = [Pass(self.first_step, {"batch": View()}), Pass(self.second_step, {"batch": View()})]
        return [Stage("train", self.task.epochs, self.first_step, plan=passes)]

    def first_step(self, batch: Batch, clock: Clock) -> Step:
        """Train the first network with the second's average as teacher."""
        return self.pull_step(self.first, self.second_average, self.first_target, batch, clock)

    def second_step(self, batch: Batch, clock: Clock) -> Step:
        """Train the second network with the first's average as teacher."""
        return self.pull_step(self.second, self.first_average, self.second_target, batch, clock)

    def pull_step(self, network: nn.Module, teacher: EMA, table: SampleStore, batch: Batch, clock: Clock) -> Step:
        """Compute cross entropy on mixed rows, and the pull towards the mixed targets."""
        self.ramp_now.fill_(ramp_up(clock.progress, self.ramp))
        seen = teacher(batch.x).logits
        table.blend(batch.index, seen.softmax(1), self.momentum)
        given = F.one_hot(batch.label, self.task.num_classes)
        x, label, q = self.mix_rows(batch, given, table.read(batch.index), clock)
        logits = network(x).logits
        pull = early_learning_regulariser(clamped_probability(logits), q)
        weight = self.regularisation * (float(self.ramp_now) if self.ramped else 1.0)
        terms = {
            "cross_entropy": batch.mean(cross_entropy(logits, reweight(label, q) if self.reweighted else label)),
            "early_learning": weight * batch.mean(pull),
        }
        return Step(terms, seen=seen, is_mixed=self.mixup_alpha > 0)

    def mix_rows(self, batch: Batch, given: Tensor, target: Tensor, clock: Clock) -> tuple[Tensor, Tensor, Tensor]:
        """Mix inputs, labels and targets with the same partners."""
        mixing_weight = draw_mixing_weight(self.mixup_alpha, clock) if self.mixup_alpha else 1.0
        ((x, both),) = mix([(batch.x, torch.cat([given, target], 1), batch.weight)], mixing_weight, clock)
        label, q = both.chunk(2, 1)
        return x, label, q

    def decay(self, _updates: int) -> float:
        """Return the share of an old average that stays: gamma times the ramp of the last step."""
        return self.average_decay * float(self.ramp_now)

    def predict(self, x: Tensor) -> Tensor:
        """Return the softmax of the networks' mean logits, as the authors do."""
        logits: Tensor = (self.first(x).logits + self.second(x).logits) / 2
        return logits.softmax(1)

    def target_tables(self) -> list[TargetTable]:
        """Return t_1 and t_2, both of which a loss aims at."""
        return [TargetTable(self.first_target), TargetTable(self.second_target)]

    def verdict(self, rows: Rows) -> Verdict:
        """Return the default quality, and t_1 + t_2, normalised, of rows that were visited."""
        target = self.first_target.read(rows.index) + self.second_target.read(rows.index)
        return Verdict(rows.mean_given_probability, normalised(target, rows.prediction))
