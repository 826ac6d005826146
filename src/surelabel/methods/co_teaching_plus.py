"""Co-teaching+ (Yu et al., 2019): Co-teaching on the samples that the two networks disagree about.

The first epochs are plain Co-teaching. After that a batch is reduced to the disagreement D = {i:
argmax f1(x_i) != argmax f2(x_i)}. Each network keeps the fraction R(T) of D with the smallest
loss, and the OTHER network is trained on it. Disagreement keeps the two networks different. On
CIFAR-10 the authors use plain Co-teaching for 20 of 200 epochs (5 on CIFAR-100, none on MNIST). Our
default is the same fraction, but at least until the noise rate is estimated and the ramp has ended.

Where we differ from the authors' code:

- After the plain epochs they pass softmax PROBABILITIES to the cross entropy, which applies a
  softmax again. We pass logits.
- They find D by multiplying data set indices by a mask and dropping zeros, which loses sample 0. We
  use the mask.
- For a batch without disagreement they use cross entropy on the whole batch while
  `epoch x batch < 5000`, and skip it later. Since `batch` counts within the epoch, this happens at
  the start of every epoch: in the first 250 batches of epoch 20, and in 25 of epoch 200. Here the
  loss of such a batch is always zero.
- As in our Co-teaching, the loss is one mean over the kept samples, at least one sample is kept,
  the noise rate is estimated unless it is given, and labels that a person has confirmed are always
  selected, here whether the networks disagree or not. Predictions are the mean of both networks;
  the metrics have the single ones under `networks`.
"""

from typing import Annotated

import torch
from pydantic import Field, NonNegativeInt, PositiveInt

from surelabel.core import Batch, Candidates, Clock, Problem, Step, Task
from surelabel.core.losses import cross_entropy
from surelabel.methods._advice import warn_of_late_start
from surelabel.methods._selection import easiest
from surelabel.methods.co_teaching import CoTeaching

PUBLISHED_AGREEMENT_SHARE = 20 / 200


class CoTeachingPlus(CoTeaching):
    """Two networks that choose small-loss samples for each other, where they disagree.

    Options:
        forget_rate: the fraction of wrong labels, if you know it; by default it is estimated from
          the losses after the warm-up
        ramp: T_k, the epochs over which the forgotten fraction grows, and the length of the warm-up
          before an estimate, which is at least 5; default the published fraction, 10/200
        all_samples: epochs of plain Co-teaching before disagreement counts; default the published
          fraction, 20/200, and at least the warm-up plus the ramp
    """

    paper = "Yu et al.: How does Disagreement Help Generalization against Label Corruption?, ICML"
    year = 2019
    when = "As Co-teaching, where its two networks become too alike: it trains only on rows on which they disagree."
    candidates = Candidates(
        "The rates as in Co-teaching; 5 epochs are the authors' on CIFAR-100.",
        forget_rate=(None, 0.2, 0.5),
        all_samples=(None, 5),
    )

    def __init__(
        self,
        task: Task,
        *,
        forget_rate: Annotated[float, Field(ge=0, lt=1)] | None = None,
        ramp: PositiveInt | None = None,
        all_samples: NonNegativeInt | None = None,
    ) -> None:
        super().__init__(task, forget_rate=forget_rate, ramp=ramp)
        published = max(task.epochs_of(PUBLISHED_AGREEMENT_SHARE), self.warm_up + self.ramp)
        self.all_samples = published if all_samples is None else all_samples

    def advice(self, problem: Problem) -> list[str]:
        """Add a warning if disagreement never counts."""
        if problem != "settings":
            return super().advice(problem)
        default = max(self.task.epochs_of(PUBLISHED_AGREEMENT_SHARE), self.warm_up + self.ramp)
        left, by_default = (self.task.epochs - length for length in (self.all_samples, default))
        settings = ("all_samples", self.all_samples, left, default)
        late = warn_of_late_start(self.task, *settings, "disagreement never counts", left_by_default=by_default)
        return super().advice(problem) + late

    def step(self, batch: Batch, clock: Clock) -> Step:
        """Return each network's mean loss over the samples that the other selects.

        They select from all samples first, and later from those they disagree about.
        """
        logits = [self.first(batch.x).logits, self.second(batch.x).logits]
        losses = [cross_entropy(z, batch.label) for z in logits]
        among = torch.ones_like(batch.label, dtype=torch.bool)
        if clock.epoch > self.all_samples:
            among = logits[0].argmax(1) != logits[1].argmax(1)
        share, certain = self.forget_share(clock), self.trusted[batch.index]
        by_first, by_second = (easiest(loss, batch, share, certain=certain, among=among) for loss in losses)
        terms = {"first": batch.mean(losses[0], where=by_second), "second": batch.mean(losses[1], where=by_first)}
        return Step(terms, seen=torch.stack(logits).detach().mean(0))
