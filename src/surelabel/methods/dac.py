"""DAC, Deep Abstaining Classifier (Thulasidasan et al., 2019): abstain, then drop suspects.

K + 1 outputs z; a = softmax(z)[K + 1] is the abstention, h the cross entropy over the first K
outputs alone:

    warm-up      L = h - log(1 - a), which is cross entropy over all K + 1 outputs
    abstaining   L = (1 - a) h - alpha log(1 - a)

so that abstention on a sample grows while alpha < (1 - a) h. alpha starts low, at beta / rho, where
beta is a moving mean (mu = 0.05) of (1 - a) h over the steps of the warm-up, and rises linearly by
epochs to alpha_final = 1 in the last one. Then suspects are removed and a new network is trained
with cross entropy on the rest. rho = 64 and a warm-up of 20 of 200 epochs come from the authors'
runs. They do not state the length of the second training (there is no script for it): here each
training gets half of the run.

Where we differ from the authors' code:

- Suspects: the paper removes samples whose given label the K real outputs do not predict, at the
  epoch of best validation (`remove`: misclassified); the authors' README removes those abstained on
  (abstained). We have no clean validation rows: the epoch is chosen by the given labels of a tenth
  of the rows, which the first training does not see (the last epoch, if that is fewer than 5 per
  class).
- log(1 - a) is exact (theirs clips a at 1 - 1e-7, where its gradient ends). Momentum is not reset
  in every epoch.
- One network with K + 1 outputs is newly initialised for the second training, which uses the first
  K alone.
- A label that a person has confirmed is never removed or held out, and the network cannot escape
  its loss by abstaining: the factor 1 - a of h is 1.
- Their later controller of the abstention rate (PID) is not implemented.

The gradient at the abstaining output is a (alpha - (1 - a) h): once the warm-up has driven a to
nearly zero, abstention needs many steps to come back. On digits (40 % symmetric, 100 epochs, seed
0) it does not: a is 1e-4 after two epochs, and no sample is abstained on. What works there is
choosing the epoch and removing the misclassified (0.950). With warm_up = 0 the network abstains
first and stops abstaining as the price rises (0.981). The rule "abstained" ends there at 0.71, like
cross entropy.

Verdict: the final network's p at the given label (AUROC 0.995 on digits; p of the real outputs at
the chosen epoch 0.987, the default verdict 0.984). The abstention is evidence.
"""

from typing import Literal

import torch
from pydantic import NonNegativeInt, PositiveFloat
from torch import Tensor

from surelabel.core import Batch, Candidates, Clock, Method, Pass, Problem, Rows, Run, Stage, Step, Task, Verdict, View
from surelabel.core.losses import cross_entropy
from surelabel.methods._advice import warn_of_late_start
from surelabel.methods._selection import held_out_rows

PUBLISHED_WARM_UP_SHARE = 20 / 200
HELD_OUT_SHARE = 0.1
FEWEST_PER_CLASS = 5
"""Held-out rows per class; with fewer, a single wrong label decides which epoch is the best."""
SMOOTHING = 0.05
"""mu, the weight of a new value in the moving mean of (1 - a) h."""


def log_kept(logits: Tensor) -> Tensor:
    """Return (B,) log(1 - a), exact for a next to one."""
    return logits[:, :-1].logsumexp(1) - logits.logsumexp(1)


