"""PENCIL: Probabilistic End-to-end Noise Correction (Yi and Wu, 2019), label step in closed form.

    d = softmax(y~), the label distribution of a sample; f = softmax(z)
    y~ starts as 10 x the given one-hot label
    L = L_c / K + a L_o + (b / K) L_e
    L_c = mean_i KL(f_i | d_i)        the network first, the reverse of the usual order
    L_o = -mean_i log d_i[y]          keeps d near the given label; no gradient for the network
    L_e = mean_i H(f_i)
    y~ <- y~ - lambda dL/dy~ = y~ - (lambda / B) [(d - f) / K + a (d - e_y)]    B the batch size

Stage "backbone": cross entropy with the given labels at a constant high rate. Stage "labels": L,
for weights and labels together. Stage "train": labels are frozen, the loss is L_c / K alone. The
published lengths are 70, 130 and 120 of 320 epochs, which we rescale to the run.

Defaults are the authors' for CIFAR-10: rate 0.06 in the first two stages, a 0.4, b 0.1, lambda 600
at batch 128. A third party's commands (not the paper's; a with the double softmax) have 0.03, 0.1,
0.8, 300 for 30 % symmetric noise; 0.03, 0, 0.4, 4000 for 50 % asymmetric; 0.0016, 0.08, 0.8, 3000
on Clothing1M.

Where we differ from the authors' code:

- L_o is the paper's. Their code takes the softmax of d a second time, which makes its pull far
  weaker, so their a = 0.4 does not carry over: a label is at rest at d = (f + a K e_y) / (1 + a K),
  so with the true L_o the given class stays the largest for ever if a >= 1 / K. Our default is
  0.4 / K, which weights L_o as 0.4 against L_c; values from 1 / K on raise a warning.
- The label step is the closed form above (the same number as their backward pass), and B is always
  the published 128: a label's step then does not depend on the size of its batch (a batch of
  one would move it 128 times as far).
- The table holds d, whose logarithm is y~ up to a constant that the softmax does not see; a floor
  keeps log d finite; the number of classes is not fixed to ten.
- The third stage uses the run's optimiser. Theirs is meant to have rate 0.2 and a tenth after each
  third, but an integer division makes the rate of the last two thirds zero.

The backbone stage must end before wrong labels are memorised: on digits with 40 % symmetric noise
(100 epochs, seed 0) the last accuracy is 0.68 with the published fraction (22 epochs), 0.90 with
backbone=3, 0.93 with label_rate=4000 in addition, and 0.98 with given_weight=0 as well. The verdict
is the default, the running mean of p at the given label: its AUROC there is 0.998 with backbone=3
and label_rate=4000, never below that of d_y.
"""

from typing import Literal

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor
from torch.nn import functional as F

from surelabel.core import (
    Batch,
    Candidates,
    Clock,
    Method,
    Problem,
    Rows,
    SampleStore,
    Stage,
    Step,
    TargetTable,
    Task,
    Verdict,
)
from surelabel.core.losses import cross_entropy
from surelabel.methods._advice import warn_of_late_start

PUBLISHED_RATE, PUBLISHED_WEIGHT_DECAY = 0.06, 1e-4
BACKBONE_SHARE = 70 / 320
LABELS_END_SHARE = 200 / 320
PUBLISHED_GIVEN_WEIGHT = 0.4
INITIAL_LOGIT = 10.0
"""Initial y~ of the given class: d_y = 0.9996 for ten classes."""
PUBLISHED_BATCH = 128
"""B of the label step."""
SMALLEST_LABEL = 1e-30
"""Floor of d inside the logarithm, so that a class that has underflowed can come back."""


def divergence(logits: Tensor, log_label: Tensor) -> Tensor:
    """Return (B,) KL(f | d) from the network's (B, K) logits and log d."""
    log_f = logits.log_softmax(1)
    return (log_f.exp() * (log_f - log_label)).sum(1)


def entropy(logits: Tensor) -> Tensor:
    """Return (B,) H(f)."""
    log_f = logits.log_softmax(1)
    return -(log_f.exp() * log_f).sum(1)


def label_gradient(label: Tensor, probability: Tensor, given: Tensor, given_weight: float) -> Tensor:
    """Return the (B, K) gradient of KL / K + a L_o at y~: (d - f) / K + a (d - e_y)."""
    num_classes = label.shape[1]
    return (label - probability) / num_classes + given_weight * (label - F.one_hot(given, num_classes))


def log_of(label: Tensor) -> Tensor:
    """Return (B, K) log d, which is y~ up to a constant per row."""
    return label.clamp(min=SMALLEST_LABEL).log()


