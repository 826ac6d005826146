"""Joint Optimization (Tanaka et al., 2018): optimise labels and weights in turn.

    L = L_c + a L_p + b L_e           s = softmax, t = the current label, q = the class prior
    L_c = -mean_i sum_k t_ik log s_ik
    L_p = sum_k q_k log(q_k / sbar_k)                        sbar = mean of s over the whole batch
    L_e = -mean_i sum_k s_ik log s_ik
    t <- mean of s over the last 10 visits of the sample     after each epoch from `begin` on

Stage "labels" trains at a high, constant learning rate, which keeps a network from memorising.
Stage "train" starts from new weights, with plain cross entropy on the final t. L_p keeps labels
from collapsing into one class, L_e makes them definite.

The authors have 200 epochs (labels change after epoch 70), then 120; PreAct ResNet, SGD, batch 128;
for 70 % symmetric noise on CIFAR-10 rate 0.08, a 1.2, b 0.8 (our defaults); for 40 % asymmetric
0.03, 0.8, 0.4. Unverified, from memory: 0.01 to 0.04 for 0 to 50 % symmetric noise, with the same a
and b. Lengths are rescaled to the run: 200/320, 70/320, 120/320.

Where we differ from the authors' code:

- The mean is over visits, not over epochs: they differ if an epoch does not have all samples
  (`data.epoch`). A sample that was not visited yet keeps its label.
- L_p is the KL divergence; theirs leaves out its constant. The gradient is the same.
- `prior=given` takes q from the given labels, for data that are not balanced; theirs is uniform.
- The second stage uses the run's optimiser (theirs: rate 0.2, a tenth after each third).
- As in their code the mean in L_p is over the batch: with as many classes as rows in a batch L_p is
  biased, and prior_weight should be small.

Labels must begin to change before wrong ones are memorised: on digits with 40 % symmetric noise
(100 epochs, seed 0) the last accuracy is 0.81 with `begin` at the published fraction and 0.97 with
begin=5. The verdict is the default, the running mean of p at the given label: its AUROC is 0.999
there (begin=5) and 0.987 (default), that of t_y 0.998 and 0.894.
"""

from typing import Literal, cast

import torch
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor, nn

from surelabel.core import (
    Batch,
    Candidates,
    Clock,
    Method,
    Pass,
    Problem,
    Rows,
    Run,
    SampleStore,
    Stage,
    Step,
    TargetTable,
    Task,
    Verdict,
    View,
    total,
)
from surelabel.core.losses import cross_entropy
from surelabel.methods._advice import warn_of_late_start, warn_of_short_run

PUBLISHED_EPOCHS = 320
PUBLISHED_RATE, PUBLISHED_WEIGHT_DECAY = 0.08, 1e-4
LABEL_SHARE = 200 / PUBLISHED_EPOCHS
BEGIN_SHARE = 70 / PUBLISHED_EPOCHS
WINDOW = 10
SMALLEST_MEAN = 1e-8
"""Floor of a class's mean prediction inside the logarithm, since it may underflow."""


def prior_divergence(logits: Tensor, weight: Tensor, prior: Tensor) -> Tensor:
    """Return L_p: KL(q | mean prediction over all ranks' real rows)."""
    mean = total((logits.softmax(1) * weight[:, None]).sum(0)) / total(weight.sum()).clamp(min=1)
    return (torch.xlogy(prior, prior) - prior * mean.clamp(min=SMALLEST_MEAN).log()).sum()


def entropy(logits: Tensor) -> Tensor:
    """Return (B,) -sum s log s."""
    log_s = logits.log_softmax(1)
    return -(log_s.exp() * log_s).sum(1)


