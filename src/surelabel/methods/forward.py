"""Forward correction with an estimated transition matrix (Patrini et al., 2017).

    T[i, j] = P(given = j | true = i)        rows are true classes
    L = -log (p T)[y]                        p then estimates the CLEAN posterior

Stage "estimate" trains with cross entropy, with a tenth of the samples held out, and keeps the
epoch with the lowest loss on their given labels. T's row i is the prediction for an anchor sample
of class i. Stage "train" starts from new weights.

Where we differ from the authors' code:

- Their outlier filter overwrites the predictions that later classes read, so that T depends on the
  order of classes. We copy them.
- They leave out the top 3 % for an anchor (and switch that off for 100 classes); we leave out
  0.3 / K of the samples, which is the same at 10 classes and stays inside the class at any K.
- T is the identity for a label that a person has confirmed, which is never held out either.
- Both stages share the run's epochs equally, so that a run sees as many samples as with any other
  method.
"""

import torch
from torch import Tensor

from surelabel.core import Batch, Clock, Method, Pass, Problem, Rows, Run, Stage, Step, Task, Verdict, View
from surelabel.core.losses import cross_entropy
from surelabel.methods._advice import warn_of_short_run
from surelabel.methods._selection import held_out_rows

HELD_OUT_SHARE = 0.1
OUTLIER_SHARE = 0.3
SMALLEST_TRANSITION = 1e-7
"""Floor of T inside the logarithm, so that an estimated zero does not make the loss infinite."""


def forward_loss(logits: Tensor, label: Tensor, transition: Tensor) -> Tensor:
    """Return (B,) -log (p T)[y], as a log-sum-exp so that it is exact for small p."""
    log_columns = transition.clamp(min=SMALLEST_TRANSITION).log().t()[label]
    return -torch.logsumexp(logits.log_softmax(1) + log_columns, 1)


def estimate_transition(probability: Tensor, outlier_share: float = OUTLIER_SHARE) -> Tensor:
    """Return (K, K) predictions at an anchor per class: its likeliest sample below the outliers."""
    num_samples, num_classes = probability.shape
    skip = min(int(round(outlier_share * num_samples / num_classes, 6)), num_samples - 1)
    anchors = probability.sort(dim=0, descending=True, stable=True).indices[skip]
    rows = probability[anchors]
    return rows / rows.sum(1, keepdim=True)


def posterior(probability: Tensor, label: Tensor, transition: Tensor) -> Tensor:
    """Return (N, K) P(true = i | x, given = y) = p_i T[i, y] / (p T)[y]."""
    joint = probability * transition.clamp(min=SMALLEST_TRANSITION).t()[label]
    return joint / joint.sum(1, keepdim=True)


class Forward(Method):
    """Estimates which classes are mistaken for which, and corrects the loss for it."""

    paper = "Patrini et al.: Making Deep Neural Networks Robust to Label Noise: A Loss Correction Approach, CVPR"
    year = 2017
    kind = "correction"
    when = (
        "You want an estimate of which class is mistaken for which, from thousands of rows per class. With few "
        "rows the estimate is poor."
    )

    transition: Tensor
    held_out: Tensor

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.network = task.network()
        self.register_buffer("transition", torch.eye(task.num_classes))
        self.register_buffer("held_out", held_out_rows(task, HELD_OUT_SHARE))

    def stages(self) -> list[Stage]:
        """Estimate T, then train new networks with it if the run has a second epoch."""
        first = max(1, self.task.epochs // 2)
        held_out = View(self.held_out.nonzero().squeeze(1), augment=False)
        estimate = Stage(
            "estimate",
            first,
            self.warm_up_step,
            plan=[Pass(self.warm_up_step, {"batch": View((~self.held_out).nonzero().squeeze(1))})],
            then=self.estimate,
            keep="best" if self.held_out.any() else "last",
            validate_on=held_out if self.held_out.any() else None,
        )
        train = Stage("train", self.task.epochs - first, self.step, reset="new")
        return [estimate, train] if train.epochs else [estimate]

    def advice(self, problem: Problem) -> list[str]:
        """Warn of a run that ends with the estimate."""
        if problem != "settings":
            return super().advice(problem)
        rest = self.task.epochs - max(1, self.task.epochs // 2)
        return warn_of_short_run(self.task, rest, "no loss is corrected")

    def warm_up_step(self, batch: Batch, _clock: Clock) -> Step:
        """Compute cross entropy."""
        logits = self.network(batch.x).logits
        return Step({"cross_entropy": batch.mean(cross_entropy(logits, batch.label))}, seen=logits.detach())

    def estimate(self, run: Run) -> None:
        """Set T from the predictions for all samples, without augmentation."""
        self.transition.copy_(
            estimate_transition(run.collect(lambda batch: self.predict(batch.x), View(augment=False)))
        )
        run.note("transition", self.transition.tolist())

    def step(self, batch: Batch, _clock: Clock) -> Step:
        """Compute -log (p T)[y], and -log p_y for a label that is confirmed."""
        logits = self.network(batch.x).logits
        corrected = forward_loss(logits, batch.label, self.transition)
        loss = torch.where(self.trusted[batch.index], cross_entropy(logits, batch.label), corrected)
        return Step({"forward": batch.mean(loss)}, seen=logits.detach())

    def verdict(self, rows: Rows) -> Verdict:
        """Return the posterior of the true class given the sample and its label, and its p_y."""
        corrected = posterior(rows.prediction, rows.given, self.transition)
        return Verdict(rows.at_given(corrected), corrected)
