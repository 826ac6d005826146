"""All trials of a reproduction, each once, in whatever state the folder is."""

from collections import Counter, deque
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from surelabel import files
from surelabel.errors import SurelabelError
from surelabel.jobs.backend import Backend, Job
from surelabel.jobs.events import Ended, Event, Noted
from surelabel.jobs.local import Processes
from surelabel.jobs.outcome import Outcome
from surelabel.jobs.standing import standing
from surelabel.jobs.tally import Tally
from surelabel.jobs.trial import Trial

TICK = 0.5
"""Seconds after which whoever watches is asked to look again, though nothing has happened."""


class Watcher(Protocol):
    """Who is shown how it goes."""

    def see(self, tally: Tally, event: Event | None) -> None:
        """Something has happened, or some time has passed."""


class Nobody:
    """Watches nothing."""

    def see(self, tally: Tally, event: Event | None) -> None:
        """Nothing."""


def run_all(
    trials: Iterable[Trial],
    folder: str | Path,
    *,
    workers: int = 1,
    backend: Backend | None = None,
    progress: Watcher | None = None,
) -> Outcome:
    """Bring every trial to its finished run in folder/runs/NAME: done ones are left, interrupted ones go on, others begin.

    Equal trials share a run. What fails is listed with its reason in the outcome and does not stop the rest. `backend` is where
    to train, by default `workers` processes on this machine. Ctrl-C lets runs save their states; the same call goes on with them.
    """
    campaign = Campaign(trials, Path(folder).absolute(), backend or Processes(workers), progress or Nobody())
    campaign.run()
    return campaign.outcome


class Campaign:
    """The loop that hands out trials and hears of them."""

    def __init__(self, trials: Iterable[Trial], folder: Path, backend: Backend, watcher: Watcher) -> None:
        self.trials = {trial.name: trial for trial in trials}
        self.folder, self.backend, self.watcher = folder, backend, watcher
        self.tally, self.outcome = Tally(self.trials.values()), Outcome()
        self.waiting: deque[Job] = deque()
        self.started: dict[str, Job] = {}
        self.deaths: Counter[str] = Counter()

    def run(self) -> None:
        """Train what is left to train."""
        self._look_around()
        self.watcher.see(self.tally, None)
        if not self.waiting:
            return
        with self.backend:
            while self.waiting or self.started:
                while self.waiting and self.backend.has_room:
                    self._start(self.waiting.popleft())
                for event in self.backend.events(TICK):
                    self._hear(event)
                self.watcher.see(self.tally, None)

    def _look_around(self) -> None:
        for name, trial in self.trials.items():
            job = Job(name, trial.config, self.folder)
            try:
                state = standing(trial, job.path)
            except SurelabelError as error:
                self._fail(Ended(name, str(error)))
                continue
            if state == "done":
                self.outcome.skipped.append(name)
                self.tally.settle(name, is_done=True)
            else:
                self.waiting.append(job)

    def _start(self, job: Job) -> None:
        self.started[job.name] = job
        self.backend.start(job)

    def _hear(self, event: Event) -> None:
        self.tally.hear(event)
        if not isinstance(event, Ended):
            self.watcher.see(self.tally, event)
            return
        job = self.started.pop(event.name)
        if event.details:
            _append(job.log, event.details)
        if event.reason is None:
            self.outcome.done.append(event.name)
            self.tally.settle(event.name, is_done=True)
            self.watcher.see(self.tally, event)
        elif event.is_killed and self.deaths[event.name] < self.backend.retries:
            self._once_more(job, event)
        else:
            self._fail(event)

    def _once_more(self, job: Job, event: Ended) -> None:
        self.deaths[job.name] += 1
        self.tally.put_back(job.name, self.trials[job.name])
        self.waiting.appendleft(job)
        self.watcher.see(self.tally, Noted(job.name, f"{job.name}: {event.reason}; it is started again"))

    def _fail(self, event: Ended) -> None:
        self.outcome.failed[event.name] = event.reason or "unknown"
        self.tally.settle(event.name, is_done=False)
        self.watcher.see(self.tally, event)


def _append(log: Path, text: str) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    files.append_line(log, text.rstrip("\n"))
