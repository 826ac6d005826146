"""Devices, precision and processes, through Lightning Fabric; torchrun may start the processes."""

import contextlib
import logging
import os
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from surelabel import console, launcher
from surelabel.config import TrainConfig
from surelabel.core.collective import rank, world_size
from surelabel.core.method import Method
from surelabel.core.state import EMA, SampleStore
from surelabel.engine.batch_norm import normalise_globally
from surelabel.errors import ConfigError, RunError

NOTICE_SECONDS = 5.0
"""How long a process may take to notice that another one has ended, and to say so itself."""


def use_threads(config: TrainConfig) -> None:
    """Let PyTorch use as many threads as are configured."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)


def launch(config: TrainConfig, run: Path) -> Any:
    """Launch Fabric; with several devices the command is started again for each further process."""
    from lightning_fabric import Fabric
    from lightning_fabric.plugins.environments import LightningEnvironment, TorchElasticEnvironment
    from lightning_fabric.strategies import DDPStrategy

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    _, count, devices = launcher.started_as()
    check_device(config)
    if count == 1 and (config.devices > 1 or world_size() > 1):
        count = devices = _start_others(config.devices, run) if world_size() == 1 else world_size()
    fabric = Fabric(
        accelerator=device_name(config),
        devices=devices,
        num_nodes=count // devices,
        strategy=DDPStrategy() if count > 1 else "auto",
        precision=config.precision,
        # Named here, so that Fabric does not look for other launchers, such as that of SLURM.
        plugins=[TorchElasticEnvironment() if count > 1 else LightningEnvironment()],
    )
    fabric.launch()
    return fabric


def _start_others(count: int, run: Path) -> int:
    """Start this command again for each further process, and return how many there are."""
    import __main__

    program = [str(Path(sys.argv[0]).absolute())] if __main__.__spec__ is None else ["-m", __main__.__spec__.name]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {launcher.ADDRESS: "127.0.0.1", launcher.PORT: str(free.getsockname()[1])}
    counts = dict.fromkeys(launcher.RANKS.values(), str(count))
    os.environ |= place | counts | dict.fromkeys((*launcher.RANKS, *launcher.OTHERS), "0")
    for number in range(1, count):
        own = dict.fromkeys(launcher.RANKS, str(number)) | {launcher.PARENT: str(os.getpid())}
        process = subprocess.Popen([sys.executable, *program, *sys.argv[1:]], env={**os.environ, **own})
        threading.Thread(target=_watch, args=(process, run), daemon=True).start()
    return count


def _watch(process: subprocess.Popen[bytes], run: Path) -> None:
    """End this process some time after another has failed: it may wait for that one for ever."""
    if process.wait():
        time.sleep(NOTICE_SECONDS)
        console.tell(f"error: {_lost(run)}")
        os._exit(2)


def _lost(run: Path) -> RunError:
    return RunError(
        f"{run}: a process that trains this run has ended; what was saved is intact, resume with: "
        f"surelabel resume {shlex.quote(str(run))}"
    )


@contextlib.contextmanager
def naming_lost_process(run: Path) -> Iterator[None]:
    """Turn errors of the connection to other processes into one that says how to resume."""
    try:
        yield
    except RuntimeError as error:
        is_lost = isinstance(error, dist.DistError) or "gloo" in str(error).lower()
        if world_size() == 1 or not is_lost:
            raise
        raise _lost(run) from error


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
