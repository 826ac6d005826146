"""Targets: CAR's Eq. 8 and the two strategies that the paper's last table compares it with.

The three classes share four methods: `update` takes detached (B, K) p and (B,) tau and returns what
the loss aims at, (B, K); `tables` are the tables that hold it; `verdict` is what they say about the
given labels; `advice` warns of settings that can never correct a label. `warn_of_few_updates` is
for methods that hold their table themselves.
"""

import math
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from surelabel.core import Batch, Clock, Rows, SampleStore, TargetTable, Task, Verdict
from surelabel.methods._advice import warn_of_late_start

PUBLISHED_START_SHARE = 60 / 500
"""E_c = 60 of the paper's 500 epochs."""
PUBLISHED_UPDATES = 45
"""Updates of a row in the paper: every tenth epoch from 60 to 500."""
SMALLEST_MASS = 1e-12
"""Floor of a row's sum where an ensemble is divided by it."""

Strategy = Literal["car", "none", "temporal_ensembling"]
Momentum = Annotated[float, Field(ge=0, lt=1)]


def default_start(task: Task) -> int:
    """Return the published fraction of the run, as an epoch."""
    return task.epochs_of(PUBLISHED_START_SHARE)


def update_epochs(epochs: int, start: int, period: int, most: int) -> list[int]:
    """Return when targets change: in the first `most` epochs from `start` on that end a period."""
    return [epoch for epoch in range(period, epochs + 1, period) if epoch >= start][:most]


def momentum_for(updates: float) -> str:
    """Return the momentum that lets this many updates outweigh a label, as advice."""
    if updates < 1:
        return "more epochs"
    return f"momentum={math.floor(100 * 0.5 ** (1 / updates)) / 100:.2f}"


def warn_of_few_updates(task: Task, start: int, momentum: float, default_start: int) -> list[str]:
    """Return a warning if the given label keeps more than half of its weight in the targets.

    Targets change at every visit after `start` epochs.
    """

    def count(start: int) -> float:
        return max(0, task.epochs - start) * task.visits_per_epoch

    updates, possible = count(start), count(default_start)
    if updates and momentum**updates <= 0.5:
        return []
    advice = f"correction_start={default_start}"
    if momentum**possible > 0.5:
        advice += f" and {momentum_for(possible)}"
    return [
        f"these settings can never correct a label: {updates:.3g} target update(s) of a row in {task.epochs} "
        f"epochs (correction_start={start}, momentum={momentum}); use {advice}"
    ]


class GivenLabels(nn.Module):
    """Targets that stay the given labels."""

    def update(self, batch: Batch, _clock: Clock, probability: Tensor, _tau: Tensor) -> Tensor:
        """Return the one-hot given labels."""
        return F.one_hot(batch.label, probability.shape[1]).to(probability.dtype)

    def tables(self) -> list[TargetTable]:
        """Return no table."""
        return []

    def verdict(self, rows: Rows) -> Verdict:
        """Return the default verdict: the running mean of p, and the final prediction."""
        return Verdict(rows.mean_given_probability, rows.prediction)

    def advice(self) -> list[str]:
        """Return nothing: these targets are not meant to correct labels."""
        return []


class MomentumTargets(nn.Module):
    """CAR's Eq. 8: targets that start as the given labels and move towards the predictions.

    From epoch `start` on, rows with tau >= `threshold` get t <- alpha t + (1 - alpha) p; with
    learning-rate restarts only in the last epoch of a period, e % E_p == 0. Entries below `floor`
    are then raised to it, as in the authors' code; rows are not renormalised.

    A row is updated at most 45 times, as in the paper, and its target is fixed afterwards: targets
    follow predictions, and weight decay flattens those, until a class is lost (decision 0003).
    """

    def __init__(self, task: Task, start: int, momentum: float, threshold: float, floor: float = 0.0) -> None:
        super().__init__()
        self.start, self.momentum, self.threshold, self.floor = start, momentum, threshold, floor
        self.period, self.epochs, self.default_start = task.restart_period, task.epochs, default_start(task)
        self.visits_per_epoch = task.visits_per_epoch
        self.due = frozenset(self._update_epochs(start, self.period))
        self.table = task.class_table(fill=floor, one_hot=True)
        self.blends = SampleStore(task.num_samples)

    def update(self, batch: Batch, clock: Clock, probability: Tensor, tau: Tensor) -> Tensor:
        """Blend the rows of confident samples if this epoch is due; return the targets."""
        if self.is_due(clock.epoch):
            is_confident = tau >= self.threshold
            self.table.blend(batch.index, probability, self.momentum, where=is_confident)
            if self.floor:
                self.table.write(batch.index, self.table.read(batch.index).clamp(min=self.floor))
            self.blends.write(batch.index, self.blends.read(batch.index) + 1, where=is_confident)
        return self.table.read(batch.index)

    def is_due(self, epoch: int) -> bool:
        """Return whether targets change in this epoch."""
        return epoch in self.due

    def _update_epochs(self, start: int, period: int) -> list[int]:
        most = max(1, round(PUBLISHED_UPDATES / self.visits_per_epoch))
        return update_epochs(self.epochs, start, period, most)

    def tables(self) -> list[TargetTable]:
        """Return the table of t."""
        return [TargetTable(self.table)]

    def verdict(self, rows: Rows) -> Verdict:
        """Judge by the targets; after n blends the given label still weighs alpha^n in them."""
        target = self.table.read(rows.index)
        given_weight = self.momentum ** self.blends.read(rows.index)
        return judge_by_targets(rows, target / target.sum(1, keepdim=True), given_weight)

    def advice(self) -> list[str]:
        """Return a warning if labels keep more than half of their weight in the targets."""
        updates = len(self.due) * self.visits_per_epoch
        if updates and self.momentum**updates <= 0.5:
            return []
        period = self.period if self.period <= self.epochs else 1
        possible = len(self._update_epochs(self.default_start, period)) * self.visits_per_epoch
        advice = "" if period == self.period else "a learning rate without restarts and "
        advice += f"correction_start={self.default_start}"
        if self.momentum**possible > 0.5:
            advice += f" and {momentum_for(possible)}"
        return [
            f"these settings can never correct a label: {updates:.3g} target update(s) in {self.epochs} epochs "
            f"(correction_start={self.start}, momentum={self.momentum}, restart period {self.period}); use {advice}"
        ]


