"""Co-teaching (Han et al., 2018): two networks, each trained on what the other finds easy.

In epoch T each network selects the fraction R(T) = 1 - forget_rate x min(T / T_k, 1) of the batch
with the smallest losses, and the OTHER network is trained on it. T_k = 10 of the paper's 200
epochs.

Where we differ from the authors' code:

- The published runs are GIVEN the true noise rate. Our default estimates it from the losses after a
  warm-up of T_k epochs, at least five in a run of ten or more (a two-component mixture), and logs
  it; T then counts from the end of the warm-up. `forget_rate` sets it explicitly.
- The mean over selected samples is taken once (their code divides by the count again, which Adam
  hides and SGD does not).
- At least one sample is selected; ties are broken by position and NaN losses sort last.
- Both networks always select labels that a person has confirmed.
- The exponent c of the ramp is 1, as in the paper's experiments.
- Predictions, and so the test accuracy, are the mean of both networks' probabilities. The authors
  report single networks, which the metrics have under `networks`.
"""

from typing import Annotated

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from surelabel.core import Batch, Candidates, Clock, Method, Pass, Problem, Rows, Run, Stage, Step, Task, Verdict, View
from surelabel.core.losses import cross_entropy
from surelabel.methods._advice import warn_of_late_start
from surelabel.methods._selection import easiest, estimate_noise_rate, low_component_probability

PUBLISHED_RAMP_SHARE = 10 / 200


class CoTeaching(Method):
    """Two networks that choose small-loss samples for each other.

    Options:
        forget_rate: the fraction of wrong labels, if you know it; by default it is estimated from
          the losses after the warm-up
        ramp: T_k, epochs over which forgetting grows, and the length of the warm-up before an
          estimate, which is at least 5; default the published fraction, 10/200
    """

    paper = "Han et al.: Co-teaching: Robust Training of Deep Neural Networks with Extremely Noisy Labels, NeurIPS"
    year = 2018
    kind = "selection"
    when = (
        "You know roughly how many labels are wrong and have many rows. It costs two networks and drops rows, so "
        "small or rare classes suffer."
    )
    forward_passes = 2
    backward_passes = 2
    candidates = Candidates(
        "The authors pass the true rate: 0.2 and 0.5 under symmetric noise.", forget_rate=(None, 0.2, 0.5)
    )

    rate: Tensor
    clean_probability: Tensor

    def __init__(
        self,
        task: Task,
        *,
        forget_rate: Annotated[float, Field(ge=0, lt=1)] | None = None,
        ramp: PositiveInt | None = None,
    ) -> None:
        super().__init__(task)
        self.first = task.network()
        self.second = task.network()
        self.ramp = task.epochs_of(PUBLISHED_RAMP_SHARE) if ramp is None else ramp
        self.warm_up = 0 if forget_rate is not None else max(self.ramp, task.warm_up(PUBLISHED_RAMP_SHARE))
        self.register_buffer("rate", torch.tensor(torch.nan if forget_rate is None else forget_rate))
        self.register_buffer("clean_probability", torch.ones(task.num_samples), persistent=False)

    def stages(self) -> list[Stage]:
        """Train in one stage, whose plan estimates the rate after the warm-up."""
        return [Stage("train", self.task.epochs, self.step, plan=self.plan, then=self.judge)]

    def advice(self, problem: Problem) -> list[str]:
        """Warn of a warm-up that never ends."""
        if problem != "settings":
            return super().advice(problem)
        default = max(self.task.epochs_of(PUBLISHED_RAMP_SHARE), self.task.warm_up(PUBLISHED_RAMP_SHARE))
        left, by_default = (self.task.epochs - length for length in (self.warm_up, default))
        settings = ("ramp", self.ramp, left, self.task.epochs_of(PUBLISHED_RAMP_SHARE))
        return warn_of_late_start(self.task, *settings, "no label is left out", left_by_default=by_default)

    def plan(self, run: Run) -> list[Pass]:
        """Plan one pass over all samples, and estimate the noise rate once."""
        if self.rate.isnan() and run.clock.epoch > self.warm_up:
            losses = run.collect(self.mean_loss, View(augment=False))
            self.rate.fill_(estimate_noise_rate(losses, self.trusted))
            run.note("forget_rate", float(self.rate))
        return [Pass(self.step, {"batch": View()})]

    def step(self, batch: Batch, clock: Clock) -> Step:
        """Compute each network's mean loss over the samples that the other selects."""
        logits = [self.first(batch.x).logits, self.second(batch.x).logits]
        losses = [cross_entropy(z, batch.label) for z in logits]
        share, certain = self.forget_share(clock), self.trusted[batch.index]
        by_first, by_second = (easiest(loss, batch, share, certain=certain) for loss in losses)
        terms = {"first": batch.mean(losses[0], where=by_second), "second": batch.mean(losses[1], where=by_first)}
        return Step(terms, seen=torch.stack(logits).detach().mean(0))

    def forget_share(self, clock: Clock) -> float:
        """Return the share of a batch to leave out: 0 in the warm-up, then growing to `rate`."""
        if clock.epoch <= self.warm_up:
            return 0.0
        return float(self.rate) * min((clock.epoch - self.warm_up) / self.ramp, 1.0)

    def mean_loss(self, batch: Batch) -> Tensor:
        """Return the (B,) losses at the given labels, mean over both networks."""
        return (
            cross_entropy(self.first(batch.x).logits, batch.label)
            + cross_entropy(self.second(batch.x).logits, batch.label)
        ) / 2

    def judge(self, run: Run) -> None:
        """Set the probability that each label is clean from the final losses."""
        losses = run.collect(self.mean_loss, View(augment=False))
        self.clean_probability.copy_(low_component_probability(losses).masked_fill(self.trusted, 1.0))

    def verdict(self, rows: Rows) -> Verdict:
        """Return the mean of P(small-loss component) and the running mean of p at the given label.

        The mixture alone has many ties at 0 and 1, which the running mean breaks.
        """
        clean = self.clean_probability[rows.index]
        return Verdict((clean + rows.mean_given_probability) / 2, rows.prediction)
