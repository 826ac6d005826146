"""Show many runs at once: counts and an estimate of the time left, as bars or as lines."""

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from surelabel.console import BarDisplay, bar_terminal, printable
from surelabel.jobs.training_process import Report, TrainingProgress
from surelabel.jobs.trial import Trial

LINE_SECONDS = 60.0
"""Pause between two lines while no run ends."""

Kind = tuple[str, str, str]
"""Data, network and method: epochs of runs that agree in these take about equally long."""


class Overview:
    """How far all trials have got: which wait, run, are done or failed, and the time left."""

    def __init__(self, trials: Iterable[Trial], clock: Callable[[], float] = time.monotonic) -> None:
        self.trials = {trial.name: trial for trial in trials}
        self.total, self.clock = len(self.trials), clock
        self.waiting = set(self.trials)
        self.running: dict[str, TrainingProgress] = {}
        self.done: set[str] = set()
        self.failed: set[str] = set()
        self.since: dict[str, float] = {}
        """When the last progress of a running trial was read."""
        self.seconds: defaultdict[Kind, float] = defaultdict(float)
        self.epochs: Counter[Kind] = Counter()

    @property
    def left(self) -> int:
        """The number of trials that are neither done nor failed."""
        return self.total - len(self.done) - len(self.failed)

    def read(self, report: Report) -> None:
        """Update the progress of a trial; a late report of one that has ended is ignored."""
        name, progress = report.name, report.progress
        if progress is None or name in self.done or name in self.failed:
            return
        first, now = self.running.get(name), self.clock()
        if first is not None and first.pid == progress.pid and progress.epoch > first.epoch:
            self.seconds[self._kind(name)] += now - self.since[name]
            self.epochs[self._kind(name)] += progress.epoch - first.epoch
        self.waiting.discard(name)
        self.running[name], self.since[name] = progress, now

    def end(self, name: str, is_done: bool) -> None:
        """Count a trial as done or failed."""
        self.waiting.discard(name)
        self.running.pop(name, None)
        (self.done if is_done else self.failed).add(name)

    def wait_again(self, name: str) -> None:
        """Count a trial as waiting after its process was killed."""
        self.running.pop(name, None)
        self.waiting.add(name)

    def seconds_left(self) -> float | None:
        """Estimate the time left from the epochs so far; None before the first one.

        Assumes that as many runs as now train side by side.
        """
        if not self.epochs.total():
            return None
        work = [_epochs_left(run) * self._epoch_seconds(name) for name, run in self.running.items()]
        work += [self.trials[name].config.train.epochs * self._epoch_seconds(name) for name in self.waiting]
        return max(sum(work) / max(1, len(self.running)), *work) if work else 0.0

    def _epoch_seconds(self, name: str) -> float:
        kind = self._kind(name)
        if self.epochs[kind]:
            return self.seconds[kind] / self.epochs[kind]
        return sum(self.seconds.values()) / self.epochs.total()  # none of its kind yet: as long as the others

    def _kind(self, name: str) -> Kind:
        config = self.trials[name].config
        return config.data.source, config.model.name, config.method.name

    def summary(self) -> str:
        """Return the counts and the time left in words."""
        left = self.seconds_left()
        parts = [f"{len(self.done)} done", f"{len(self.failed)} failed", f"{self.left} left"]
        if self.left:
            parts.append("time left unknown" if left is None else f"about {format_duration(left)} left")
        return ", ".join(parts)


def _epochs_left(run: TrainingProgress) -> int:
    return max(0, run.num_epochs - run.epoch)  # a stage may last longer than announced


def format_duration(seconds: float) -> str:
    """Return a duration in the units that people would use."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole / 86400:.1f} days"


class ProgressDisplay:
    """Receives the progress of many runs; this one ignores it."""

    def update(self, overview: Overview) -> None:
        """Show the progress; called regularly."""

    def note(self, text: str) -> None:
        """Show a warning of a run."""

    def ended(self, overview: Overview, name: str, reason: str | None) -> None:
        """Show that a trial is done, or the reason why it failed."""


class Lines(ProgressDisplay):
    """Writes a line when a trial ends, and otherwise one every minute."""

    def __init__(self, write: Callable[[str], Any], every: float = LINE_SECONDS) -> None:
        self.write, self.every, self.written_at = write, every, time.monotonic()
        self.notes: set[str] = set()

    def update(self, overview: Overview) -> None:
        """Write a line on the running trials, if it is time for one."""
        if overview.running and time.monotonic() - self.written_at >= self.every:
            self._write(overview, "; ".join(_describe(name, run) for name, run in overview.running.items()))

    def note(self, text: str) -> None:
        """Write a warning once: runs that differ in the seed have the same."""
        if text not in self.notes:
            self.notes.add(text)
            self.write(f"note: {text}")

    def ended(self, overview: Overview, name: str, reason: str | None) -> None:
        """Write how a trial ended."""
        self._write(overview, f"{name}: {'done' if reason is None else f'failed: {reason}'}")

    def _write(self, overview: Overview, text: str) -> None:
        self.written_at = time.monotonic()
        self.write(f"{text}  [{overview.summary()}]")


class Bars(BarDisplay, ProgressDisplay):
    """Shows a bar over all trials, and one for each that is running."""

    def __init__(self, terminal: Any) -> None:
        super().__init__(terminal, "{task.fields[details]}", bar_width=20)
        self.all: Any = None
        self.runs: dict[str, Any] = {}

    def update(self, overview: Overview) -> None:
        """Bring the bars up to date."""
        if self.all is None:
            self.all = self.bar.add_task("all runs", total=overview.total, details="")
        completed = len(overview.done) + len(overview.failed)
        self.bar.update(self.all, total=overview.total, completed=completed, details=overview.summary())
        for name in set(self.runs) - set(overview.running):
            self.bar.remove_task(self.runs.pop(name))
        for name, run in overview.running.items():
            if name not in self.runs:
                self.runs[name] = self.bar.add_task(printable(name), total=run.num_epochs, details="")
            total = max(run.num_epochs, run.epoch)
            self.bar.update(self.runs[name], total=total, completed=run.epoch, details=run.accuracy)

    def note(self, text: str) -> None:
        """Print a warning above the bars."""
        self.print_once(f"note: {text}")

    def ended(self, overview: Overview, name: str, reason: str | None) -> None:
        """Print the reason for a failure above the bars."""
        if reason is not None:
            self.print_once(f"failed: {name}: {reason}")
        self.update(overview)


def _describe(name: str, run: TrainingProgress) -> str:
    total = max(run.num_epochs, run.epoch)
    return f"{name}: epoch {run.epoch}/{total}{f', {run.accuracy}' if run.accuracy else ''}"


@contextlib.contextmanager
def show_progress(write: Callable[[str], Any]) -> Iterator[Bars | Lines]:
    """Show bars on a terminal, or else lines; on stderr, so that stdout can be piped."""
    terminal = bar_terminal()
    if terminal is None:
        yield Lines(write)
    else:
        with Bars(terminal) as bars:
            yield bars