class TemporalEnsembling(nn.Module):
    """Targets that are the running ensemble of the predictions, from epoch `start` on.

    Z <- alpha Z + (1 - alpha) p at every visit from epoch 1, divided by its row sum; t is the given
    label while e < `start` and Z afterwards. The paper states no formula: this is our reading of
    Laine and Aila (2017).
    """

    has_started: Tensor

    def __init__(self, task: Task, start: int, momentum: float) -> None:
        super().__init__()
        self.start, self.momentum = start, momentum
        self.task, self.default_start = task, default_start(task)
        self.table = task.class_table()
        self.register_buffer("has_started", torch.tensor(False))

    def update(self, batch: Batch, clock: Clock, probability: Tensor, _tau: Tensor) -> Tensor:
        """Add the predictions to the ensemble; return the given labels, and later the ensemble."""
        self.table.blend(batch.index, probability, self.momentum)
        ensemble = self.table.read(batch.index)
        self.has_started.fill_(clock.epoch >= self.start)
        if clock.epoch < self.start:
            return F.one_hot(batch.label, probability.shape[1]).to(probability.dtype)
        return ensemble / ensemble.sum(1, keepdim=True).clamp(min=SMALLEST_MASS)

    def tables(self) -> list[TargetTable]:
        """Return the table of Z, current as soon as the loss aims at it."""
        return [TargetTable(self.table, is_current=bool(self.has_started))]

    def verdict(self, rows: Rows) -> Verdict:
        """Judge by the ensemble; a row that it has never seen is still the given label."""
        ensemble = self.table.read(rows.index)
        mass = ensemble.sum(1, keepdim=True)
        given = F.one_hot(rows.given, ensemble.shape[1]).to(ensemble)
        target = torch.where(mass > 0, ensemble / mass.clamp(min=SMALLEST_MASS), given)
        return judge_by_targets(rows, target, (mass.squeeze(1) == 0).to(ensemble))

    def advice(self) -> list[str]:
        """Return a warning if the ensemble never becomes the target."""
        left, by_default = (self.task.epochs - start + 1 for start in (self.start, self.default_start))
        settings = ("correction_start", self.start, left, self.default_start)
        return warn_of_late_start(
            self.task, *settings, "these settings can never correct a label", left_by_default=by_default
        )


Targets = GivenLabels | MomentumTargets | TemporalEnsembling


def make_targets(
    task: Task, strategy: Strategy, start: int | None, momentum: float, threshold: float = 0.0, floor: float = 0.0
) -> Targets:
    """Make the targets of a strategy; `start` is by default the published fraction of the run.

    `threshold` and `floor` are for CAR's Eq. 8 alone.
    """
    start = default_start(task) if start is None else start
    if strategy == "none":
        return GivenLabels()
    if strategy == "temporal_ensembling":
        return TemporalEnsembling(task, start, momentum)
    return MomentumTargets(task, start, momentum, threshold, floor)


def judge_by_targets(rows: Rows, target: Tensor, given_weight: Tensor) -> Verdict:
    """Judge labels by (C, K) targets in which the given label still has the (C,) `given_weight`.

    The quality is the mean of what the targets say of the given label and of the running mean of
    p_y over all visits. The targets say t_y = w + (1 - w) x (mean of p_y over the updates), where w
    is the weight of the given label itself. That part is replaced by the running mean, so that a
    row that was never updated is judged by the running mean alone. In the corrected label it is
    replaced by the final prediction. docs/decisions/0004 has the measurements.
    """
    running_mean = rows.mean_given_probability
    supported = (rows.at_given(target) - given_weight * (1 - running_mean)).clamp(0, 1)
    given = F.one_hot(rows.given, target.shape[1])
    corrected = (target + given_weight[:, None] * (rows.prediction - given)).clamp(min=0)
    return Verdict((supported + running_mean) / 2, corrected / corrected.sum(1, keepdim=True))
