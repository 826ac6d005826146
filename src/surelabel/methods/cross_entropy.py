"""Cross entropy, the baseline: L = -log p at the given label.

The CAR paper's last table also aims it at estimated targets, L = -sum t log p. A label
that a person has confirmed is treated like any other, except that its target is not estimated.
"""

import torch
from pydantic import PositiveInt

from surelabel.core import Batch, Candidates, Clock, Method, Problem, Rows, Step, TargetTable, Task, Verdict
from surelabel.core.losses import cross_entropy
from surelabel.methods._targets import GivenLabels, Momentum, Strategy, make_targets


class CrossEntropy(Method):
    """Plain cross entropy, the baseline; it memorises wrong labels.

    Options:
        targets: what the loss aims at: none (the given labels), car or temporal_ensembling (the CAR
          paper's last table)
        correction_start: E_c, the epoch from which targets change; default the published fraction
          of the run, 60/500
        momentum: alpha, the fraction of the old target that stays in an update
    """

    paper = "baseline"
    year = 1989
    kind = "loss"
    when = "Labels are right, or you need a baseline. It memorises wrong labels when trained for long."
    resists_wrong_labels = False
    candidates = Candidates("The rows of the CAR paper's last table.", targets=("none", "car", "temporal_ensembling"))

    def __init__(
        self,
        task: Task,
        *,
        targets: Strategy = "none",
        correction_start: PositiveInt | None = None,
        momentum: Momentum = 0.9,
    ) -> None:
        super().__init__(task)
        self.network = task.network()
        self.target = make_targets(task, targets, correction_start, momentum)

    def step(self, batch: Batch, clock: Clock) -> Step:
        """Compute -sum t log p."""
        logits = self.network(batch.x).logits
        if isinstance(self.target, GivenLabels):
            loss = cross_entropy(logits, batch.label)
        else:
            tau = torch.ones_like(batch.weight)  # without an indicator every row counts as confident
            loss = cross_entropy(logits, self.target.update(batch, clock, logits.detach().softmax(1), tau))
        return Step({"cross_entropy": batch.mean(loss)}, seen=logits.detach())

    def verdict(self, rows: Rows) -> Verdict:
        """Judge by the running mean of p at the given label, and by estimated targets."""
        return self.target.verdict(rows)

    def target_tables(self) -> list[TargetTable]:
        """Return the tables of the target strategy."""
        return self.target.tables()

    def advice(self, problem: Problem) -> list[str]:
        """Add a warning about settings that can never correct a label."""
        return self.target.advice() if problem == "settings" else super().advice(problem)
