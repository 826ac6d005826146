"""SAT: Self-Adaptive Training (Huang, Zhang and Zhang, 2020).

    epochs 1 .. E_s    L = -log p_y
    afterwards         t <- alpha t + (1 - alpha) p     before the loss; t starts as e_y
                       w = max_k t_k
                       L = sum_i w_i (-sum_k t_ik log p_ik) / sum_i w_i     over the whole batch

p is the detached prediction of the same forward pass. Defaults are the authors': alpha 0.9, E_s =
60 of 200 epochs, for CIFAR-10 and CIFAR-100 alike; the start is rescaled to the run.

Where we differ from the authors' code: t is a buffer, so it survives a restart (theirs is lost).
Their variant with a reverse term (sat_sce) is not implemented.

The verdict is the default, the running mean of p at the given label: on digits with 40 % symmetric
noise its AUROC is 0.92 and that of t_y 0.74 if targets change too late (E_s = 30 of 100 epochs,
last accuracy 0.71), 0.987 and 0.988 if they change in time (E_s = 2, 0.92). They must change before
wrong labels are memorised, which takes three epochs there.
"""

from typing import Annotated

from pydantic import Field, NonNegativeInt
from torch import Tensor

from surelabel.core import (
    Batch,
    Candidates,
    Clock,
    Method,
    Problem,
    Rows,
    Step,
    TargetTable,
    Task,
    Verdict,
)
from surelabel.core.losses import cross_entropy
from surelabel.core.tables import EVERY_FORM
from surelabel.methods._targets import warn_of_few_updates


class SAT(Method):
    """Targets that drift from the given labels to the predictions, weighted by their certainty.

    Options:
        correction_start: E_s, epochs of plain cross entropy before targets change; default the
          published share, 60/200
        momentum: alpha, the fraction of the old target that stays in an update
    """

    paper = "Huang, Zhang and Zhang: Self-Adaptive Training: beyond Empirical Risk Minimization, NeurIPS"
    year = 2020
    kind = "label correction"
    when = (
        "As CAR without tau, weighting rows by how sure their target is. Set `correction_start` before wrong "
        "labels are memorised."
    )
    start_share = 60 / 200
    """E_s of the authors, as a fraction of their epochs."""
    table_forms = EVERY_FORM
    candidates = Candidates(
        "The published share; the epochs are ours, for networks that memorise soon.", correction_start=(None, 5, 2)
    )

    def __init__(
        self,
        task: Task,
        *,
        correction_start: NonNegativeInt | None = None,
        momentum: Annotated[float, Field(ge=0, le=1)] = 0.9,
    ) -> None:
        super().__init__(task)
        self.correction_start = task.epochs_of(self.start_share) if correction_start is None else correction_start
        self.momentum = momentum
        self.network = task.network()
        self.target = task.class_table(one_hot=True)

    def step(self, batch: Batch, clock: Clock) -> Step:
        """Compute cross entropy with the given label up to E_s, then with the updated target."""
        logits = self.network(batch.x).logits
        if clock.epoch <= self.correction_start:
            loss = batch.mean(cross_entropy(logits, batch.label))
        else:
            self.target.blend(batch.index, logits.detach().softmax(1), self.momentum)
            loss = self.loss(batch, logits, self.target.read(batch.index))
        return Step({"cross_entropy": loss}, seen=logits.detach())

    def loss(self, batch: Batch, logits: Tensor, target: Tensor) -> Tensor:
        """Return cross entropy with the targets, weighted by how certain they are."""
        weight = target.amax(1)
        return batch.mean(weight * cross_entropy(logits, target)) / batch.mean(weight)

    def advice(self, problem: Problem) -> list[str]:
        """Warn of labels that keep more than half of their weight in the targets."""
        if problem != "settings":
            return super().advice(problem)
        default = self.task.epochs_of(self.start_share)
        return warn_of_few_updates(self.task, self.correction_start, self.momentum, default)

    def target_tables(self) -> list[TargetTable]:
        """Return the table of t."""
        return [TargetTable(self.target)]

    def verdict(self, rows: Rows) -> Verdict:
        """Return the default quality, and t, normalised."""
        target = self.target.read(rows.index)
        return Verdict(rows.mean_given_probability, target / target.sum(1, keepdim=True))