class JointOptimization(Method):
    """Recent predictions, averaged, replace the labels; then a new network trains on these.

    Options:
        rate: the high, constant learning rate of the first stage, 0.08 with SGD; the authors have
          0.03 to 0.12, higher for more noise; null is the run's rate and schedule
        weight_decay: of the first stage, 0.0001 with SGD; null is the run's
        prior_weight: a, the weight of the term that keeps classes in proportion
        entropy_weight: b, the weight of the term that makes predictions definite
        begin: epochs before labels change; default the published fraction, 70/320
        window: visits whose predictions are averaged to a label; default the authors' 10, or as
          many as come before labels change
        prior: q, the proportion of classes: uniform, or as the given labels have it
    """

    paper = "Tanaka et al.: Joint Optimization Framework for Learning with Noisy Labels, CVPR"
    year = 2018
    kind = "label correction"
    when = (
        "You want one set of corrected labels and can tune when labels begin to change (`begin`). It was second "
        "on digits, tuned."
    )
    candidates = Candidates(
        "The ends of the authors' range of rates; the epochs are ours, for shorter runs.",
        begin=(None, 10, 5),
        rate=("published", 0.03, 0.12),
    )

    class_prior: Tensor

    def __init__(
        self,
        task: Task,
        *,
        rate: PositiveFloat | Literal["published"] | None = "published",
        weight_decay: NonNegativeFloat | Literal["published"] | None = "published",
        prior_weight: NonNegativeFloat = 1.2,
        entropy_weight: NonNegativeFloat = 0.8,
        begin: PositiveInt | None = None,
        window: PositiveInt | None = None,
        prior: Literal["uniform", "given"] = "uniform",
    ) -> None:
        super().__init__(task)
        self.rate = task.for_sgd(rate, PUBLISHED_RATE)
        self.weight_decay = task.for_sgd(weight_decay, PUBLISHED_WEIGHT_DECAY)
        self.prior_weight, self.entropy_weight = prior_weight, entropy_weight
        self.label_epochs = task.epochs_of(LABEL_SHARE)
        self.begin = min(task.epochs_of(BEGIN_SHARE), self.label_epochs) if begin is None else begin
        window = min(WINDOW if window is None else window, self.begin, self.label_epochs)
        self.network = task.network()
        self.target = SampleStore.one_hot(task.given, task.num_classes)
        self.recent = nn.ModuleList(SampleStore(task.num_samples, task.num_classes) for _ in range(window))
        counts = torch.bincount(task.given, minlength=task.num_classes).float()
        if prior == "uniform":
            counts = torch.ones_like(counts)
        self.register_buffer("class_prior", counts / counts.sum(), persistent=False)

    def stages(self) -> list[Stage]:
        """Optimise labels at a high rate, then train new weights on them."""
        labels = Stage(
            "labels",
            self.label_epochs,
            self.label_step,
            plan=self.plan,
            then=self.update_labels,
            rate=self.rate,
            weight_decay=self.weight_decay,
        )
        rest = self.task.epochs - self.label_epochs
        return [labels, Stage("train", rest, self.step, reset="new")] if rest else [labels]

    def advice(self, problem: Problem) -> list[str]:
        """Warn of labels that never change."""
        if problem != "settings":
            return super().advice(problem)
        default = min(self.task.epochs_of(BEGIN_SHARE), self.label_epochs)
        # A row counts if it was visited at all before the last update, which ends the stage.
        left = self.label_epochs if self.begin <= self.label_epochs else 0
        settings = ("begin", self.begin, left, default)
        late = warn_of_late_start(self.task, *settings, "no label can change", left_by_default=self.label_epochs)
        rest = self.task.epochs - self.label_epochs
        return late or warn_of_short_run(self.task, rest, "no network is trained on the new labels")

    @property
    def stores(self) -> list[SampleStore]:
        """The predictions at the last visits, the latest first; zero where there was none."""
        return cast(list[SampleStore], list(self.recent))

    def plan(self, run: Run) -> list[Pass]:
        """Update the labels, from the epoch after `begin` on, and plan a pass over all rows."""
        if run.clock.epoch > self.begin:
            self.update_labels(run)
        return [Pass(self.label_step, {"batch": View()})]

    def update_labels(self, run: Run) -> None:
        """Set labels to the mean of recent predictions, once `begin` epochs are done."""
        if run.clock.epoch >= self.begin:
            self.target.average(self.stores)

    def remember(self, index: Tensor, probability: Tensor) -> None:
        """Store the latest predictions of rows, and forget the oldest ones."""
        for store in self.stores:
            earlier = store.read(index)
            store.write(index, probability)
            probability = earlier

    def label_step(self, batch: Batch, _clock: Clock) -> Step:
        """Compute L_c + a L_p + b L_e, and store the predictions."""
        logits = self.network(batch.x).logits
        self.remember(batch.index, logits.softmax(1))
        terms = {
            "cross_entropy": batch.mean(cross_entropy(logits, self.target.read(batch.index))),
            "prior": self.prior_weight * prior_divergence(logits, batch.weight, self.class_prior),
            "entropy": self.entropy_weight * batch.mean(entropy(logits)),
        }
        return Step(terms, seen=logits.detach())

    def step(self, batch: Batch, _clock: Clock) -> Step:
        """Compute cross entropy with the final labels."""
        logits = self.network(batch.x).logits
        loss = cross_entropy(logits, self.target.read(batch.index))
        return Step({"cross_entropy": batch.mean(loss)}, seen=logits.detach())

    def target_tables(self) -> list[TargetTable]:
        """Return the table of t."""
        return [TargetTable(self.target)]

    def verdict(self, rows: Rows) -> Verdict:
        """Return the default quality, and t, normalised."""
        target = self.target.read(rows.index)
        return Verdict(rows.mean_given_probability, target / target.sum(1, keepdim=True))
