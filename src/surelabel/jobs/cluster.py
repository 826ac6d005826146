"""Runs on a Ray cluster: each is a task with its resources, and its directory comes back to where a local one would be."""

import contextlib
import os
import socket
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from surelabel.config import DataConfig, RunConfig
from surelabel.errors import ConfigError, SurelabelError
from surelabel.jobs.backend import Job
from surelabel.jobs.errand import Answer, Errand, forget, token, train_on_node
from surelabel.jobs.events import Ended, Event
from surelabel.jobs.travelling import unpack

GRACE = 60.0
"""Seconds in which runs that were cancelled may save their states."""


class Cluster:
    """The tasks of a Ray cluster: `address` is auto, host:port, or local, which starts one on this machine.

    Nodes need surelabel and the data at the paths that the configurations name; files that only this machine has are sent to them.
    A node that sees the reproduction's folder trains in it; elsewhere a run is trained in the node's temporary folder and
    sent back when it is done. `shared` says which, instead of looking.
    """

    retries = 3

    def __init__(self, address: str = "auto", *, shared: bool | None = None) -> None:
        self.address, self.shared = address, shared
        self.tasks: dict[Any, tuple[Job, Errand]] = {}
        self.sent: dict[str, Any] = {}
        self.clearing: list[Any] = []
        self.cleaning = contextlib.ExitStack()

    def __enter__(self) -> "Cluster":
        self.ray = _imported(self.address)
        try:
            self._connect()
            self.board = self._make_board()
        except BaseException:
            self.cleaning.close()
            raise
        self.task = self.ray.remote(train_on_node)
        return self

    def _connect(self) -> None:
        if self.ray.is_initialized():
            return  # whoever connected also ends it
        settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address == "local":
            settings |= {"include_dashboard": False, "_temp_dir": self.cleaning.enter_context(_short_folder())}
        try:
            _knock(self.address)
            self.ray.init(self.address, **settings)
        except (OSError, ValueError, RuntimeError) as error:
            text = " ".join(str(error).split())
            raise ConfigError(
                f"ray: no cluster at {self.address}: {text}; expected auto, host:port, or local"
            ) from None
        self.cleaning.callback(self.ray.shutdown)

    def _make_board(self) -> Any:
        """The actor that runs tell how they do; beside us, because its death would silence all."""
        here = self._on(self.ray.get_runtime_context().get_node_id(), soft=True)
        board = self.ray.remote(Board).options(num_cpus=0, max_restarts=-1, scheduling_strategy=here).remote()
        self.cleaning.callback(self.ray.kill, board)
        return board

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel what still trains, which saves its state, and leave the cluster."""
        end = time.monotonic() + GRACE
        with self.cleaning:
            for task in self.tasks:
                self.ray.cancel(task)
            while self.tasks and time.monotonic() < end:
                self.events(0.5)
            self.tasks.clear()
            if self.clearing:
                self.ray.wait(self.clearing, num_returns=len(self.clearing), timeout=GRACE)

    @property
    def has_room(self) -> bool:
        """Always: tasks wait in the cluster, which knows its resources and may grow."""
        return True

    def start(self, job: Job) -> None:
        """Hand a job to the cluster."""
        train = job.config.train
        threads = min(train.threads or 1, self._most("CPU"))
        changes = {
            "train": train.model_copy(update={"threads": threads, "devices": 1}),
            "data": _anchored(job.config.data),
        }
        config = job.config.model_copy(update=changes)
        errand = Errand(job.name, config, job.folder, token(job.folder), self.shared, self._files(config))
        wants_gpu = train.device in ("auto", "cuda") and self.ray.cluster_resources().get("GPU", 0) > 0
        # Retries are the caller's, who shows them and counts them alike on every backend.
        options = {"num_cpus": threads, "num_gpus": int(wants_gpu), "max_retries": 0, "name": job.name}
        self.tasks[self.task.options(**options).remote(errand, self.board)] = (job, errand)

    def _most(self, resource: str) -> int:
        """Of the node that has most of it: a task that wants more would wait for ever."""
        return max([1, *(int(node["Resources"].get(resource, 0)) for node in self.ray.nodes() if node["Alive"])])

    def _files(self, config: RunConfig) -> dict[str, Any]:
        """Data that are single files here, in the cluster's store: a node that has not got them takes them from there."""
        for path in _data_files(config):
            if path not in self.sent:
                self.sent[path] = self.ray.put(Path(path).read_bytes())
        return {path: self.sent[path] for path in _data_files(config)}

    def events(self, timeout: float) -> list[Event]:
        """What has happened since; waits up to `timeout` seconds for a run to end."""
        ready, _ = self.ray.wait(list(self.tasks), timeout=timeout, fetch_local=False) if self.tasks else ([], [])
        return [*self._heard(), *(self._ended(task) for task in ready)]

    def _heard(self) -> list[Event]:
        with contextlib.suppress(self.ray.exceptions.RayError):  # progress is a comfort: runs do not depend on it
            return self.ray.get(self.board.take.remote(), timeout=5)
        return []

    def _ended(self, task: Any) -> Ended:
        job, errand = self.tasks.pop(task)
        try:
            answer: Answer = self.ray.get(task)
            if answer.files is not None:
                unpack(answer.files, job.path, errand.config)
                self._clear(errand, answer.node)
        except self.ray.exceptions.RayTaskError as error:
            return Ended(job.name, " ".join(str(error.cause).split()), details=str(error))
        except self.ray.exceptions.RayError as error:
            first_line = str(error).strip().partition("\n")[0]
            return Ended(job.name, f"its worker died: {first_line}", is_killed=True)
        except (SurelabelError, OSError) as error:
            return Ended(job.name, str(error))
        return replace(answer.ended, name=job.name)

    def _clear(self, errand: Errand, node: str) -> None:
        """Let the node that trained remove its copy; should it be gone, so is the copy."""
        options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": self._on(node, soft=False)}
        self.clearing.append(self.ray.remote(forget).options(**options).remote(errand))

    def _on(self, node: str, soft: bool) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(node, soft=soft)


class Board:
    """Collects events until they are fetched."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def tell(self, event: Event) -> None:
        """One more event."""
        self.events.append(event)

    def take(self) -> list[Event]:
        """All events since the last time."""
        taken, self.events = self.events, []
        return taken


def _anchored(data: DataConfig) -> DataConfig:
    """The same with whole paths: workers have another current folder. A source in one word is a name, whatever lies here."""
    paths = {field: getattr(data, field) for field in ("source", "root", "test")}
    if Path(data.source).name == data.source and not Path(data.source).is_file():
        del paths["source"]
    found = {field: path for field, path in paths.items() if path is not None and Path(path).exists()}
    return data.model_copy(update={field: str(Path(path).absolute()) for field, path in found.items()})


def _data_files(config: RunConfig) -> list[str]:
    return [path for path in (config.data.source, config.data.test) if path is not None and Path(path).is_file()]


def _knock(address: str) -> None:
    """An error where nobody answers at host:port, for which Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "://" not in address:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


@contextlib.contextmanager
def _short_folder() -> Any:
    """A temporary folder for a cluster of our own; short, because sockets in it may have at most 107 letters."""
    base = "/tmp" if Path("/tmp").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="r", dir=base, ignore_cleanup_errors=True) as folder:
        yield folder


def _imported(address: str) -> Any:
    """Ray, told to report nothing; and for a cluster of our own, to write no token into the home folder."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address == "local":
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    try:
        import ray
    except ImportError:
        raise ConfigError('ray: is not installed; pip install "surelabel[ray]"') from None
    return ray
