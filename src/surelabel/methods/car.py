"""CAR: Confidence Adaptive Regularization (Lu, Bo and He, 2021, arXiv 2108.08212), and its target strategies.

The functions below are the paper's equations in order; t is the target, p the softmax, tau the confidence:

    Eq. 2   tau = sigmoid(h)                                 Outputs.tau
    Eq. 3   L_cace = -sum t log(tau (p - t) + t)             car_terms, first
    Eq. 4   L_p = -log tau                                   car_terms, second
    Eq. 5   L_CAL = L_cace + lambda L_p
    Eq. 6   L_r-cace = -sum (tau (p - t) + t) log t          car_terms, third; log 0 = A = -4
    Eq. 7   L_CAR = L_cace + lambda L_p + beta L_r-cace      car_loss
    Eq. 8   t <- alpha t + (1 - alpha) p                     TargetEstimation.update; Algorithm 1

The authors' code is MacLLL/NAL on GitHub (MIT licence), published with their later paper on the
same equations: Noise Attention Learning (Lu, Bo and He, NeurIPS 2022). We follow the 2021 text.
Where the code differs from the text:

- A is ln 1e-4 = -9.21 instead of -4. That makes the reverse term 2.3 times as strong; `log_zero` sets A.
- Targets are clamped to at least 1e-4 in every term, one-hot ones too, and not renormalised; here
  they stay distributions, and only log t is bounded from below.
- Rows are updated if tau > delta instead of tau >= delta, and every 10th epoch whatever E_p is.
- p, tau and q are clamped; here everything is computed in log space.

Where the text leaves something open, we decided:

- Once targets are soft, log t is never taken below A (the paper defines log 0 only): docs/decisions/0002.
- The target is updated before the loss of the same batch, from the same forward pass, as Algorithm 1 has it.
- Temporal ensembling as a target has no formula in the paper: see TargetEstimation.
- Default lengths and the default penalty weight carry over to runs that are not 500 epochs long: docs/decisions/0003.
- The verdict on a label is ours: `CAR.label_quality` and docs/decisions/0004.
"""

import math
from typing import Annotated, Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field, NegativeFloat, NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor, nn

from surelabel.core import Batch, Clock, Method, Run, SampleStore, Step, Task

LOG_ZERO = -4.0
"""A of the paper: what log 0 is defined as."""

PUBLISHED_START_SHARE = 60 / 500
"""E_c = 60 of the paper's 500 epochs."""

TargetStrategy = Literal["car", "none", "temporal_ensembling"]
Confidence = Literal["indicator", "max_probability"]
Momentum = Annotated[float, Field(ge=0, lt=1)]


class CarTerms(NamedTuple):
    """The three per-sample terms of the loss, (B,) each, not yet weighted."""

    cace: Tensor
    penalty: Tensor
    reverse: Tensor


def _log_confidence(logits: Tensor, confidence_logit: Tensor | None) -> tuple[Tensor, Tensor]:
    """Log tau and log (1 - tau); without an indicator tau is the largest p, which stays in the graph."""
    if confidence_logit is not None:
        return F.logsigmoid(confidence_logit), F.logsigmoid(-confidence_logit)
    log_p = F.log_softmax(logits, 1)
    top = logits.argmax(1, keepdim=True)
    log_tau = log_p.gather(1, top).squeeze(1)
    others = log_p.scatter(1, top, -torch.inf)
    return log_tau, others.logsumexp(1)


