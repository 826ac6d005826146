"""Where jobs train: the interface of a backend, and the backend that trains on this machine."""

import os
import time
from collections import Counter
from dataclasses import replace
from types import TracebackType
from typing import Protocol, Self

from surelabel.config import RunConfig
from surelabel.errors import ConfigError
from surelabel.jobs.training_process import POLL_SECONDS, Report, TrainingProcess
from surelabel.jobs.trial import Job
from surelabel.training.cores import count_cores

STOP_SECONDS = 120.0
"""How long a run may take to save its state when it is asked to stop."""
VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
"""The environment variable that names the GPUs a process may use."""


class Backend(Protocol):
    """Trains jobs in other processes; on exit, running jobs save their states and stop."""

    retries: int
    """How often a job is restarted after its process was killed."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def has_room(self) -> bool:
        """Whether another job may be started now."""

    def start(self, job: Job) -> None:
        """Start a job, or resume it."""

    def poll(self, timeout: float) -> list[Report]:
        """Return what has happened since the last call; wait up to `timeout` seconds for news."""


class LocalBackend:
    """Up to `workers` training processes on this machine, which share its cores and its GPUs.

    A configuration that sets the number of threads keeps it.
    """

    retries = 1

    def __init__(self, workers: int = 1) -> None:
        if workers < 1:
            raise ConfigError(f"workers: got {workers}; expected at least 1")
        self.workers, self.threads = workers, max(1, count_cores() // workers)
        self.running: list[tuple[TrainingProcess, str | None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let running jobs save their states and stop; a second Ctrl-C kills them at once."""
        end = time.monotonic() + STOP_SECONDS
        try:
            for process, _ in self.running:
                process.stop()
            for process, _ in self.running:
                process.stop_or_kill(max(0.0, end - time.monotonic()))
        finally:
            for process, _ in self.running:
                process.kill()
            self.running = []

    @property
    def has_room(self) -> bool:
        """Whether fewer than `workers` jobs are running."""
        return len(self.running) < self.workers

    def start(self, job: Job) -> None:
        """Start a job, or resume it, in a new process."""
        gpu = self._freest_gpu()
        job = replace(job, config=on_one_device(job.config, job.config.train.threads or self.threads))
        self.running.append((TrainingProcess(job, {} if gpu is None else {VISIBLE_GPUS: gpu}), gpu))

    def _freest_gpu(self) -> str | None:
        """Return the GPU with the fewest running jobs; None if there is no choice."""
        gpus, busy = _visible_gpus(), Counter(gpu for _, gpu in self.running)
        return min(gpus, key=lambda gpu: busy[gpu]) if len(gpus) > 1 else None

    def poll(self, timeout: float) -> list[Report]:
        """Return what has happened since the last call; wait up to `timeout` seconds for news."""
        end = time.monotonic() + timeout
        while True:
            reports = [report for process, _ in self.running if (report := process.poll()) is not None]
            if reports or time.monotonic() >= end:
                break
            time.sleep(POLL_SECONDS)
        ended = {report.name for report in reports if report.ending is not None}
        self.running = [entry for entry in self.running if entry[0].job.name not in ended]
        return reports


def on_one_device(config: RunConfig, threads: int) -> RunConfig:
    """Return the configuration with one device and a number of threads."""
    return config.model_copy(update={"train": config.train.model_copy(update={"threads": threads, "devices": 1})})


def _visible_gpus() -> list[str]:
    """List the GPUs that this process may use, by CUDA's names."""
    import torch

    named = os.environ.get(VISIBLE_GPUS)
    count = torch.cuda.device_count()
    return [gpu.strip() for gpu in named.split(",")][:count] if named else [str(number) for number in range(count)]