class PENCIL(Method):
    """Label distributions that are learned together with the weights.

    Options:
        rate: the high, constant learning rate of the first two stages, 0.06 with SGD; null is the
          run's rate and schedule
        weight_decay: of the first two stages, 0.0001 with SGD; null is the run's
        backbone: epochs of the first stage, which must end before wrong labels are memorised;
          default the published fraction, 70/320
        label_rate: lambda, the step of a label at batch 128; larger corrects faster, hundreds to
          thousands
        given_weight: a, the weight of the term that keeps labels as they are given; default 0.4 /
          K; from 1 / K on none can change
        entropy_weight: b, the weight of the term that makes predictions definite
    """

    paper = "Yi and Wu: Probabilistic End-to-end Noise Correction for Learning with Noisy Labels, CVPR"
    year = 2019
    kind = "label correction"
    when = "You want a distribution over classes for each label. Three stages must suit the length of the run."
    candidates = Candidates(
        "The authors', and a third party's for asymmetric noise; 3 epochs are ours.",
        backbone=(None, 3),
        label_rate=(600.0, 4000.0),
        given_weight=(None, 0.0),
    )

    def __init__(
        self,
        task: Task,
        *,
        rate: PositiveFloat | Literal["published"] | None = "published",
        weight_decay: NonNegativeFloat | Literal["published"] | None = "published",
        backbone: PositiveInt | None = None,
        label_rate: NonNegativeFloat = 600.0,
        given_weight: NonNegativeFloat | None = None,
        entropy_weight: NonNegativeFloat = 0.1,
    ) -> None:
        super().__init__(task)
        self.rate, self.label_rate = task.for_sgd(rate, PUBLISHED_RATE), label_rate
        self.weight_decay = task.for_sgd(weight_decay, PUBLISHED_WEIGHT_DECAY)
        self.given_weight = PUBLISHED_GIVEN_WEIGHT / task.num_classes if given_weight is None else given_weight
        self.entropy_weight = entropy_weight
        self.backbone = min(task.epochs_of(BACKBONE_SHARE) if backbone is None else backbone, task.epochs)
        self.network = task.network()
        self.label = SampleStore.one_hot(task.given, task.num_classes)
        self.label.rows.copy_((INITIAL_LOGIT * self.label.rows).softmax(1))

    def stages(self) -> list[Stage]:
        """Train the backbone, then labels too, then with fixed labels; short runs end earlier."""
        rate, decay = self.rate, self.weight_decay
        second = self.label_epochs(self.backbone)
        third = self.task.epochs - self.backbone - second
        stages = [
            Stage("backbone", self.backbone, self.backbone_step, rate=rate, weight_decay=decay),
            Stage("labels", second, self.label_step, rate=rate, weight_decay=decay),
            Stage("train", third, self.step),
        ]
        return [stage for stage in stages if stage.epochs > 0]

    def label_epochs(self, backbone: int) -> int:
        """Return the epochs of the second stage after a first one of `backbone` epochs."""
        return min(self.task.epochs_of(LABELS_END_SHARE, least=backbone + 1), self.task.epochs) - backbone

    def backbone_step(self, batch: Batch, _clock: Clock) -> Step:
        """Compute cross entropy with the given labels."""
        logits = self.network(batch.x).logits
        return Step({"cross_entropy": batch.mean(cross_entropy(logits, batch.label))}, seen=logits.detach())

    def label_step(self, batch: Batch, _clock: Clock) -> Step:
        """Compute L, and update the labels from the same forward pass."""
        logits = self.network(batch.x).logits
        label = self.label.read(batch.index)
        log_label = log_of(label)
        num_classes = self.task.num_classes
        terms = {
            "divergence": batch.mean(divergence(logits, log_label)) / num_classes,
            "given": self.given_weight * batch.mean(F.nll_loss(log_label, batch.label, reduction="none")),
            "entropy": self.entropy_weight * batch.mean(entropy(logits)) / num_classes,
        }
        gradient = label_gradient(label, logits.detach().softmax(1), batch.label, self.given_weight)
        self.label.write(batch.index, (log_label - self.label_rate / PUBLISHED_BATCH * gradient).softmax(1))
        return Step(terms, seen=logits.detach())

    def step(self, batch: Batch, _clock: Clock) -> Step:
        """Compute KL(f | d) / K with frozen labels."""
        logits = self.network(batch.x).logits
        log_label = log_of(self.label.read(batch.index))
        loss = batch.mean(divergence(logits, log_label)) / self.task.num_classes
        return Step({"divergence": loss}, seen=logits.detach())

    def target_tables(self) -> list[TargetTable]:
        """Return the table of d."""
        return [TargetTable(self.label)]

    def advice(self, problem: Problem) -> list[str]:
        """Warn of labels that never change, or whose given class stays the likeliest for ever."""
        if problem != "settings":
            return super().advice(problem)
        default = self.task.epochs_of(BACKBONE_SHARE)
        left, by_default = (self.label_epochs(length) for length in (self.backbone, default))
        settings = ("backbone", self.backbone, left, default)
        late = warn_of_late_start(self.task, *settings, "no label can change", left_by_default=by_default)
        largest = 1 / self.task.num_classes
        if self.given_weight < largest:
            return late
        return [
            *late,
            f"method.given_weight={self.given_weight:g} can never correct a label; "
            f"use given_weight={PUBLISHED_GIVEN_WEIGHT * largest:.2g}, or any value below 1/K = {largest:.2g}",
        ]

    def verdict(self, rows: Rows) -> Verdict:
        """Return the default quality, and d, normalised."""
        target = self.label.read(rows.index)
        return Verdict(rows.mean_given_probability, target / target.sum(1, keepdim=True))
