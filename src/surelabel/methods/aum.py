"""AUM: area under the margin (Pleiss et al., 2020): find wrong labels, then train without them.

    margin      M = z_y - max over j != y of z_j, from the logits of the training pass
    AUM         mean of M over the visits of a sample, from the second on
    threshold   N / (K + 1) samples get the label of a class K + 1 that does not exist; a network
                can only memorise them, and the 99th percentile of their AUMs is what a wrong
                label may reach

A sample is flagged if more than 1 % of the threshold samples have a larger AUM. Two such runs are
made, with disjoint threshold sets, so that every sample is judged with its given label at least
once; it is removed if it is flagged in every run in which it had its given label. A new network is
then trained on the rest. The runs have 150, 150 and 300 epochs in the paper, with a constant rate
of 0.1 in the first two (the network must not yet have memorised everything); here they are a
quarter, a quarter and a half of the run.

Where we differ from the authors' code:

- The mean is over visits, not over epochs: they differ if an epoch does not have all samples
  (`data.epoch`). A sample that a run did not visit is not judged by that run.
- N // (K + 1) threshold samples, as in the paper (their code: N // K). Margins are not rounded to
  half precision.
- One network with K + 1 outputs is newly initialised for each run. The last run uses the first K
  outputs alone: the class that does not exist has no part in the final model.
- The measuring runs have the run's batch size; the paper has 64 there and 256 in the last run,
  because small batches memorise less.
- If fewer than two samples would be left, none is removed.
- A label that a person has confirmed is never removed, and never a threshold sample.

AUM is weak on asymmetric noise: wrong labels that agree with each other are learnt better than
threshold samples. Verdict: AUM minus its threshold, averaged over the runs in which the sample had
its given label, squeezed into [0, 1] by x / (1 + |x|) so that 1/2 is the threshold. On digits (40 %
symmetric, 100 epochs, seed 0) its AUROC is 0.937, or 0.946 with rate 0.02; the default verdict has
0.945, and p of the final network at the given label 0.992, but AUM is what defines this detector.
The paper defines no corrected label: ours is the final prediction.
"""

from typing import Annotated, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat
from torch import Tensor

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
    Task,
    Verdict,
    View,
)
from surelabel.core.losses import cross_entropy
from surelabel.methods._advice import warn_of_short_run

PUBLISHED_RATE, PUBLISHED_WEIGHT_DECAY = 0.1, 1e-4


def margins(logits: Tensor, label: Tensor) -> Tensor:
    """Return the (B,) logits at the labels minus the largest others."""
    label = label[:, None]
    return logits.gather(1, label).squeeze(1) - logits.scatter(1, label, -torch.inf).amax(1)


def visit_momentum(visit: Tensor) -> Tensor:
    """Return the momentum with which blending is a mean over visits, the first one excluded."""
    return 1 - 1 / (visit - 1).clamp(min=1)


def threshold_of(area: Tensor, is_threshold: Tensor, percentile: float) -> Tensor:
    """Return the AUM below which a sample is flagged; -inf without visited threshold samples."""
    values = area[is_threshold & ~area.isnan()].sort(descending=True).values
    if not len(values):
        return area.new_tensor(-torch.inf)
    # More than r n of n values are larger than x: x is smaller than the value that floor(r n)
    # others precede.
    return values[min(int((1 - percentile) * len(values) + 1e-6), len(values) - 1)]


