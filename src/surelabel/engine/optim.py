"""Optimisers and learning-rate schedules."""

import math
from typing import Any

import torch
from torch import nn

from surelabel.config import Cosine, CosineRestarts, MultiStep, OneCycle, OptimiserConfig
from surelabel.core.stages import Clock


def rate_at(config: OptimiserConfig, clock: Clock) -> float:
    """Return the learning rate of a step; a schedule spans the clock's stage."""
    schedule, top = config.schedule, config.rate
    progress = clock.progress / clock.epochs
    if isinstance(schedule, CosineRestarts):
        phase = (clock.epoch - 1) % schedule.period / schedule.period
        return schedule.min_rate + (top - schedule.min_rate) * (1 + math.cos(math.pi * phase)) / 2
    if isinstance(schedule, Cosine):
        return schedule.min_rate + (top - schedule.min_rate) * (1 + math.cos(math.pi * progress)) / 2
    if isinstance(schedule, MultiStep):
        drops = (round(m * clock.epochs, 6) if m < 1 else m for m in schedule.milestones)  # 0.29 x 100 is 29
        return top * schedule.factor ** sum(clock.epoch > drop for drop in drops)
    if isinstance(schedule, OneCycle):
        if progress < schedule.warmup:
            return top * max(progress / schedule.warmup, 1e-3)
        return top * (1 + math.cos(math.pi * (progress - schedule.warmup) / (1 - schedule.warmup))) / 2
    return top


def make_optimiser(
    config: OptimiserConfig, networks: dict[str, nn.Module], backbone_rate: float = 1.0
) -> torch.optim.Optimizer:
    """Make one optimiser with a group per network.

    Networks are disjoint, so one optimiser over the sum of terms is exact. Unless `backbone_rate`
    is 1, a network's `backbone` is a separate group, whose rate is multiplied by that factor.
    """
    groups = [group for name, network in networks.items() for group in _groups(name, network, backbone_rate)]
    if config.name == "adamw":
        optimiser: torch.optim.Optimizer = torch.optim.AdamW(groups, lr=config.rate, weight_decay=config.decay)
    else:
        optimiser = torch.optim.SGD(
            groups, lr=config.rate, momentum=config.momentum, weight_decay=config.decay, nesterov=False
        )
    set_rate(optimiser, config.rate)
    return optimiser


def _groups(name: str, network: nn.Module, backbone_rate: float) -> list[dict[str, Any]]:
    """Return groups of the parameters that are not frozen, with the factors of their rates."""
    backbone = getattr(network, "backbone", None)
    slow = {id(p) for p in backbone.parameters()} if isinstance(backbone, nn.Module) and backbone_rate != 1 else set()
    moving = [p for p in network.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in moving if id(p) in slow], "name": f"{name}.backbone", "factor": backbone_rate},
        {"params": [p for p in moving if id(p) not in slow], "name": name, "factor": 1.0},
    ]
    return [group for group in groups if group["params"]]


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the rate of every group, times the group's factor."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group.get("factor", 1.0)
