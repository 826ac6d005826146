"""GCE: Generalized Cross Entropy (Zhang and Sabuncu, 2018), and its truncated variant.

    L_q = (1 - p_y^q) / q

It lies between cross entropy (q to 0) and half the mean absolute error (q = 1). The paper and
every later table use q = 0.7. We did not have the paper; formula and default are checked against
these limits and the public reimplementation.

Truncated, the loss is the constant L_q(k) if p_y <= k, so such samples have no gradient. Training
alternates: with the network fixed, w_i = 1 if p_y > k and else 0 for all samples, so that one that
was dropped may return; then the network is trained on

    mean of  w L_q(p_y) + (1 - w) L_q(k)

with k = 0.5. In the paper's runs of 120 epochs w is first set at epoch 40, then every 10 epochs; we
take these shares of the run. (The paper's runs on 100 classes begin later, at epoch 80 of 150.)

L_q treats a label that a person has confirmed like any other. Truncated, it is never dropped.

Where the truncated variant differs from the paper:

- The paper prunes with the snapshot that was best on noisy validation data. We prune with the
  current network: there are no such data unless a run holds some out, and no second set of weights
  to store. The public reimplementation takes the best on TEST data.
- Pruning evaluates all samples at the start of an epoch, in evaluation mode and without
  augmentation (the reimplementation augments).
- If pruning would drop every sample, all are kept: without a gradient no sample could ever return.
"""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from surelabel.core import Batch, Candidates, Clock, Method, Pass, Run, SampleStore, Stage, Step, Task, View
from surelabel.core.losses import generalised_cross_entropy

PUBLISHED_PRUNING_SHARE = 40 / 120
PUBLISHED_INTERVAL_SHARE = 10 / 120


def kept_by_truncation(probability: Tensor, threshold: float) -> Tensor:
    """Return w (N,): 1 if the probability (N,) of the given label is above k, else 0.

    If none is above k, w is 1 everywhere.
    """
    kept = probability > threshold
    return (kept if kept.any() else torch.ones_like(kept)).to(probability.dtype)


class GCE(Method):
    """A bounded loss; its gradient is that of cross entropy times p_y^q, small for doubted samples.

    Options:
        q: between cross entropy (near 0) and half the mean absolute error (1); the paper uses 0.7
        truncated: whether to leave out samples with p_y at most `threshold`; reconsidered at
          intervals
        threshold: k of the truncated loss; the paper uses 0.5
    """

    paper = (
        "Zhang and Sabuncu: Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels, NeurIPS"
    )
    year = 2018
    kind = "loss"
    when = (
        "You want a robust loss in one line, with one number between cross entropy and mean absolute error. Long "
        "runs still memorise in part."
    )
    candidates = Candidates("The paper's two losses, both with q = 0.7.", truncated=(False, True))

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
        self.start, self.interval = task.epochs_of(PUBLISHED_PRUNING_SHARE), task.epochs_of(PUBLISHED_INTERVAL_SHARE)
        if truncated:
            self.kept = SampleStore(task.num_samples, fill=1)

    def stages(self) -> list[Stage]:
        """Return one stage; the truncated loss prunes at the start of some epochs."""
        return [Stage("train", self.task.epochs, self.step, plan=self.plan if self.truncated else None)]

    def plan(self, run: Run) -> list[Pass]:
        """Train on all samples; from a third of the run on, prune at intervals."""
        since = run.clock.epoch - self.start
        if since >= 0 and since % self.interval == 0:
            probability = run.collect(self.given_probability, View(augment=False))
            self.kept.replace(kept_by_truncation(probability, self.threshold).masked_fill(self.trusted, 1.0))
            run.note("kept_share", float(self.kept.whole().mean()))
        return [Pass(self.step, {"batch": View()})]

    def given_probability(self, batch: Batch) -> Tensor:
        """Return p at the given label, (B,)."""
        return self.predict(batch.x).gather(1, batch.label[:, None]).squeeze(1)

    def step(self, batch: Batch, _clock: Clock) -> Step:
        """Return the mean of (1 - p_y^q) / q, which is constant for samples that were pruned."""
        logits = self.network(batch.x).logits
        loss = generalised_cross_entropy(logits, batch.label, self.q)
        if self.truncated:
            kept = self.kept.read(batch.index)
            loss = kept * loss + (1 - kept) * (1 - self.threshold**self.q) / self.q
        return Step({"gce": batch.mean(loss)}, seen=logits.detach())
