"""Runs on this machine: one process for each that trains, so that the death of one leaves the others alone."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from surelabel import files
from surelabel.config import RunConfig
from surelabel.errors import ConfigError
from surelabel.jobs.attempt import attempt
from surelabel.jobs.backend import Job
from surelabel.jobs.events import Ended, Event
from surelabel.runs.run_dir import RunDir

GRACE = 120.0
"""Seconds in which a run that was asked to stop must have saved its state."""
LEAVING = 30.0
"""Seconds in which a process that has said its last word must be gone."""
VISIBLE = "CUDA_VISIBLE_DEVICES"
"""Names the GPUs that a process may use."""


class Processes:
    """Up to `workers` runs at a time, which share the cores unless their configurations say otherwise, and the GPUs."""

    retries = 1

    def __init__(self, workers: int = 1) -> None:
        if workers < 1:
            raise ConfigError(f"workers: got {workers}; expected at least 1")
        self.workers, self.threads = workers, max(1, _num_cores() // workers)
        self.running: list[Worker] = []

    def __enter__(self) -> "Processes":
        resource_tracker.ensure_running()  # its own start lets signals through, which `start` keeps back
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ask what still trains to save and stop; a second Ctrl-C does not wait for it."""
        end = time.monotonic() + GRACE
        try:
            for worker in self.running:
                worker.ask_to_stop()
            while self.running and time.monotonic() < end:
                self.events(0.2)
        finally:
            for worker in self.running:
                worker.kill()
            self.running = []

    @property
    def has_room(self) -> bool:
        """Whether one more job may be started."""
        return len(self.running) < self.workers

    def start(self, job: Job) -> None:
        """Begin a job, or go on with it, in a new process."""
        train = job.config.train
        changes = {"threads": train.threads or self.threads, "devices": 1}
        config = job.config.model_copy(update={"train": train.model_copy(update=changes)})
        gpu = self._freest_gpu()
        with _ctrl_c_kept_back():
            self.running.append(Worker(job, config, gpu))

    def _freest_gpu(self) -> str | None:
        """Of which the fewest runs make use; None where there is no choice."""
        gpus, busy = _visible_gpus(), Counter(worker.gpu for worker in self.running)
        return min(gpus, key=lambda gpu: busy[gpu]) if len(gpus) > 1 else None

    def events(self, timeout: float) -> list[Event]:
        """What has happened since; waits up to `timeout` seconds for something to happen."""
        signs: list[Any] = [sign for worker in self.running for sign in (worker.line, worker.process.sentinel)]
        connection.wait(signs, timeout) if signs else time.sleep(timeout)
        found = [event for worker in self.running for event in worker.events()]
        self.running = [worker for worker in self.running if not worker.has_ended]
        return found


class Worker:
    """The process of one run, and the line to it."""

    def __init__(self, job: Job, config: RunConfig, gpu: str | None = None) -> None:
        self.job, self.gpu, self.has_ended = job, gpu, False
        job.log.parent.mkdir(parents=True, exist_ok=True)
        context = multiprocessing.get_context("spawn")
        self.line, far_end = context.Pipe()
        self.process = context.Process(target=_work, args=(far_end, job.name, config, job.path, job.log, gpu))
        self.process.start()
        far_end.close()

    def events(self) -> Iterator[Event]:
        """What the process has said; last that it has ended, which it may not be able to say itself."""
        is_alive = self.process.is_alive()  # asked first: what it said before its death is then on the line
        with contextlib.suppress(EOFError, OSError):
            while self.line.poll():
                event = self.line.recv()
                if isinstance(event, Ended):
                    yield self._ended(event)
                    return
                yield event
            if is_alive:
                return
        yield self._ended(None)

    def _ended(self, said: Ended | None) -> Ended:
        self.process.join(LEAVING)
        code = self.process.exitcode
        self.kill()
        self.has_ended = True
        if said is not None:
            return said
        if RunDir(self.job.path).is_done:
            return Ended(self.job.name)
        return Ended(self.job.name, f"its process died with {_in_words(code)}; see {self.job.log}", is_killed=True)

    def ask_to_stop(self) -> None:
        """Let the run save its state and end."""
        with contextlib.suppress(OSError):
            self.line.send("stop")

    def kill(self) -> None:
        """End the process, whatever it does."""
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.line.close()


def _work(line: Connection, name: str, config: RunConfig, path: Path, log: Path, gpu: str | None) -> None:
    """The life of a worker process."""
    if gpu is not None:
        os.environ[VISIBLE] = gpu
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # a terminal sends Ctrl-C to all; the parent tells us
    os.environ["OMP_NUM_THREADS"] = str(config.train.threads)  # also for what runs before training
    _write_output_to(log)
    threading.Thread(target=_obey, args=(line,), daemon=True).start()

    def tell(event: Event) -> None:
        with contextlib.suppress(OSError):  # the parent is gone, and `_obey` has seen it
            line.send(event)

    tell(attempt(name, config, path, tell))


def _obey(line: Connection) -> None:
    """End as if asked by SIGTERM when the parent says so, or is gone: training then saves its state first."""
    with contextlib.suppress(OSError):
        line.poll(None)
    os.kill(os.getpid(), signal.SIGTERM)


def _write_output_to(log: Path) -> None:
    """Let warnings of libraries go to a file: they would tear the display of the parent."""
    with files.opened(log) as number:
        os.dup2(number, 1)
        os.dup2(number, 2)


@contextlib.contextmanager
def _ctrl_c_kept_back() -> Iterator[None]:
    """Delay Ctrl-C, so that no process is started without being noted; the child starts with it kept back too."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _visible_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA calls them."""
    import torch

    named = os.environ.get(VISIBLE)
    count = torch.cuda.device_count()
    return [gpu.strip() for gpu in named.split(",")][:count] if named else [str(number) for number in range(count)]


def _in_words(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"
