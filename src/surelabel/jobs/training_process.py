"""Start a process that trains one run, and follow it by the files it writes.

The run directory shows the epochs, their accuracies and that the run is done; the log shows
warnings and the reason for a failure. `worker.py` is the program that the process executes.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from surelabel import files, launcher
from surelabel.config import RunConfig
from surelabel.console import accuracy_text
from surelabel.jobs.trial import Job
from surelabel.runs.run_dir import RunDir

WORKER = "surelabel.jobs.worker"
POLL_SECONDS = 0.1
"""Pause between two reads of the files of a run."""
EXIT_SECONDS = 30.0
"""How long a process may take to exit once its run is done."""
FAILED, STOPPED = 1, 75
"""Exit codes: the last line of the log says why; the state is saved."""
NOTE = "note: "
"""Prefix of log lines that are warnings for the user."""


@dataclass(frozen=True)
class TrainingProgress:
    """How far a training process has got."""

    pid: int
    num_epochs: int
    first_epoch: int
    """Epochs that were done when the process started: 0 for a new run."""
    epoch: int
    accuracy: str = ""


@dataclass(frozen=True)
class Ending:
    """How a job ended: done if there is no `reason`, else failed."""

    reason: str | None = None
    can_resume: bool = False
    """Whether another process can resume the run: this one died, or was stopped."""


@dataclass(frozen=True)
class Report:
    """News of a job: its progress, new warnings, and how it ended."""

    name: str
    progress: TrainingProgress | None = None
    notes: tuple[str, ...] = ()
    ending: Ending | None = None


class TrainingProcess:
    """A process that trains a job; `poll` reads what it has written."""

    def __init__(self, job: Job, environment: Mapping[str, str] | None = None, folder: Path | None = None) -> None:
        """Start it with these variables, in a folder that relative paths begin at."""
        self.job, self.run = job, RunDir(job.path)
        self.progress: TrainingProgress | None = None
        self.metrics_stamp: tuple[int, int] | None = None
        self.done_since: float | None = None
        write_config(job)
        job.start_file.unlink(missing_ok=True)
        with files.opened(job.log_file) as log:
            self.log_start = self.log_read = os.fstat(log).st_size
            self.process = subprocess.Popen(
                # -P, with our search path in the environment: it must import what we import.
                [sys.executable, "-P", "-m", WORKER, str(job.config_file), str(job.path), str(job.start_file)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                # Ctrl-C in a terminal reaches its whole session; we tell the process when to stop.
                start_new_session=True,
                cwd=folder,
                env={**launcher.without_launcher(os.environ), **_environment(job.config), **(environment or {})},
            )

    def poll(self) -> Report | None:
        """Return what has happened since the last call, or None."""
        code = self.process.poll()  # first, so that the files hold everything it wrote
        before, notes = self.progress, self._read_notes()
        self._read_progress()
        ending = self._find_ending(code)
        if self.progress == before and not notes and ending is None:
            return None
        return Report(self.job.name, self.progress, notes, ending)

    def stop(self) -> None:
        """Ask the process to save its state and exit."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def kill(self) -> None:
        """End the process and those it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.stop()

    def stop_or_kill(self, seconds: float) -> None:
        """Ask the process to stop, and kill it if it takes longer than this."""
        self.stop()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def read_log(self) -> str:
        """Return what this process has written to the log."""
        return _read_from(self.job.log_file, self.log_start).decode(errors="replace")

    def _read_notes(self) -> tuple[str, ...]:
        lines, _, _ = _read_from(self.job.log_file, self.log_read).rpartition(b"\n")
        if not lines:
            return ()
        self.log_read += len(lines) + 1
        texts = lines.decode(errors="replace").splitlines()
        return tuple(text.removeprefix(NOTE) for text in texts if text.startswith(NOTE))

    def _read_progress(self) -> None:
        if self.progress is None:
            if not self.job.start_file.is_file():
                return
            self.progress = TrainingProgress(**json.loads(self.job.start_file.read_text(encoding="utf-8")))
        # metrics.jsonl exists: the engine creates it before it reports the start.
        metrics = self.run.path / "metrics.jsonl"
        stamp = (metrics.stat().st_mtime_ns, metrics.stat().st_size)
        if stamp != self.metrics_stamp:
            self.metrics_stamp = stamp
            if rows := self.run.metrics():
                self.progress = replace(self.progress, epoch=rows[-1]["epoch"], accuracy=accuracy_text(rows[-1]))

    def _find_ending(self, code: int | None) -> Ending | None:
        is_done = self.run.is_done
        if code is None:
            if not is_done:
                return None
            self.done_since = self.done_since or time.monotonic()
            if time.monotonic() - self.done_since < EXIT_SECONDS:
                return None
        self.kill()
        self.job.start_file.unlink(missing_ok=True)
        if is_done:
            return Ending()
        if code == STOPPED:
            return Ending("stopped by a signal", can_resume=True)
        if code == FAILED and (lines := self.read_log().split("\n")[:-1]):
            return Ending(lines[-1])
        return Ending(f"its process died with {_describe(code)}; see {self.job.log_file}", can_resume=True)


def write_config(job: Job) -> None:
    """Write the configuration that a training process reads."""
    for file in (job.config_file, job.log_file):
        file.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps(job.config.model_dump(mode="json"), indent=2) + "\n"
    files.replace_text(job.config_file, content, files.unlisted)


def _environment(config: RunConfig) -> dict[str, str]:
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    # Some libraries read the number of threads when they are imported.
    threads = {} if config.train.threads is None else {"OMP_NUM_THREADS": str(config.train.threads)}
    return {"PYTHONPATH": path, **threads}


def _read_from(file: Path, position: int) -> bytes:
    with file.open("rb") as opened:
        opened.seek(position)
        return opened.read()


def _describe(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"