def abstaining_terms(logits: Tensor, label: Tensor, certain: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return (1 - a) h and -log(1 - a), (B,) each, from (B, K + 1) logits.

    Where a label is `certain`, (B,), abstaining does not spare the network its loss h.
    """
    kept = log_kept(logits)
    factor = kept.exp() if certain is None else kept.exp().masked_fill(certain, 1.0)
    return factor * cross_entropy(logits[:, :-1], label), -kept


def price(epoch: int, first: int, last: int, start: float, final: float) -> float:
    """Return alpha of an epoch: linear from `start` in the first abstaining epoch to `final`."""
    return start + (final - start) * min((epoch - first) / (last - first), 1.0) if last > first else start


def validating_rows(task: Task) -> Tensor:
    """Return (N,) which rows choose the epoch; none if they would be too few."""
    rows = held_out_rows(task, HELD_OUT_SHARE)
    return rows if int(rows.sum()) >= FEWEST_PER_CLASS * task.num_classes else torch.zeros_like(rows)


class DAC(Method):
    """A classifier that may abstain at a rising price, then one trained without its suspects.

    Options:
        warm_up: L, epochs of cross entropy before abstaining has its own price; default the
          published share, 20/200 of the first training, and at least 5; the author advises less for
          more abstention
        price_divisor: rho, the first price is the mean loss of the warm-up divided by it
        final_price: alpha of the last epoch
        remove: misclassified (the paper's text) or abstained (the authors' README)
    """

    paper = "Thulasidasan et al.: Combating Label Noise in Deep Learning Using Abstention, ICML"
    year = 2019
    kind = "selection"
    when = (
        "You want a network that may abstain, and a second training without suspects. Set `warm_up=0` where wrong "
        "labels are memorised within a few epochs."
    )
    candidates = Candidates(
        "The author advises a shorter warm-up; both rules are published.",
        warm_up=(None, 0),
        remove=("misclassified", "abstained"),
    )

    mean_loss: Tensor
    first_price: Tensor
    held_out: Tensor
    removed: Tensor
    abstention: Tensor

    def __init__(
        self,
        task: Task,
        *,
        warm_up: NonNegativeInt | None = None,
        price_divisor: PositiveFloat = 64.0,
        final_price: PositiveFloat = 1.0,
        remove: Literal["misclassified", "abstained"] = "misclassified",
    ) -> None:
        super().__init__(task)
        self.abstaining_epochs = -(-task.epochs // 2)
        self.warm_up = self.default_warm_up() if warm_up is None else warm_up
        self.price_divisor, self.final_price, self.remove = price_divisor, final_price, remove
        self.network = task.network(outputs=task.num_classes + 1)
        # The mean before the first step is the loss of a uniform prediction.
        self.register_buffer("mean_loss", torch.tensor(float(task.num_classes)).log())
        self.register_buffer("first_price", torch.tensor(torch.nan))
        self.register_buffer("held_out", validating_rows(task))
        self.register_buffer("removed", torch.zeros(task.num_samples, dtype=torch.bool))
        self.register_buffer("abstention", torch.zeros(task.num_samples))

    def stages(self) -> list[Stage]:
        """Abstain, then train a new network without the suspects if epochs are left."""
        validate = bool(self.held_out.any())
        kept = [Pass(self.step, {"batch": View((~self.removed).nonzero().squeeze(1))})]
        stages = [
            Stage(
                "abstain",
                self.abstaining_epochs,
                self.abstain_step,
                plan=self.abstain_plan,
                then=self.judge,
                keep="best" if validate else "last",
                validate_on=View(self.held_out.nonzero().squeeze(1), augment=False) if validate else None,
            ),
            Stage("train", self.task.epochs - self.abstaining_epochs, self.step, plan=kept, reset="new"),
        ]
        return [stage for stage in stages if stage.epochs]

    def advice(self, problem: Problem) -> list[str]:
        """Warn of a warm-up that never ends."""
        if problem != "settings":
            return super().advice(problem)
        default = self.default_warm_up()
        left, by_default = (self.abstaining_epochs - length for length in (self.warm_up, default))
        settings = ("warm_up", self.warm_up, left, default)
        return warn_of_late_start(self.task, *settings, "abstaining has no price", left_by_default=by_default)

    def default_warm_up(self) -> int:
        """Return the published fraction of the first training."""
        return self.task.warm_up(PUBLISHED_WARM_UP_SHARE * self.abstaining_epochs / self.task.epochs)

    def abstain_plan(self, run: Run) -> list[Pass]:
        """Plan a pass over rows that are not held out, and set the first price once."""
        if self.first_price.isnan() and run.clock.epoch > self.warm_up:
            self.first_price.copy_(self.mean_loss / self.price_divisor)
            run.note("first_price", float(self.first_price))
        return [Pass(self.abstain_step, {"batch": View((~self.held_out).nonzero().squeeze(1))})]

    def abstain_step(self, batch: Batch, clock: Clock) -> Step:
        """Compute cross entropy over K + 1 classes in the warm-up, then the abstaining loss."""
        logits = self.network(batch.x).logits
        loss, abstaining = abstaining_terms(logits, batch.label, self.trusted[batch.index])
        self.mean_loss.lerp_(batch.mean(loss.detach()), SMOOTHING)
        seen = logits.detach()[:, :-1]
        if clock.epoch <= self.warm_up:
            return Step({"cross_entropy": batch.mean(cross_entropy(logits, batch.label))}, seen=seen)
        alpha = price(clock.epoch, self.warm_up + 1, clock.epochs, float(self.first_price), self.final_price)
        return Step({"kept": batch.mean(loss), "abstaining": alpha * batch.mean(abstaining)}, seen=seen)

    def judge(self, run: Run) -> None:
        """Set which rows are removed, by the network of the chosen epoch."""
        logits = run.collect(lambda batch: self.network(batch.x).logits, View(augment=False))
        abstained, wrong = logits.argmax(1) == self.task.num_classes, logits[:, :-1].argmax(1) != self.given
        removed = (wrong if self.remove == "misclassified" else abstained) & ~self.trusted
        self.removed.copy_(removed if int(removed.sum()) <= len(removed) - 2 else torch.zeros_like(removed))
        self.abstention.copy_(logits.softmax(1)[:, -1])
        run.note("abstained_share", abstained.float().mean().item())
        run.note("removed_share", self.removed.float().mean().item())

    def step(self, batch: Batch, _clock: Clock) -> Step:
        """Compute cross entropy over the K real classes."""
        logits = self.network(batch.x).logits[:, :-1]
        return Step({"cross_entropy": batch.mean(cross_entropy(logits, batch.label))}, seen=logits.detach())

    def predict(self, x: Tensor) -> Tensor:
        """Return the softmax over the K real classes."""
        logits: Tensor = self.network(x).logits
        return logits[:, :-1].softmax(1)

    def verdict(self, rows: Rows) -> Verdict:
        """Return the final network's p at the given label; the evidence is the abstention."""
        evidence = {"abstention": self.abstention[rows.index]}
        return Verdict(rows.at_given(rows.prediction), rows.prediction, evidence)
