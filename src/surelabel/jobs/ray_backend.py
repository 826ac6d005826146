"""Train jobs as tasks of a Ray cluster; their files end up where local runs put them."""

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
from surelabel.config import DataConfig, RunConfig
from surelabel.errors import ConfigError, SurelabelError, missing_package
from surelabel.jobs.local_backend import on_one_device
from surelabel.jobs.ray_node import (
    STOP_SECONDS,
    NodeJob,
    NodeReport,
    make_folder_id,
    remove_copy,
    train_on_node,
    unpack_run,
)
from surelabel.jobs.training_process import Ending, Report
from surelabel.jobs.trial import Job


@dataclass(frozen=True)
class _Task:
    """A job on the cluster, and Ray's generator of its reports."""

    node_job: NodeJob
    reports: Any

    @property
    def job(self) -> Job:
        return self.node_job.job


class RayBackend:
    """The Ray cluster at `address`: auto, host:port, or local to start one on this machine.

    Nodes need surelabel and the data at the configured paths; single data files that only this
    machine has are sent to them. A node that sees the folder trains in it; any other node trains in
    its temporary folder and sends the finished run back. `shared` sets which; None finds out.
    """

    retries = 3

    def __init__(self, address: str = "auto", *, shared: bool | None = None) -> None:
        self.address, self.shared = address, shared
        self.tasks: list[_Task] = []
        self.sent_files: dict[str, Any] = {}
        self.removals: list[Any] = []
        self.cleanup = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self.ray = _import_ray(self.address)
        try:
            self._connect()
        except BaseException:
            self.cleanup.close()
            raise
        self.train = self.ray.remote(train_on_node)
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
            if self.removals:
                self.ray.wait(self.removals, num_returns=len(self.removals), timeout=STOP_SECONDS)
            # Another call may connect again; references do not outlive the connection.
            self.removals.clear()
            self.sent_files.clear()

    @property
    def has_room(self) -> bool:
        """Always true: tasks wait in the cluster, which knows its resources and may grow."""
        return True

    def start(self, job: Job) -> None:
        """Hand a job to the cluster."""
        train = job.config.train
        threads = min(train.threads or 1, self._largest_node("CPU"))
        config = on_one_device(job.config, threads).model_copy(update={"data": _with_absolute_paths(job.config.data)})
        node_job = NodeJob(
            replace(job, config=config), make_folder_id(job.folder), self.shared, self._send_files(config)
        )
        wants_gpu = train.device in ("auto", "cuda") and self.ray.cluster_resources().get("GPU", 0) > 0
        options = {"num_cpus": threads, "num_gpus": int(wants_gpu), "name": job.name}
        # No retries by Ray: the runner counts and shows them, on every backend alike.
        reports = self.train.options(**options, max_retries=0, num_returns="streaming").remote(node_job)
        self.tasks.append(_Task(node_job, reports))

    def _largest_node(self, resource: str) -> int:
        """Return the most that any node has of a resource: a task that wants more never starts."""
        return max([1, *(int(node["Resources"].get(resource, 0)) for node in self.ray.nodes() if node["Alive"])])

    def _send_files(self, config: RunConfig) -> dict[str, Any]:
        """Put data files of this machine into the cluster's store, for nodes that lack them."""
        paths = [path for path in (config.data.source, config.data.test) if path is not None and Path(path).is_file()]
        for path in paths:
            if path not in self.sent_files:
                self.sent_files[path] = self.ray.put(Path(path).read_bytes())
        return {path: self.sent_files[path] for path in paths}

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
            return self._receive(task, self.ray.get(next(task.reports)))
        except self.ray.exceptions.RayTaskError as error:
            self._append_log(task.job, str(error))
            return Report(name, ending=Ending(" ".join(str(error.cause).split())))
        except self.ray.exceptions.RayError as error:
            first_line = str(error).strip().partition("\n")[0]
            return Report(name, ending=Ending(f"its worker died: {first_line}", can_resume=True))
        except StopIteration:
            return Report(name, ending=Ending("its worker was stopped", can_resume=True))
        except (SurelabelError, OSError) as error:
            return Report(name, ending=Ending(str(error)))

    def _receive(self, task: _Task, found: NodeReport) -> Report:
        if found.log:
            self._append_log(task.job, found.log)
        if found.files is not None:
            unpack_run(found.files, task.job.path, task.job.config)
            self._remove_copy(task.node_job, found.node)
        return found.report

    def _append_log(self, job: Job, text: str) -> None:
        job.log_file.parent.mkdir(parents=True, exist_ok=True)
        files.append_line(job.log_file, text.rstrip("\n"))

    def _remove_copy(self, node_job: NodeJob, node: str) -> None:
        """Let the node that trained remove its copy; if the node is gone, so is the copy."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        strategy = NodeAffinitySchedulingStrategy(node, soft=False)
        options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": strategy}
        self.removals.append(self.ray.remote(remove_copy).options(**options).remote(node_job))


def _with_absolute_paths(data: DataConfig) -> DataConfig:
    """Return the settings with absolute paths: workers run in another folder."""
    paths = {field: getattr(data, field) for field in ("source", "root", "test")}
    # A source of one word is the name of a data set, even if a folder here has the same name.
    if Path(data.source).name == data.source and not Path(data.source).is_file():
        del paths["source"]
    found = {field: path for field, path in paths.items() if path is not None and Path(path).exists()}
    return data.model_copy(update={field: str(Path(path).absolute()) for field, path in found.items()})


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
    """Import Ray, without usage reports; a local cluster writes no token to the home folder."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address == "local":
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    try:
        import ray
    except ImportError:
        raise missing_package("--ray", "ray", "ray") from None
    return ray
