"""Where runs train: what is asked of a machine or a cluster."""

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

from surelabel.config import RunConfig
from surelabel.jobs.events import Event


@dataclass(frozen=True)
class Job:
    """A run to train: anew, or on from the state that its directory holds."""

    name: str
    config: RunConfig
    folder: Path
    """The reproduction's folder."""

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.folder / "runs" / self.name

    @property
    def log(self) -> Path:
        """Where output and tracebacks of the run go."""
        return self.folder / "logs" / f"{self.name}.txt"


class Backend(Protocol):
    """Trains jobs elsewhere. Leaving it stops what still trains, so that it can go on later."""

    retries: int
    """How often a run is started again whose process was killed."""

    def __enter__(self) -> "Backend": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def has_room(self) -> bool:
        """Whether one more job may be started."""

    def start(self, job: Job) -> None:
        """Begin a job, or go on with it."""

    def events(self, timeout: float) -> list[Event]:
        """What has happened since; waits up to `timeout` seconds for something to happen."""
