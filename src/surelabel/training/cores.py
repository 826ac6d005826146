"""The CPU cores of this machine, and how many of them other programs leave free."""

import math
import os

from surelabel.config import TrainConfig


def count_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def notes_on_threads(train: TrainConfig) -> list[str]:
    """Say so if training is to use more threads than there are free cores.

    The threads of a step wait for each other, so one that shares its core slows down all of them.
    """
    import torch

    from surelabel.engine.distributed import device_name

    threads = train.threads or torch.get_num_threads()
    cores, busy = count_cores(), _busy_cores()
    free = max(1, math.floor(cores - busy + 0.5))
    if threads <= free or device_name(train) != "cpu":
        return []
    return [
        f"other programs keep about {min(busy, cores):.1f} of {cores} cores busy, and {threads} threads that wait for "
        f"each other may be slower than {free}: try --threads {free}"
    ]


def _busy_cores() -> float:
    """Return how many cores were busy in the last minute, as far as the system tells."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
