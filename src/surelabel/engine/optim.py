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
    is 1, a network's `backbone` is a separate group, whose rate is multiplied by that factor; so
    are the biases of its batch norms with `config.bias_rate`.
    """
    groups = [group for name, network in networks.items() for group in _groups(name, network, backbone_rate, config)]
    if config.name == "adamw":
        optimiser: torch.optim.Optimizer = torch.optim.AdamW(groups, lr=config.rate, weight_decay=config.decay)
    else:
        optimiser = torch.optim.SGD(
            groups, lr=config.rate, momentum=config.momentum, weight_decay=config.decay, nesterov=False
        )
    set_rate(optimiser, config.rate)
    return optimiser


def _groups(name: str, network: nn.Module, backbone_rate: float, config: OptimiserConfig) -> list[dict[str, Any]]:
    """Return groups of the parameters that are not frozen, with the factors of their rates."""
    backbone = getattr(network, "backbone", None)
    slow = {id(p) for p in backbone.parameters()} if isinstance(backbone, nn.Module) and backbone_rate != 1 else set()
    fast = _norm_biases(network) if config.bias_rate != 1 else set()
    groups: dict[str, dict[str, Any]] = {}
    for parameter in (p for p in network.parameters() if p.requires_grad):
        is_slow, is_fast = id(parameter) in slow, id(parameter) in fast
        title = f"{name}{'.backbone' * is_slow}{'.norm_biases' * is_fast}"
        group = groups.setdefault(title, {"params": [], "name": title, "factor": backbone_rate if is_slow else 1.0})
        group["params"].append(parameter)
        if is_fast:  # a step's decay is rate x decay: as large as for the other weights
            group["factor"] = (backbone_rate if is_slow else 1.0) * config.bias_rate
            group["weight_decay"] = config.decay / config.bias_rate
    return sorted(groups.values(), key=lambda group: (group["name"].count("."), group["name"]), reverse=True)


def _norm_biases(network: nn.Module) -> set[int]:
    norms = (module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm))
    return {id(norm.bias) for norm in norms if norm.bias is not None}


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the rate of every group, times the group's factor."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group.get("factor", 1.0)
