"""Train jobs as tasks of a Ray cluster, on a disk that its nodes share."""

import contextlib
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from surelabel import files
from surelabel.errors import ConfigError, RunError, SurelabelError, missing_package
from surelabel.jobs.local_backend import on_one_device
from surelabel.jobs.training_process import POLL_SECONDS, Ending, Report, TrainingProcess, write_config
from surelabel.jobs.trial import Job
from surelabel.runs.run_dir import RunDir

STOP_SECONDS = 60.0
"""How long a run may take to save its state when it is cancelled or loses its Ray worker."""
LOCAL_SETTINGS = {"RAY_AUTH_MODE": "disabled", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""A cluster on this machine writes no token to the home folder and listens on loopback only."""
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class _Task:
    """A job on the cluster, and Ray's generator of its reports."""

    job: Job
    reports: Any


class RayBackend:
    """The Ray cluster at `address`: auto, host:port, or local to start one on this machine.

    Nodes need surelabel, and a disk that they share with this machine: they read the data at the
    configured paths, as seen from the current folder, and write runs in place.
    """

    retries = 3

    def __init__(self, address: str = "auto") -> None:
        self.address = address
        self.tasks: list[_Task] = []
        self.cleanup = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self.ray = _import_ray(self.address)
        try:
            self._connect()
        except BaseException:
            self.cleanup.close()
            raise
        self.train = self.ray.remote(train_in_place)
        return self

    def _connect(self) -> None:
        if self.ray.is_initialized():
            return  # the code that connected also disconnects
        settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address == "local":
            settings |= {"include_dashboard": False, "_temp_dir": self.cleanup.enter_context(_short_folder())}
        try:
            _check_address(self.address)
            self.ray.init(self.address, **settings)
        except (OSError, ValueError, RuntimeError) as error:
            text = " ".join(str(error).split())
            raise ConfigError(
                f"ray: no cluster at {self.address}: {text}; expected auto, host:port, or local"
            ) from None
        self.cleanup.callback(self.ray.shutdown)
        if self.address == "local" and (found := self.ray.util.get_node_ip_address()) != LOOPBACK:
            wanted = " ".join(f"{name}={value}" for name, value in LOCAL_SETTINGS.items())
            raise ConfigError(f"ray: would listen on {found}, because it was imported before; set {wanted}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel running tasks, which save the states of their runs, and leave the cluster."""
        end = time.monotonic() + STOP_SECONDS
        with self.cleanup:
            for task in self.tasks:
                self.ray.cancel(task.reports)
            while self.tasks and time.monotonic() < end:
                self.poll(0.5)
            self.tasks.clear()

    @property
    def has_room(self) -> bool:
        """Always true: tasks wait in the cluster, which knows its resources and may grow."""
        return True

    def start(self, job: Job) -> None:
        """Hand a job to the cluster."""
        train = job.config.train
        threads = min(train.threads or 1, self._largest_node("CPU"))
        job = replace(job, config=on_one_device(job.config, threads))
        write_config(job)  # a node that does not see it does not share the disk
        wants_gpu = train.device in ("auto", "cuda") and self.ray.cluster_resources().get("GPU", 0) > 0
        options = {"num_cpus": threads, "num_gpus": int(wants_gpu), "name": job.name}
        # No retries by Ray: the runner counts and shows them, on every backend alike.
        reports = self.train.options(**options, max_retries=0, num_returns="streaming").remote(job, Path.cwd())
        self.tasks.append(_Task(job, reports))

    def _largest_node(self, resource: str) -> int:
        """Return the most that any node has of a resource: a task that wants more never starts."""
        return max([1, *(int(node["Resources"].get(resource, 0)) for node in self.ray.nodes() if node["Alive"])])

    def poll(self, timeout: float) -> list[Report]:
        """Return what has happened since the last call; wait up to `timeout` seconds for news."""
        if not self.tasks:
            return []
        by_reports = {id(task.reports): task for task in self.tasks}
        ready, _ = self.ray.wait([task.reports for task in self.tasks], timeout=timeout, fetch_local=False)
        reports = [self._read(by_reports[id(one)]) for one in ready]
        ended = {report.name for report in reports if report.ending is not None}
        self.tasks = [task for task in self.tasks if task.job.name not in ended]
        return reports

    def _read(self, task: _Task) -> Report:
        name = task.job.name
        try:
            report: Report = self.ray.get(next(task.reports))
            return report
        except self.ray.exceptions.RayTaskError as error:
            files.append_line(task.job.log_file, str(error).rstrip("\n"))
            return Report(name, ending=Ending(" ".join(str(error.cause).split())))
        except self.ray.exceptions.RayError as error:
            first_line = str(error).strip().partition("\n")[0]
            return Report(name, ending=Ending(f"its worker died: {first_line}", can_resume=True))
        except StopIteration:
            return Report(name, ending=Ending("its worker was stopped", can_resume=True))
        except (SurelabelError, OSError) as error:
            return Report(name, ending=Ending(str(error)))


def train_in_place(job: Job, started_in: Path) -> Iterator[Report]:
    """Train in the caller's folder, and yield reports; this is the Ray task."""
    for place in (job.config_file, started_in):
        if not place.exists():
            raise RunError(f"{place}: the node {socket.gethostname()} does not see it; use a disk that all nodes share")
    _wait_for_lock(job.path)
    process = TrainingProcess(job, folder=started_in)
    try:
        while True:
            report = process.poll()
            if report is None:
                time.sleep(POLL_SECONDS)
                continue
            yield report
            if report.ending is not None:
                return
    finally:
        process.stop_or_kill(STOP_SECONDS)


def _wait_for_lock(path: Path) -> None:
    """Wait until the process of an earlier task, whose Ray worker died, has saved its state."""
    end = time.monotonic() + STOP_SECONDS
    while (path / "lock").is_file() and time.monotonic() < end:
        try:
            with RunDir(path).locked():
                return
        except RunError:
            time.sleep(POLL_SECONDS)


def _check_address(address: str) -> None:
    """Raise if nothing answers at host:port; Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "://" not in address:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


@contextlib.contextmanager
def _short_folder() -> Iterator[str]:
    """Make a temporary folder with a short path: paths of sockets have at most 107 characters."""
    base = "/tmp" if Path("/tmp").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="r", dir=base, ignore_cleanup_errors=True) as folder:
        yield folder


def _import_ray(address: str) -> Any:
    """Import Ray, without usage reports; it reads its settings when it is imported."""
    for name, value in {"RAY_USAGE_STATS_ENABLED": "0", **(LOCAL_SETTINGS if address == "local" else {})}.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise missing_package("--ray", "ray", "ray") from None
    return ray
