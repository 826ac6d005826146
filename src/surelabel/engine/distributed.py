"""Devices, precision and processes, through Lightning Fabric; torchrun may start the processes."""

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from surelabel.config import TrainConfig
from surelabel.core.collective import rank, world_size
from surelabel.core.method import Method
from surelabel.core.state import EMA, SampleStore
from surelabel.engine.batch_norm import normalise_globally
from surelabel.errors import ConfigError


def launch(config: TrainConfig) -> Any:
    """Launch Fabric; with several devices it starts the command again for each further process."""
    from lightning_fabric import Fabric
    from lightning_fabric.strategies import DDPStrategy

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    devices = int(os.environ.get("LOCAL_WORLD_SIZE", config.devices))
    num_nodes = int(os.environ.get("WORLD_SIZE", devices)) // devices
    check_device(config)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    fabric = Fabric(
        accelerator=device_name(config),
        devices=devices,
        num_nodes=num_nodes,
        strategy=DDPStrategy() if devices * num_nodes > 1 else "auto",
        precision=config.precision,
    )
    fabric.launch()
    return fabric


def device_name(config: TrainConfig) -> str:
    """Return the device to train on: cpu, cuda or mps."""
    return _best_device() if config.device == "auto" else config.device


def _best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def check_device(config: TrainConfig) -> None:
    """Raise if the configured device is missing, or does not support the configured precision."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(config.device, True):
        raise ConfigError(f"train.device: {config.device} is not available on this machine; use auto or cpu")
    device = device_name(config)
    # More processes than cores only help to test; hundreds would exhaust the machine.
    most = torch.cuda.device_count() if device == "cuda" else max(16, os.cpu_count() or 1)
    if config.devices > most:
        raise ConfigError(f"train.devices: {config.devices} processes; this machine can train with at most {most}")
    if config.precision == "16-mixed" and device != "cuda":
        raise ConfigError(f"train.precision: 16-mixed needs cuda and this is {device}; use bf16-mixed or 32-true")


def wrap(fabric: Any, method: Method, config: TrainConfig) -> None:
    """Move the method to the device, make its networks data-parallel and shard its tables.

    Tables of at most `replicate_below` bytes are replicated instead. Batch norm takes the rows of
    all processes, in the averages of networks too, unless `sync_batch_norm` is off.
    """
    method.to(fabric.device)
    if world_size() == 1:
        return
    for store in (module for module in method.modules() if isinstance(module, SampleStore)):
        store.distribute(shard=store.num_bytes > config.replicate_below)
    if config.sync_batch_norm:
        normalise_globally(method)
    for name, network in method.networks().items():
        # Wrap networks, never the method: rank 0 overwrites the buffers of a wrapped module.
        setattr(method, name, fabric.setup_module(network))


def unwrapped(network: nn.Module) -> nn.Module:
    """Return the network itself, whether it is data-parallel or not."""
    return getattr(network, "module", network) if world_size() > 1 else network


@contextlib.contextmanager
def networks_unwrapped(method: Method) -> Iterator[None]:
    """Unwrap the method's networks, so that saved names are the same on any number of ranks."""
    wrapped = method.networks()
    for name, network in wrapped.items():
        setattr(method, name, unwrapped(network))
    try:
        yield
    finally:
        for name, network in wrapped.items():
            setattr(method, name, network)


def trained_modules(method: Method) -> dict[str, nn.Module]:
    """Return what training changes: the unwrapped networks, and the averages that follow them."""
    averages = {name: module for name, module in method.named_modules() if isinstance(module, EMA)}
    return {name: unwrapped(network) for name, network in method.networks().items()} | averages


def broadcast_buffers(method: Method) -> None:
    """Copy rank 0's batch-norm statistics to all ranks, so that evaluation is the same on each."""
    if world_size() > 1:
        for module in trained_modules(method).values():
            for buffer in module.buffers():
                dist.broadcast(buffer, src=0)


def wait_for_all() -> None:
    """Wait until every rank calls this: no process may exit while the first one still writes."""
    if world_size() > 1:
        dist.barrier()


def is_first() -> bool:
    """Return whether this process writes files and talks to the user."""
    return rank() == 0


def any_rank(flag: bool, device: torch.device) -> bool:
    """Return whether the flag is set on any rank."""
    if world_size() == 1:
        return flag
    value = torch.tensor(float(flag), device=device)
    dist.all_reduce(value)
    return bool(value > 0)
