"""Parts of MixMatch that several methods share: sharpening, and mixup across all ranks' rows."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from surelabel.core import Clock, gathered, own_rows

SMALLEST_PROBABILITY = 1e-30
"""A floor that keeps log p finite."""


def sharpen(probability: Tensor, temperature: float) -> Tensor:
    """Return p^(1/T), normalised, (B, K); T = 1 is the identity, and T to 0 the one-hot argmax.

    In log space, because p^(1/T) may underflow.
    """
    return (probability.clamp(min=SMALLEST_PROBABILITY).log() / temperature).softmax(1)


def draw_mixing_weight(alpha: float, clock: Clock) -> float:
    """Draw one lambda ~ Beta(alpha, alpha) for the whole batch.

    It is at least 1/2 (lambda or 1 - lambda), so that the first row of a pair dominates.
    """
    # NumPy, because torch's Beta takes no generator and would draw from the global one.
    mixing_weight = float(np.random.default_rng(clock.generator("mixing").initial_seed()).beta(alpha, alpha))
    return max(mixing_weight, 1 - mixing_weight)


def mix(
    parts: Sequence[tuple[Tensor, Tensor, Tensor]], mixing_weight: float, clock: Clock
) -> list[tuple[Tensor, Tensor]]:
    """Mix every row with a partner drawn from the rows of all parts and all ranks.

    A part is (x, target, weight); rows of weight 0 are padding and never drawn as partners.
    Returns (x, target) for each part, with x in float32. The draw depends only on the clock and
    the number of real rows, so any number of processes mixes the same pairs.
    """
    gathered_x = [gathered(x) for x, _, _ in parts]
    pool_x = torch.cat(gathered_x)
    pool_target = torch.cat([gathered(target) for _, target, _ in parts])
    real = torch.cat([gathered(weight) for _, _, weight in parts]) > 0
    positions = real.nonzero().squeeze(1)
    order = torch.randperm(len(positions), generator=clock.generator("partners")).to(positions.device)
    partner = torch.arange(len(real), device=positions.device)
    partner[positions] = positions[order]

    result = []
    for (x, target, _), partners in zip(parts, torch.split(partner, [len(x) for x in gathered_x]), strict=True):
        own = own_rows(partners, x)
        other_x = pool_x[own].to(torch.float32)
        result.append(
            (
                mixing_weight * x.to(torch.float32) + (1 - mixing_weight) * other_x,
                mixing_weight * target + (1 - mixing_weight) * pool_target[own],
            )
        )
    return result