def car_terms(
    logits: Tensor, confidence_logit: Tensor | None, target: Tensor, *, log_zero: float = LOG_ZERO
) -> CarTerms:
    """Eq. 3, 4 and 6 per sample: (B, K) logits, (B,) confidence logits (None: tau = max p), (B, K) targets.

    All in log space: log q = log(tau p + (1 - tau) t) by logaddexp, so that nothing is clamped and no gradient vanishes for
    logits of a hundred or tau next to 0 or 1. Half types are promoted to float32. No gradient flows through the target.
    """
    if target.shape != logits.shape:
        raise ValueError(f"target must be (B, K) like the logits {tuple(logits.shape)}, got {tuple(target.shape)}")
    if confidence_logit is not None and confidence_logit.shape != logits.shape[:1]:
        raise ValueError(f"confidence_logit must be (B,) = ({len(logits)},), got {tuple(confidence_logit.shape)}")
    dtype = torch.promote_types(logits.dtype, torch.float32)
    logits, target = logits.to(dtype), target.detach().to(dtype)
    log_tau, log_doubt = _log_confidence(logits, None if confidence_logit is None else confidence_logit.to(dtype))
    log_p = F.log_softmax(logits, 1)
    has_target = target > 0
    # Where t = 0 the value is multiplied by t: any finite stand-in for log t keeps the gradient finite.
    log_t = torch.where(has_target, target, 1.0).log()
    log_q = torch.where(
        has_target, torch.logaddexp(log_tau[:, None] + log_p, log_doubt[:, None] + log_t), log_tau[:, None] + log_p
    )
    cace = -(target * torch.where(has_target, log_q, 0.0)).sum(1)
    # q sums to one over classes, and log 0 = A.
    reverse = -(log_q.exp() * torch.where(has_target, log_t, log_zero).clamp(min=log_zero)).sum(1)
    return CarTerms(cace, -log_tau, reverse)


def car_loss(
    logits: Tensor,
    confidence_logit: Tensor | None,
    target: Tensor,
    *,
    penalty_weight: float,
    reverse_weight: float = 0.0,
    log_zero: float = LOG_ZERO,
) -> Tensor:
    """Eq. 7 per sample, (B,): `penalty_weight` is lambda, `reverse_weight` is beta, `log_zero` is A."""
    cace, penalty, reverse = car_terms(logits, confidence_logit, target, log_zero=log_zero)
    return cace + penalty_weight * penalty + reverse_weight * reverse


