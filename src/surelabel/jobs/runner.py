"""Run many trials: skip those that are done, resume or start the others."""

import contextlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from surelabel import files
from surelabel.errors import RunError, SurelabelError
from surelabel.jobs.local_backend import Backend, LocalBackend
from surelabel.jobs.progress import Overview, ProgressDisplay
from surelabel.jobs.training_process import Report
from surelabel.jobs.trial import Job, Trial, find_state

LOCK_FILE = "lock"
UPDATE_SECONDS = 0.5
"""The display is updated at least this often."""


@dataclass
class Outcome:
    """Names of the trials: trained now, done before, failed with the reasons, and not started."""

    done: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether every trial has a finished run."""
        return not self.failed and not self.waiting


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold a folder of many runs; a second process that would train in it is refused."""

    def refuse() -> None:
        raise RunError(f"{folder}: another process trains runs in this folder; wait for it, or choose another folder")

    folder.mkdir(parents=True, exist_ok=True)
    with files.locked(folder / LOCK_FILE, busy=refuse):
        yield


def run_all(
    trials: Iterable[Trial],
    folder: str | Path,
    *,
    workers: int = 1,
    backend: Backend | None = None,
    progress: ProgressDisplay | None = None,
    may_start: Callable[[], bool] = lambda: True,
) -> Outcome:
    """Train every trial into folder/runs/NAME: skip finished runs, resume interrupted ones.

    Equal trials share a run. A failure is listed in the outcome with its reason and does not stop
    the others. `backend` says where to train, by default in `workers` processes on this machine.
    Once `may_start` returns false, runs that have started end and the others wait. On Ctrl-C runs
    save their states, and the same call resumes them.
    """
    runner = _Runner(trials, Path(folder).absolute(), backend or LocalBackend(workers), progress or ProgressDisplay())
    runner.run(may_start)
    return runner.outcome


class _Runner:
    """The loop that starts jobs and reads their reports."""

    def __init__(self, trials: Iterable[Trial], folder: Path, backend: Backend, progress: ProgressDisplay) -> None:
        self.trials = {trial.name: trial for trial in trials}
        self.folder, self.backend, self.progress = folder, backend, progress
        self.overview, self.outcome = Overview(self.trials.values()), Outcome()
        self.waiting: deque[Job] = deque()
        self.started: dict[str, Job] = {}
        self.restarts: Counter[str] = Counter()

    def run(self, may_start: Callable[[], bool]) -> None:
        """Train the trials that are not done yet, as long as they may start."""
        self._sort_out()
        self.progress.update(self.overview)
        if self.waiting and may_start():
            self._train(may_start)
        self.outcome.waiting = [job.name for job in self.waiting]

    def _train(self, may_start: Callable[[], bool]) -> None:
        with self.backend:
            while self.started or (self.waiting and may_start()):
                while self.waiting and self.backend.has_room and may_start():
                    self._start(self.waiting.popleft())
                for report in self.backend.poll(UPDATE_SECONDS):
                    self._read(report)
                self.progress.update(self.overview)

    def _sort_out(self) -> None:
        """Sort trials: finished runs, jobs to train, and folders that hold something else."""
        for name, trial in self.trials.items():
            job = Job(name, trial.config, self.folder)
            try:
                state = find_state(trial, job.path)
            except SurelabelError as error:
                self._end(name, str(error))
                continue
            if state == "done":
                self.outcome.skipped.append(name)
                self.overview.end(name, is_done=True)
            else:
                self.waiting.append(job)

    def _start(self, job: Job) -> None:
        self.started[job.name] = job
        self.backend.start(job)

    def _read(self, report: Report) -> None:
        self.overview.read(report)
        for text in report.notes:
            self.progress.note(text)
        if report.ending is None:
            return
        job = self.started.pop(report.name)
        if report.ending.can_resume and self.restarts[job.name] < self.backend.retries:
            self.restarts[job.name] += 1
            self.overview.wait_again(job.name)
            self.waiting.appendleft(job)
            self.progress.note(f"{job.name}: {report.ending.reason}; restarting it")
        else:
            self._end(job.name, report.ending.reason)

    def _end(self, name: str, reason: str | None) -> None:
        if reason is None:
            self.outcome.done.append(name)
        else:
            self.outcome.failed[name] = reason
        self.overview.end(name, is_done=reason is None)
        self.progress.ended(self.overview, name, reason)
