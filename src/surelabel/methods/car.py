"""CAR: Confidence Adaptive Regularization (Lu, Bo and He, 2021, arXiv 2108.08212), also NAL.

The paper's equations in order; t is the target, p the softmax, tau the confidence:

    Eq. 2   tau = sigmoid(h)                                 Outputs.tau
    Eq. 3   L_cace = -sum t log(tau (p - t) + t)             car_terms(...).cace
    Eq. 4   L_p = -log tau                                   car_terms(...).penalty
    Eq. 5   L_CAL = L_cace + lambda L_p                      weigh, with beta = 0
    Eq. 6   L_r-cace = -sum (tau (p - t) + t) log t          car_terms(...).reverse; log 0 = A = -4
    Eq. 7   L_CAR = L_cace + lambda L_p + beta L_r-cace      weigh; added up by car_loss and, in
                                                             training, by the engine
    Eq. 8   t <- alpha t + (1 - alpha) p                     _targets.MomentumTargets; Algorithm 1

The authors' code is MacLLL/NAL on GitHub (MIT licence), published with their later paper on the
same equations: Noise Attention Learning: Enhancing Noise Robustness by Gradient Scaling (Lu, Bo and
He, NeurIPS 2022), under which name, `nal`, the method is found too. Cite both. By default we follow
the 2021 text; `log_zero` -9.21 and `target_floor` 1e-4 follow the code, whose differences are:

- A is ln 1e-4 = -9.21 instead of -4, which makes the reverse term 2.3 times as strong.
- Targets are clamped to at least 1e-4 in every term, one-hot ones too, and so is the table after
  every update. They are not renormalised. In the text they stay distributions.
- Rows are updated if tau > delta instead of tau >= delta, and every 10th epoch whatever E_p is. We
  follow the text in both.
- p, tau and q are clamped; here everything is computed in log space.

With a label that a person has confirmed, tau is 1 in q, so that Eq. 3 is cross entropy: tau is the
confidence in a label, and this one is certain. Eq. 4 stays, and teaches the indicator the same.

Where the text leaves something open, we decided:

- Once targets are soft, log t is never taken below A: docs/decisions/0002.
- The target is updated before the loss of the same batch, from the same forward pass.
- Temporal ensembling as a target has no formula in the paper: see _targets.TemporalEnsembling.
- Defaults carry over to runs that are not 500 epochs long: docs/decisions/0003.
- The verdict on a label is ours: _targets.judge_by_targets and docs/decisions/0004.
"""

from typing import Annotated, Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field, NegativeFloat, NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor

from surelabel.core import (
    Batch,
    Candidates,
    Clock,
    Method,
    Outputs,
    Problem,
    Rows,
    SampleStore,
    Step,
    TargetTable,
    Task,
    Verdict,
)
from surelabel.core.tables import EVERY_FORM
from surelabel.methods._targets import Momentum, Strategy, make_targets

LOG_ZERO = -4.0
"""A of the paper: what log 0 is defined as."""


def confidence_of(outputs: Outputs) -> Tensor:
    """Return the (B,) tau of Eq. 2; without an indicator it is the largest p."""
    return outputs.logits.softmax(1).amax(1) if outputs.confidence_logit is None else outputs.tau