class TargetEstimation(nn.Module):
    """Eq. 8 and its two rivals of the paper's last table: what a loss aims at for each sample.

    - "car": t starts as the given one-hot label; from epoch `start` on, rows with tau >= `threshold` get
      t <- alpha t + (1 - alpha) p; with learning-rate restarts only in the last epoch of a period, e % E_p == 0.
    - "none": t stays the given label.
    - "temporal_ensembling": Z <- alpha Z + (1 - alpha) p at every visit from epoch 1, divided by its row sum; t is the given
      label while e < `start` and Z afterwards. The paper gives no formula: this is our reading of Laine and Aila (2017).
    """

    has_started: Tensor

    def __init__(self, task: Task, strategy: TargetStrategy, start: int, momentum: float, threshold: float) -> None:
        super().__init__()
        self.strategy, self.start, self.momentum, self.threshold = strategy, start, momentum, threshold
        self.period, self.epochs = task.rate_period, task.epochs
        self.num_classes = task.num_classes
        if strategy == "car":
            self.table = SampleStore.one_hot(task.given, task.num_classes)
            self.blends = SampleStore(task.num_samples)
        elif strategy == "temporal_ensembling":
            self.table = SampleStore(task.num_samples, task.num_classes)
            self.register_buffer("has_started", torch.tensor(False))

    def update(self, batch: Batch, clock: Clock, probability: Tensor, tau: Tensor) -> Tensor:
        """The (B, K) targets of this batch, after their update from the detached (B, K) p and (B,) tau."""
        given = F.one_hot(batch.label, self.num_classes).to(probability.dtype)
        if self.strategy == "none":
            return given
        if self.strategy == "temporal_ensembling":
            self.table.blend(batch.index, probability, self.momentum)
            ensemble = self.table.read(batch.index)
            self.has_started.fill_(clock.epoch >= self.start)
            return given if clock.epoch < self.start else ensemble / ensemble.sum(1, keepdim=True).clamp(min=1e-12)
        if self.is_due(clock.epoch):
            trusted = tau >= self.threshold
            self.table.blend(batch.index, probability, self.momentum, where=trusted)
            self.blends.write(batch.index, self.blends.read(batch.index) + 1, where=trusted)
        return self.table.read(batch.index)

    def tables(self) -> list[SampleStore]:
        """The table, whether the loss aims at it already or not."""
        return [] if self.strategy == "none" else [self.table]

    def store(self) -> SampleStore | None:
        """The table of targets, as soon as the loss aims at it."""
        if self.strategy == "none" or (self.strategy == "temporal_ensembling" and not self.has_started):
            return None
        return self.table

    def is_due(self, epoch: int) -> bool:
        """Whether targets change in this epoch."""
        return epoch >= self.start and epoch % self.period == 0

    @property
    def num_updates(self) -> int:
        """How often a row can be blended in the whole run."""
        return sum(self.is_due(epoch) for epoch in range(1, self.epochs + 1))

    def quality(self, given: Tensor, seen: Tensor) -> Tensor:
        """(N,) how far training supports the given label: the mean of what the targets say and of `seen`.

        `seen` is the running mean of p_y over all visits. The targets say t_y = alpha^n + (1 - alpha^n) x (mean of p_y over the n
        updates), where alpha^n is the given label's own word: it is taken back and filled with `seen`, so that a row that was
        never blended is judged by `seen` alone. docs/decisions/0004 has the measurements.
        """
        if self.strategy == "none":
            return seen
        at_given = self.rows(given).gather(1, given[:, None]).squeeze(1)
        supported = (at_given - self.given_share() * (1 - seen)).clamp(0, 1)
        return (supported + seen) / 2

    def corrected(self, given: Tensor, prediction: Tensor) -> Tensor:
        """(N, K) targets, with the weight that the given label still has in them handed to the (N, K) prediction."""
        if self.strategy == "none":
            return prediction
        rows = self.rows(given) + self.given_share()[:, None] * (prediction - F.one_hot(given, self.num_classes))
        return rows.clamp(min=0) / rows.clamp(min=0).sum(1, keepdim=True)

    def rows(self, given: Tensor) -> Tensor:
        """(N, K) targets that sum to one; an ensemble that has seen nothing yet is the given label."""
        rows = self.table.whole()
        mass = rows.sum(1, keepdim=True)
        return torch.where(mass > 0, rows / mass.clamp(min=1e-12), F.one_hot(given, self.num_classes).to(rows))

    def given_share(self) -> Tensor:
        """(N,) alpha^n: the weight that the given label still has in a target blended n times; an ensemble has all or none."""
        if self.strategy == "temporal_ensembling":
            return self.table.apply_rows(lambda rows: (rows.sum(1) == 0).to(rows))
        return self.momentum ** self.blends.whole()

    def warnings(self) -> list[str]:
        """Says so if these settings can never correct a label, with values that would."""
        updates = self.num_updates
        if self.strategy == "temporal_ensembling" and self.start > self.epochs:
            last = f"correction_start={self.start} is beyond the last of {self.epochs} epochs"
            return [
                f"these settings can never correct a label: {last}; use correction_start={max(1, self.epochs // 8)}"
            ]
        if self.strategy != "car" or (updates and self.momentum**updates <= 0.5):
            return []
        start = max(1, round(PUBLISHED_START_SHARE * self.epochs))
        period = self.period if self.period <= self.epochs else 1
        possible = sum(epoch >= start and epoch % period == 0 for epoch in range(1, self.epochs + 1))
        advice = "" if period == self.period else "a learning rate without restarts and "
        advice += f"correction_start={start}"
        if self.momentum**possible > 0.5:
            advice += f" and momentum={math.floor(100 * 0.5 ** (1 / possible)) / 100:.2f}"
        return [
            f"these settings can never correct a label: {updates} target update(s) in {self.epochs} epochs "
            f"(correction_start={self.start}, momentum={self.momentum}, restart period {self.period}); use {advice}"
        ]


def default_penalty_weight(num_classes: int) -> float:
    """Lambda by rule, so that the gradient multiplier at the start, Q0 = lambda / (K - 1), is at least a tenth."""
    return max(0.5, 0.1 * (num_classes - 1))


