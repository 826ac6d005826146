"""GCE: Generalized Cross Entropy (Zhang and Sabuncu, 2018), L_q = (1 - p_y^q) / q, and its truncated variant.

Between cross entropy (q to 0) and half the mean absolute error (q = 1). q = 0.7 is the value of the paper and of every later
table. The paper was not at hand; formula and default are checked against the limits above and the public reimplementation.

Truncated: the loss stays at L_q(k) where p_y <= k, so that such samples have no gradient. It is trained by turns: with the network
fixed, w_i = 1 if p_y > k for all samples anew (one that was dropped may return), then the network on

    mean of  w L_q(p_y) + (1 - w) L_q(k)

k = 0.5; in the paper's runs of 120 epochs w is first set at epoch 40, then every 10 epochs (80 of 150 for 100 classes).

Where the truncated variant differs:

- The paper prunes with the snapshot that was best on noisy validation data. We prune with the current network: there is no such
  data unless a run holds some out, and no second set of weights to keep. The public reimplementation takes the best on TEST data.
- Pruning looks at all samples in evaluation mode without augmentation (the reimplementation: augmented), at an epoch's start.
- If pruning would drop every sample, all are kept: nothing could ever bring one back.
"""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from surelabel.core import Batch, Clock, Method, Pass, Run, SampleStore, Stage, Step, Task, View
from surelabel.core.losses import generalised_cross_entropy

PUBLISHED_PRUNING_SHARE = 40 / 120
PUBLISHED_INTERVAL_SHARE = 10 / 120


def kept_by_truncation(probability: Tensor, threshold: float) -> Tensor:
    """(N,) w: 1 where the (N,) probability of the given label is above k, else 0; 1 everywhere if it is nowhere above."""
    kept = probability > threshold
    return (kept if kept.any() else torch.ones_like(kept)).to(probability.dtype)


class GCE(Method):
    """A bounded loss whose gradient is cross entropy's times p_y^q, so that samples the network doubts weigh less.

    Options:
        q: between cross entropy (near 0) and half the mean absolute error (1); the paper has 0.7
        truncated: whether samples with p_y at most `threshold` are left out, reconsidered at intervals
        threshold: k, of the truncated loss; the paper has 0.5
    """

    paper = (
        "Zhang and Sabuncu: Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels, NeurIPS"
    )
    year = 2018
    kind = "loss"

    def __init__(
        self,
        task: Task,
        *,
        q: Annotated[float, Field(gt=0, le=1)] = 0.7,
        truncated: bool = False,
        threshold: Annotated[float, Field(ge=0, lt=1)] = 0.5,
    ) -> None:
        super().__init__(task)
        self.q, self.truncated, self.threshold = q, truncated, threshold
        self.network = task.network()
        self.start, self.interval = task.share(PUBLISHED_PRUNING_SHARE), task.share(PUBLISHED_INTERVAL_SHARE)
        if truncated:
            self.kept = SampleStore(task.num_samples, fill=1)

    def stages(self) -> list[Stage]:
        """One stage; the truncated loss prunes at the start of some epochs."""
        return [Stage("train", self.task.epochs, self.step, plan=self.plan if self.truncated else None)]

    def plan(self, run: Run) -> list[Pass]:
        """All samples; from a third of the run on, at intervals, which of them count."""
        since = run.clock.epoch - self.start
        if since >= 0 and since % self.interval == 0:
            probability = run.collect(self.given_probability, View(augment=False))
            self.kept.replace(kept_by_truncation(probability, self.threshold))
            run.note("kept_share", float(self.kept.whole().mean()))
        return [Pass(self.step, {"batch": View()})]

    def given_probability(self, batch: Batch) -> Tensor:
        """(B,) p at the given label."""
        return self.predict(batch.x).gather(1, batch.label[:, None]).squeeze(1)

    def step(self, batch: Batch, clock: Clock) -> Step:
        """Mean of (1 - p_y^q) / q, which is constant for samples that were pruned."""
        logits = self.network(batch.x).logits
        loss = generalised_cross_entropy(logits, batch.label, self.q)
        if self.truncated:
            kept = self.kept.read(batch.index)
            loss = kept * loss + (1 - kept) * (1 - self.threshold**self.q) / self.q
        return Step({"gce": batch.mean(loss)}, seen=logits.detach())
