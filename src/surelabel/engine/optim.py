"""Optimisers and learning-rate schedules."""

import math

import torch
from torch import nn

from surelabel.config import Cosine, CosineRestarts, MultiStep, OneCycle, OptimiserConfig
from surelabel.core.plan import Clock


def rate_at(config: OptimiserConfig, clock: Clock) -> float:
    """The learning rate of a step; schedules span the stage that the clock is in."""
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


def make_optimiser(config: OptimiserConfig, networks: dict[str, nn.Module]) -> torch.optim.Optimizer:
    """One optimiser with a group per network; networks are disjoint, so one optimiser over the sum of terms is exact."""
    groups = [
        {"params": [p for p in network.parameters() if p.requires_grad], "name": name}
        for name, network in networks.items()
    ]
    if config.name == "adamw":
        return torch.optim.AdamW(groups, lr=config.rate, weight_decay=config.weight_decay)
    return torch.optim.SGD(
        groups, lr=config.rate, momentum=config.momentum, weight_decay=config.weight_decay, nesterov=False
    )


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """The same rate for all groups."""
    for group in optimiser.param_groups:
        group["lr"] = rate