class CAR(Method):
    """Confidence Adaptive Regularization: an indicator branch, a loss it damps, and targets corrected with momentum.

    Options:
        penalty_weight: lambda, the price of low confidence; default max(0.5, 0.1 (K - 1)), the paper's grid is 0.5, 10, 50
        reverse_weight: beta, weight of the reverse term; the paper has 0 on CIFAR-10 and 0.1 on harder sets
        log_zero: A, what log 0 is defined as in the reverse term
        targets: how targets are estimated: car, none (the given labels) or temporal_ensembling
        confidence: where tau comes from: indicator, or max_probability (the paper's ablation)
        correction_start: E_c, the epoch from which targets change; default the published share of the run, 60/500
        momentum: alpha, the share of the old target that stays in an update
        threshold: delta, rows with a smaller tau keep their target
        indicator_layers: fully connected layers of the indicator branch
    """

    paper = "Lu, Bo and He: Confidence Adaptive Regularization for Deep Learning with Noisy Labels, arXiv 2108.08212"
    year = 2021
    kind = "label correction"

    def __init__(
        self,
        task: Task,
        *,
        penalty_weight: PositiveFloat | None = None,
        reverse_weight: NonNegativeFloat = 0.0,
        log_zero: NegativeFloat = LOG_ZERO,
        targets: TargetStrategy = "car",
        confidence: Confidence = "indicator",
        correction_start: PositiveInt | None = None,
        momentum: Momentum = 0.9,
        threshold: Annotated[float, Field(ge=0, le=1)] = 0.0,
        indicator_layers: PositiveInt = 1,
    ) -> None:
        super().__init__(task)
        self.penalty_weight = default_penalty_weight(task.num_classes) if penalty_weight is None else penalty_weight
        self.reverse_weight, self.log_zero = reverse_weight, log_zero
        self.network = task.network(indicator=confidence == "indicator", indicator_layers=indicator_layers)
        start = task.share(PUBLISHED_START_SHARE) if correction_start is None else correction_start
        self.target = TargetEstimation(task, targets, start, momentum, threshold)
        self.tau = SampleStore(task.num_samples, fill=torch.nan)

    def step(self, batch: Batch, clock: Clock) -> Step:
        """Algorithm 1, lines 5 to 11."""
        outputs = self.network(batch.x)
        probability = outputs.logits.detach().softmax(1)
        tau = probability.amax(1) if outputs.confidence_logit is None else outputs.tau.detach()
        target = self.target.update(batch, clock, probability, tau)
        cace, penalty, reverse = car_terms(outputs.logits, outputs.confidence_logit, target, log_zero=self.log_zero)
        self.tau.write(batch.index, tau)
        terms = {"cace": batch.mean(cace), "penalty": self.penalty_weight * batch.mean(penalty)}
        if self.reverse_weight:
            terms["reverse"] = self.reverse_weight * batch.mean(reverse)
        return Step(terms, seen=outputs.logits.detach())

    def confidence(self, x: Tensor) -> Tensor:
        """(B,) tau."""
        outputs = self.network(x)
        return outputs.logits.softmax(1).amax(1) if outputs.confidence_logit is None else outputs.tau

    def target_tables(self) -> list[SampleStore]:
        """The table of the target estimation."""
        return self.target.tables()

    def targets(self) -> SampleStore | None:
        """The table of t."""
        return self.target.store()

    def label_quality(self, run: Run) -> Tensor:
        """What the targets and the running mean of p say of the given label: TargetEstimation.quality."""
        return self.target.quality(self.given, run.record.mean_given_probability)

    def corrected(self, run: Run) -> Tensor:
        """The targets, or the final predictions where there are none."""
        return self.target.corrected(self.given, super().corrected(run))

    def evidence(self, run: Run) -> dict[str, Tensor]:
        """The confidence of each row at its last visit."""
        return {"tau": self.tau.whole()}

    def warnings(self) -> list[str]:
        """Settings that can never correct a label."""
        return self.target.warnings()

    def hint_at_chance(self) -> str:
        """The penalty weight is what keeps CAR at chance."""
        classes = self.task.num_classes
        start = min(1.0, self.penalty_weight / (classes - 1))
        if start == 1:
            return super().hint_at_chance()
        return (
            f"penalty_weight={self.penalty_weight:g} damps gradients to Q0={start:.3g} at the start; "
            f"try penalty_weight={max(2 * self.penalty_weight, 0.25 * (classes - 1)):.3g}"
        )