class AUM(Method):
    """Two runs measure margins against a fake class; a third trains without what they flag.

    Options:
        percentile: of the threshold samples' AUMs, below which a sample is flagged
        rate: constant learning rate of the two measuring runs, 0.1 with SGD as in the paper; null
          is the run's rate and schedule
        weight_decay: of the two measuring runs, 0.0001 with SGD; null is the run's
    """

    paper = "Pleiss et al.: Identifying Mislabeled Data using the Area Under the Margin Ranking, NeurIPS"
    year = 2020
    kind = "selection"
    when = (
        "You want a list of suspects by a published detector. It spends half of the run on measuring, and is weak "
        "where wrong labels agree with each other (asymmetric noise)."
    )
    candidates = Candidates("0.1 is the paper's rate; 0.02 ranked better on digits.", rate=("published", 0.02))

    removed: Tensor
    threshold: Tensor
    role: Tensor

    def __init__(
        self,
        task: Task,
        *,
        percentile: Annotated[float, Field(gt=0, le=1)] = 0.99,
        rate: PositiveFloat | Literal["published"] | None = "published",
        weight_decay: NonNegativeFloat | Literal["published"] | None = "published",
    ) -> None:
        super().__init__(task)
        self.percentile = percentile
        self.rate = task.for_sgd(rate, PUBLISHED_RATE)
        self.weight_decay = task.for_sgd(weight_decay, PUBLISHED_WEIGHT_DECAY)
        self.network = task.network(outputs=task.num_classes + 1)
        self.first_area, self.second_area = (SampleStore(task.num_samples, fill=torch.nan) for _ in range(2))
        self.first_visits, self.second_visits = (SampleStore(task.num_samples) for _ in range(2))
        self.register_buffer("threshold", torch.full((2,), -torch.inf))
        self.register_buffer("removed", torch.zeros(task.num_samples, dtype=torch.bool))
        self.register_buffer("role", threshold_roles(task))

    @property
    def area(self) -> tuple[SampleStore, SampleStore]:
        """The tables of mean margins of both runs; NaN where a run did not visit a sample."""
        return self.first_area, self.second_area

    @property
    def visits(self) -> tuple[SampleStore, SampleStore]:
        """How often each run has visited a sample."""
        return self.first_visits, self.second_visits

    def stages(self) -> list[Stage]:
        """Measure twice with different threshold samples, then train on the rest."""
        quarter = -(-self.task.epochs // 4)
        second = min(quarter, self.task.epochs - quarter)
        kept = [Pass(self.step, {"batch": View((~self.removed).nonzero().squeeze(1))})]
        rate, decay = self.rate, self.weight_decay
        stages = [
            Stage("first", quarter, self.first_step, then=self.judge, rate=rate, weight_decay=decay),
            Stage("second", second, self.second_step, then=self.judge, reset="new", rate=rate, weight_decay=decay),
            Stage("train", self.task.epochs - quarter - second, self.step, plan=kept, reset="new"),
        ]
        return [stage for stage in stages if stage.epochs]

    def advice(self, problem: Problem) -> list[str]:
        """Warn of a run that ends with the measurements."""
        if problem != "settings":
            return super().advice(problem)
        rest = self.task.epochs - 2 * -(-self.task.epochs // 4)
        return warn_of_short_run(self.task, rest, "no network is trained without the flagged labels")

    def first_step(self, batch: Batch, _clock: Clock) -> Step:
        """Measure with the first set of threshold samples."""
        return self.measure(batch, 0)

    def second_step(self, batch: Batch, _clock: Clock) -> Step:
        """Measure with the second set of threshold samples."""
        return self.measure(batch, 1)

    def measure(self, batch: Batch, number: int) -> Step:
        """Compute cross entropy over K + 1 classes, and add the margins to the run's mean."""
        logits = self.network(batch.x).logits
        label = torch.where(self.role[batch.index] == number, self.task.num_classes, batch.label)
        visit = self.visits[number].read(batch.index) + 1
        self.visits[number].write(batch.index, visit)
        area = self.area[number].read(batch.index).nan_to_num()
        self.area[number].write(batch.index, area.lerp(margins(logits.detach(), label), 1 - visit_momentum(visit)))
        return Step({"cross_entropy": batch.mean(cross_entropy(logits, label))}, seen=logits.detach()[:, :-1])

    def judge(self, run: Run) -> None:
        """Set the threshold of the run that has ended, and the samples that all runs flag."""
        number = 0 if run.clock.stage == "first" else 1
        self.threshold[number] = threshold_of(self.area[number].whole(), self.role == number, self.percentile)
        is_judged = self.is_judged()[: number + 1]
        flagged = (self.distances()[: number + 1] < 0) | ~is_judged
        removed = flagged.all(0) & is_judged.any(0) & ~self.trusted
        self.removed.copy_(removed if int(removed.sum()) <= len(removed) - 2 else torch.zeros_like(removed))
        run.note("threshold", float(self.threshold[number]))
        run.note("removed_share", self.removed.float().mean().item())

    def distances(self) -> Tensor:
        """Return (2, N) AUM minus the threshold, of each run; NaN without a visit."""
        return torch.stack([store.whole() for store in self.area]) - self.threshold[:, None]

    def is_threshold(self) -> Tensor:
        """Return (2, N) whether a sample had the label of the class that does not exist."""
        return torch.stack([self.role == 0, self.role == 1])

    def is_judged(self) -> Tensor:
        """Return (2, N) whether a run has visited a sample with its given label."""
        return ~self.is_threshold() & torch.stack([~store.whole().isnan() for store in self.area])

    def step(self, batch: Batch, _clock: Clock) -> Step:
        """Compute cross entropy over the K real classes."""
        logits = self.network(batch.x).logits[:, :-1]
        return Step({"cross_entropy": batch.mean(cross_entropy(logits, batch.label))}, seen=logits.detach())

    def predict(self, x: Tensor) -> Tensor:
        """Return the softmax over the K real classes."""
        logits: Tensor = self.network(x).logits
        return logits[:, :-1].softmax(1)

    def verdict(self, rows: Rows) -> Verdict:
        """Return the mean distance of AUM to the threshold, squeezed into [0, 1]."""
        area = torch.stack([store.read(rows.index) for store in self.area])
        # A threshold of -inf belongs to a run that was not made.
        counts = ~self.is_threshold()[:, rows.index] & self.threshold.isfinite()[:, None] & ~area.isnan()
        distance = (area - self.threshold[:, None]).masked_fill(~counts, 0).sum(0) / counts.sum(0).clamp(min=1)
        return Verdict((1 + distance / (1 + distance.abs())) / 2, rows.prediction)


def threshold_roles(task: Task) -> Tensor:
    """Return (N,) 0 or 1 for the threshold samples of the first and second run, -1 for the rest."""
    order = torch.randperm(task.num_samples, generator=torch.Generator().manual_seed(task.seed))
    if task.trusted is not None:  # a confirmed label is never replaced
        order = order[~task.trusted.cpu()[order]]
    count = min(task.num_samples // (task.num_classes + 1), len(order) // 2)
    role = torch.full((task.num_samples,), -1)
    role[order[:count]] = 0
    role[order[count : 2 * count]] = 1
    return role
