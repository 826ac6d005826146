"""CAR: Confidence Adaptive Regularization (Lu, Bo and He, 2021, arXiv 2108.08212), and its target strategies.

The functions below are the paper's equations in order; t is the target, p the softmax, tau the confidence:

    Eq. 2   tau = sigmoid(h)                                 Outputs.tau
    Eq. 3   L_cace = -sum t log(tau (p - t) + t)             car_terms, first
    Eq. 4   L_p = -log tau                                   car_terms, second
    Eq. 5   L_CAL = L_cace + lambda L_p
    Eq. 6   L_r-cace = -sum (tau (p - t) + t) log t          car_terms, third; log 0 = A = -4
    Eq. 7   L_CAR = L_cace + lambda L_p + beta L_r-cace      car_loss
    Eq. 8   t <- alpha t + (1 - alpha) p                     TargetEstimation.update; Algorithm 1

There is no public code by the authors. Where the text leaves something open, we decided:

- Once targets are soft, log t is never taken below A (the paper defines log 0 only): docs/decisions/0002.
- The target is updated before the loss of the same batch, from the same forward pass, as Algorithm 1 has it.
- Temporal ensembling as a target has no formula in the paper: see TargetEstimation.
- Default lengths and the default penalty weight carry over to runs that are not 500 epochs long: docs/decisions/0003.
- The verdict on a label is ours: `CAR.label_quality` and docs/decisions/0004.
"""

import math
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor, nn

from surelabel.core import Batch, Clock, Method, Run, SampleStore, Step, Task

LOG_ZERO = -4.0
"""A of the paper: what log 0 is defined as."""

PUBLISHED_START_SHARE = 60 / 500
"""E_c = 60 of the paper's 500 epochs."""

TargetStrategy = Literal["car", "none", "temporal_ensembling"]
Confidence = Literal["indicator", "max_probability"]


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
