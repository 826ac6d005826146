"""Co-teaching+ (Yu et al., 2019): Co-teaching on the samples that the two networks disagree about.

The first epochs are Co-teaching. Afterwards a batch is cut down to D = {i: argmax f1(x_i) != argmax f2(x_i)}, each network keeps
the R(T) part of D with the smallest loss, and the OTHER network is trained on it: disagreement keeps the two apart. Twenty of the
200 epochs on CIFAR-10 are Co-teaching (5 on CIFAR-100, none on MNIST), which is the default's share.

Where we differ from the authors' code:

- Their second part feeds softmax PROBABILITIES into the cross entropy, which takes a softmax again. We give it logits.
- They find D by multiplying data set indices with a mask and dropping zeros, so that sample 0 is lost. We use the mask.
- A batch without disagreement is cross entropy on the whole batch for them while `epoch x batch < 5000`, and nothing after.
  Those steps are over within an epoch or two of the first part's end; here such a batch is a zero from the start.
- As in Co-teaching: one mean over kept samples, at least one is kept, and the noise rate is estimated unless it is given.
"""

from typing import Annotated

import torch
from pydantic import Field, NonNegativeInt, PositiveInt

from surelabel.core import Batch, Clock, Step, Task
from surelabel.core.losses import cross_entropy
from surelabel.methods._selection import easiest
from surelabel.methods.co_teaching import CoTeaching

PUBLISHED_AGREEMENT_SHARE = 20 / 200


class CoTeachingPlus(CoTeaching):
    """Two networks that choose small-loss samples for each other where they disagree.

    Options:
        forget_rate: the share of wrong labels, if you know it; default is estimated from the losses after the warm-up
        ramp: T_k, epochs over which forgetting grows, and the length of the warm-up before an estimate, which is at least 5;
          default the published share, 10/200
        all_samples: epochs of plain Co-teaching before disagreement counts; default the published share, 20/200, and never less
          than the warm-up and the ramp
    """

    paper = "Yu et al.: How does Disagreement Help Generalization against Label Corruption?, ICML"
    year = 2019

    def __init__(
        self,
        task: Task,
        *,
        forget_rate: Annotated[float, Field(ge=0, lt=1)] | None = None,
        ramp: PositiveInt | None = None,
        all_samples: NonNegativeInt | None = None,
    ) -> None:
        super().__init__(task, forget_rate=forget_rate, ramp=ramp)
        published = max(task.share(PUBLISHED_AGREEMENT_SHARE), self.warm_up + self.ramp)
        self.all_samples = published if all_samples is None else all_samples

    def step(self, batch: Batch, clock: Clock) -> Step:
        """Each network's mean loss over what the other selects, of all samples first and then of those in dispute."""
        logits = [self.first(batch.x).logits, self.second(batch.x).logits]
        losses = [cross_entropy(z, batch.label) for z in logits]
        among = torch.ones_like(batch.label, dtype=torch.bool)
        if clock.epoch > self.all_samples:
            among = logits[0].argmax(1) != logits[1].argmax(1)
        by_first, by_second = (easiest(loss, batch, self.forget(clock), among) for loss in losses)
        terms = {"first": batch.mean(losses[0], where=by_second), "second": batch.mean(losses[1], where=by_first)}
        return Step(terms, seen=torch.stack(logits).detach().mean(0))
