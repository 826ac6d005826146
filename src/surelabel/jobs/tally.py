"""How far many runs are together, and how long the rest will take."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from surelabel.jobs.events import Advanced, Began, Ended, Event
from surelabel.jobs.trial import Trial

Kind = tuple[str, str, str]
"""Data, network, method: runs that agree in these take about equally long for an epoch."""


@dataclass
class Running:
    """A run that trains now."""

    name: str
    num_epochs: int
    epoch: int
    since: float
    """When the epoch began."""
    result: str = ""


class Tally:
    """Counts over all trials, kept up by events."""

    def __init__(self, trials: Iterable[Trial], clock: Callable[[], float] = time.monotonic) -> None:
        self.waiting = {trial.name: trial for trial in trials}
        self.kinds: dict[str, Kind] = {name: _kind(trial) for name, trial in self.waiting.items()}
        self.total, self.clock = len(self.waiting), clock
        self.running: dict[str, Running] = {}
        self.done: set[str] = set()
        self.failed: set[str] = set()
        self.seconds: defaultdict[Kind, float] = defaultdict(float)
        self.epochs: Counter[Kind] = Counter()

    @property
    def left(self) -> int:
        """Runs that are neither done nor failed."""
        return self.total - len(self.done) - len(self.failed)

    def settle(self, name: str, is_done: bool) -> None:
        """A trial is over: done, or failed for good."""
        self.waiting.pop(name, None)
        self.running.pop(name, None)
        (self.done if is_done else self.failed).add(name)

    def put_back(self, name: str, trial: Trial) -> None:
        """A trial waits again for a process."""
        self.running.pop(name, None)
        self.waiting[name] = trial

    def hear(self, event: Event) -> None:
        """Keep up with what a run says; of one that is over, late words change nothing."""
        if event.name in self.done or event.name in self.failed:
            return
        if isinstance(event, Began):
            self.waiting.pop(event.name, None)
            self.running[event.name] = Running(event.name, event.num_epochs, event.done, self.clock())
        elif isinstance(event, Advanced) and event.name in self.running:
            self._advance(self.running[event.name], event)
        elif isinstance(event, Ended) and event.reason is None and event.name in self.running:
            run = self.running[event.name]
            self._advance(run, Advanced(event.name, run.num_epochs, run.result))

    def _advance(self, run: Running, event: Advanced) -> None:
        now, kind = self.clock(), self.kinds[run.name]
        self.seconds[kind] += now - run.since
        self.epochs[kind] += max(0, event.epoch - run.epoch)
        run.epoch, run.result, run.since = event.epoch, event.result, now
        run.num_epochs = max(run.num_epochs, run.epoch)  # stages may turn out longer than they were announced

    def seconds_left(self) -> float | None:
        """An estimate: epochs left at what an epoch of their kind has taken, side by side as now; None before the first epoch."""
        if not self.epochs.total():
            return None
        work = [(run.num_epochs - run.epoch) * self._epoch_seconds(name) for name, run in self.running.items()]
        work += [trial.config.train.epochs * self._epoch_seconds(name) for name, trial in self.waiting.items()]
        return max(sum(work) / max(1, len(self.running)), *work) if work else 0.0

    def _epoch_seconds(self, name: str) -> float:
        kind = self.kinds[name]
        if self.epochs[kind]:
            return self.seconds[kind] / self.epochs[kind]
        return sum(self.seconds.values()) / self.epochs.total()  # none of its kind yet: as the others


def _kind(trial: Trial) -> Kind:
    config = trial.config
    return config.data.source, config.model.name, config.method.name