def log_confidence(logits: Tensor, confidence_logit: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return log tau and log (1 - tau), (B,) each, exact for tau next to 0 and 1."""
    if confidence_logit is not None:
        return F.logsigmoid(confidence_logit), F.logsigmoid(-confidence_logit)
    log_p = F.log_softmax(logits, 1)
    top = logits.argmax(1, keepdim=True)
    return log_p.gather(1, top).squeeze(1), log_p.scatter(1, top, -torch.inf).logsumexp(1)


class CarTerms(NamedTuple):
    """The three terms of the loss, not yet weighted: (B,) each; after `batch.mean`, scalars."""

    cace: Tensor
    penalty: Tensor
    reverse: Tensor


def car_terms(
    logits: Tensor,
    confidence_logit: Tensor | None,
    target: Tensor,
    *,
    log_zero: float = LOG_ZERO,
    target_floor: float = 0.0,
    trusted: Tensor | None = None,
) -> CarTerms:
    """Compute Eq. 3, 4 and 6 per sample: (B, K) logits, (B,) confidence logits, (B, K) targets.

    Without confidence logits tau is max p, with its gradient. Everything is computed in log space:
    log q = log(tau p + (1 - tau) t) by logaddexp, so that p, tau and q need no clamp and no
    gradient vanishes for logits of a hundred or tau next to 0 or 1. Half-precision types are
    promoted to float32. No gradient flows through the target, which is at least `target_floor`.
    Where (B,) `trusted` is true, tau is 1 in q.

    >>> import torch
    >>> import surelabel
    >>> logits, target = torch.tensor([[0.9, 0.1]]).log(), torch.tensor([[0.0, 1.0]])
    >>> terms = surelabel.car_terms(logits, torch.tensor([0.0]), target)  # tau is 0.5
    >>> terms.cace, terms.penalty
    (tensor([0.5978]), tensor([0.6931]))
    """
    if target.shape != logits.shape:
        raise ValueError(f"target must be (B, K) like the logits {tuple(logits.shape)}, got {tuple(target.shape)}")
    if confidence_logit is not None and confidence_logit.shape != logits.shape[:1]:
        raise ValueError(f"confidence_logit must be (B,) = ({len(logits)},), got {tuple(confidence_logit.shape)}")
    dtype = torch.promote_types(logits.dtype, torch.float32)
    logits, target = logits.to(dtype), target.detach().to(dtype).clamp(min=target_floor)
    confidence_logit = None if confidence_logit is None else confidence_logit.to(dtype)
    log_tau, log_one_minus_tau = log_confidence(logits, confidence_logit)
    penalty = -log_tau
    if trusted is not None:
        log_tau, log_one_minus_tau = log_tau.masked_fill(trusted, 0), log_one_minus_tau.masked_fill(trusted, -torch.inf)
    log_p = F.log_softmax(logits, 1)
    has_target = target > 0
    # Where t = 0, log t is a placeholder that torch.where discards below: log 0 = -inf could make
    # gradients NaN.
    log_t = torch.where(has_target, target, 1.0).log()
    log_tau_p = log_tau[:, None] + log_p
    log_q = torch.where(has_target, torch.logaddexp(log_tau_p, log_one_minus_tau[:, None] + log_t), log_tau_p)
    # 0 log 0 = 0.
    cace = -(target * torch.where(has_target, log_q, 0.0)).sum(1)
    # log 0 = A, and log t is never taken below A: docs/decisions/0002.
    reverse = -(log_q.exp() * torch.where(has_target, log_t, log_zero).clamp(min=log_zero)).sum(1)
    return CarTerms(cace, penalty, reverse)


def weigh(terms: CarTerms, penalty_weight: float, reverse_weight: float) -> dict[str, Tensor]:
    """Return the summands of Eq. 7; for beta = 0 they are those of Eq. 5."""
    # A term that weighs nothing is left out of the metrics.
    weighted = {"cace": terms.cace, "penalty": penalty_weight * terms.penalty}
    return weighted | {"reverse": reverse_weight * terms.reverse} if reverse_weight else weighted


def car_loss(
    logits: Tensor,
    confidence_logit: Tensor | None,
    target: Tensor,
    *,
    penalty_weight: float,
    reverse_weight: float = 0.0,
    log_zero: float = LOG_ZERO,
    target_floor: float = 0.0,
    trusted: Tensor | None = None,
) -> Tensor:
    """Compute Eq. 7 per sample, (B,); the weights are lambda and beta, and `log_zero` is A.

    >>> import torch
    >>> import surelabel
    >>> logits, target = torch.tensor([[0.9, 0.1]]).log(), torch.tensor([[0.0, 1.0]])
    >>> sure, unsure = torch.tensor([4.0]), torch.tensor([-1.0])
    >>> surelabel.car_loss(logits, sure, target, penalty_weight=0.5)  # a label that looks wrong
    tensor([2.1616])
    >>> surelabel.car_loss(logits, unsure, target, penalty_weight=0.5)  # low confidence damps it
    tensor([0.9338])
    """
    more = {"log_zero": log_zero, "target_floor": target_floor}
    terms = car_terms(logits, confidence_logit, target, **more, trusted=trusted)
    return torch.stack(tuple(weigh(terms, penalty_weight, reverse_weight).values())).sum(0)


def default_penalty_weight(num_classes: int) -> float:
    """Return the default lambda, with which Q0 is at least 0.1: docs/decisions/0003."""
    return max(0.5, 0.1 * (num_classes - 1))


def initial_damping(penalty_weight: float, num_classes: int) -> float:
    """Return Q0, the fraction of cross entropy's gradient at the start: docs/theory.md."""
    return min(1.0, penalty_weight / (num_classes - 1))


class CAR(Method):
    """Confidence Adaptive Regularization: an indicator damps the loss, momentum corrects targets.

    Options:
        penalty_weight: lambda, the price of low confidence; default max(0.5, 0.1 (K - 1)), the
          paper's grid is 0.5, 10, 50
        reverse_weight: beta, weight of the reverse term; the paper has 0 on CIFAR-10 and 0.1 on
          harder sets
        log_zero: A, what log 0 is defined as in the reverse term; -4 in the paper, -9.21 (ln 1e-4)
          in the authors' code
        target_floor: what targets are clamped to from below, without renormalising them; 0 in the
          paper, 1e-4 in the authors' code
        targets: how targets are estimated: car, none (the given labels) or temporal_ensembling
        confidence: where tau comes from: indicator, or max_probability (the paper's ablation)
        correction_start: E_c, the epoch from which targets change; default the published fraction
          of the run, 60/500
        momentum: alpha, the fraction of the old target that stays in an update
        threshold: delta, rows with a smaller tau keep their target
        indicator_layers: fully connected layers of the indicator branch
    """

    paper = (
        "Lu, Bo and He: Noise Attention Learning: Enhancing Noise Robustness by Gradient Scaling, NeurIPS 2022; "
        "Confidence Adaptive Regularization for Deep Learning with Noisy Labels, arXiv 2108.08212"
    )
    year = 2021
    kind = "label correction"
    when = (
        "Start here: one network, one pass, few options, and a confidence for every input. Choose "
        "`penalty_weight` with `surelabel tune` if results matter."
    )
    table_forms = EVERY_FORM
    candidates = Candidates(
        "0.5, 10 and 50 are the paper's grid, beta its two values; 0.2 and 2 are ours.",
        penalty_weight=(None, 0.2, 0.5, 2.0, 10.0, 50.0),
        reverse_weight=(0.0, 0.1),
    )

    def __init__(
        self,
        task: Task,
        *,
        penalty_weight: PositiveFloat | None = None,
        reverse_weight: NonNegativeFloat = 0.0,
        log_zero: NegativeFloat = LOG_ZERO,
        target_floor: Annotated[float, Field(ge=0, lt=1)] = 0.0,
        targets: Strategy = "car",
        confidence: Literal["indicator", "max_probability"] = "indicator",
        correction_start: PositiveInt | None = None,
        momentum: Momentum = 0.9,
        threshold: Annotated[float, Field(ge=0, le=1)] = 0.0,
        indicator_layers: PositiveInt = 1,
    ) -> None:
        super().__init__(task)
        self.penalty_weight = default_penalty_weight(task.num_classes) if penalty_weight is None else penalty_weight
        self.reverse_weight, self.log_zero, self.target_floor = reverse_weight, log_zero, target_floor
        self.network = task.network(indicator=confidence == "indicator", indicator_layers=indicator_layers)
        self.target = make_targets(task, targets, correction_start, momentum, threshold, target_floor)
        self.last_tau = SampleStore(task.num_samples, fill=torch.nan)

    def step(self, batch: Batch, clock: Clock) -> Step:
        """Run lines 5 to 10 of Algorithm 1: update the targets, then compute the terms of Eq. 7."""
        outputs = self.network(batch.x)
        probability, tau = outputs.logits.detach().softmax(1), confidence_of(outputs).detach()
        target = self.target.update(batch, clock, probability, tau)
        self.last_tau.write(batch.index, tau)
        terms = car_terms(
            outputs.logits,
            outputs.confidence_logit,
            target,
            log_zero=self.log_zero,
            target_floor=self.target_floor,
            trusted=self.trusted[batch.index],
        )
        means = CarTerms(*map(batch.mean, terms))
        return Step(weigh(means, self.penalty_weight, self.reverse_weight), seen=outputs.logits.detach())

    def tau(self, x: Tensor) -> Tensor:
        """Return the (B,) tau of Eq. 2."""
        return confidence_of(self.network(x))

    def verdict(self, rows: Rows) -> Verdict:
        """Judge by the targets and the running mean of p; the evidence is tau at the last visit."""
        judged = self.target.verdict(rows)
        return Verdict(judged.quality, judged.corrected, {"tau": self.last_tau.read(rows.index)})

    def target_tables(self) -> list[TargetTable]:
        """Return the tables of the target strategy."""
        return self.target.tables()

    def advice(self, problem: Problem) -> list[str]:
        """Warn of targets that never change, or of a penalty weight that is too small."""
        if problem == "settings":
            return self.target.advice()
        classes = self.task.num_classes
        damping = initial_damping(self.penalty_weight, classes)
        if damping == 1:
            return super().advice(problem)
        return [
            f"penalty_weight={self.penalty_weight:g} damps gradients to Q0={damping:.3g} at the start; "
            f"try penalty_weight={max(2 * self.penalty_weight, 0.25 * (classes - 1)):.3g}"
        ]
