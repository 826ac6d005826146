"""Cross entropy, the baseline: L = -log p at the given label, or at a target that is estimated as in CAR's last table."""

import torch
from pydantic import PositiveInt
from torch import Tensor

from surelabel.core import Batch, Clock, Method, Run, SampleStore, Step, Task
from surelabel.core.losses import cross_entropy
from surelabel.methods.car import PUBLISHED_START_SHARE, Momentum, TargetEstimation, TargetStrategy


class CrossEntropy(Method):
    """Plain cross entropy; it memorises wrong labels, which is what the others are measured against.

    Options:
        targets: what the loss aims at: none (the given labels), car or temporal_ensembling (the CAR paper's last table)
        correction_start: E_c, the epoch from which targets change; default the published share of the run, 60/500
        momentum: alpha, the share of the old target that stays in an update
    """

    paper = "baseline"
    year = 1989
    kind = "loss"

    def __init__(
        self,
        task: Task,
        *,
        targets: TargetStrategy = "none",
        correction_start: PositiveInt | None = None,
        momentum: Momentum = 0.9,
    ) -> None:
        super().__init__(task)
        self.network = task.network()
        start = task.share(PUBLISHED_START_SHARE) if correction_start is None else correction_start
        self.target = TargetEstimation(task, targets, start, momentum, threshold=0.0)

    def step(self, batch: Batch, clock: Clock) -> Step:
        """-sum t log p."""
        logits = self.network(batch.x).logits
        if self.target.strategy == "none":
            loss = cross_entropy(logits, batch.label)
        else:
            trusted = torch.ones_like(batch.weight)
            loss = cross_entropy(logits, self.target.update(batch, clock, logits.detach().softmax(1), trusted))
        return Step({"cross_entropy": batch.mean(loss)}, seen=logits.detach())

    def target_tables(self) -> list[SampleStore]:
        """The table of the target estimation."""
        return self.target.tables()

    def targets(self) -> SampleStore | None:
        """The table of t, if targets are estimated."""
        return self.target.store()

    def label_quality(self, run: Run) -> Tensor:
        """The running mean of p at the given label, or what the estimated targets say."""
        return self.target.quality(self.given, run.record.mean_given_probability)

    def corrected(self, run: Run) -> Tensor:
        """The final predictions, or the estimated targets."""
        return self.target.corrected(self.given, super().corrected(run))

    def warnings(self) -> list[str]:
        """Settings that can never correct a label."""
        return self.target.warnings()
