"""How many runs are shown at once: bars on a terminal, plain lines elsewhere."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from surelabel.console import BarDisplay, bar_terminal
from surelabel.jobs.events import Ended, Event, Noted
from surelabel.jobs.tally import Running, Tally

EVERY = 60.0
"""Seconds between two lines when nothing ends."""


def summary(tally: Tally) -> str:
    """How far all runs are together."""
    left = tally.seconds_left()
    parts = [f"{len(tally.done)} done", f"{len(tally.failed)} failed", f"{tally.left} left"]
    if tally.left:
        parts.append("time left unknown" if left is None else f"about {duration(left)} left")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """A time as people say it."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole / 86400:.1f} days"


class Lines:
    """A line whenever a trial ends, or every minute."""

    def __init__(self, write: Callable[[str], Any], every: float = EVERY) -> None:
        self.write, self.every, self.shown = write, every, time.monotonic()
        self.said: set[str] = set()

    def see(self, tally: Tally, event: Event | None) -> None:
        """A line, if there is reason for one."""
        if isinstance(event, Noted) and _is_new(event, self.said):
            self.write(f"note: {event.text}")
        elif isinstance(event, Ended):
            self._line(tally, f"{event.name}: {'done' if event.reason is None else f'failed: {event.reason}'}")
        elif event is None and tally.running and time.monotonic() - self.shown >= self.every:
            self._line(tally, "; ".join(map(_running, tally.running.values())))

    def _line(self, tally: Tally, text: str) -> None:
        self.shown = time.monotonic()
        self.write(f"{text}  [{summary(tally)}]")


class Bars(BarDisplay):
    """A bar over all runs, and one for each that trains."""

    def __init__(self, terminal: Any) -> None:
        super().__init__(terminal, "{task.fields[more]}", bar_width=20)
        self.all: Any = None
        self.runs: dict[str, Any] = {}

    def see(self, tally: Tally, event: Event | None) -> None:
        """Bring the bars up to date."""
        if isinstance(event, Noted):
            self.print_once(f"note: {event.text}")
        elif isinstance(event, Ended) and event.reason is not None:
            self.print_once(f"failed: {event.name}: {event.reason}")
        if self.all is None:
            self.all = self.bar.add_task("all runs", total=tally.total, more="")
        self.bar.update(self.all, completed=len(tally.done) + len(tally.failed), more=summary(tally))
        for name in set(self.runs) - set(tally.running):
            self.bar.remove_task(self.runs.pop(name))
        for name, run in tally.running.items():
            if name not in self.runs:
                self.runs[name] = self.bar.add_task(name, total=run.num_epochs, more="")
            self.bar.update(self.runs[name], total=run.num_epochs, completed=run.epoch, more=run.result)


def _is_new(event: Noted, said: set[str]) -> bool:
    """Whether a note was not shown before: runs that differ in the seed have the same to say."""
    is_new = event.text not in said
    said.add(event.text)
    return is_new


def _running(run: Running) -> str:
    return f"{run.name}: epoch {run.epoch}/{run.num_epochs}{f', {run.result}' if run.result else ''}"


@contextlib.contextmanager
def display(write: Callable[[str], Any]) -> Iterator[Bars | Lines]:
    """Bars on a terminal, else lines; both where stderr goes, so that stdout can be piped."""
    terminal = bar_terminal()
    if terminal is not None:
        with Bars(terminal) as bars:
            yield bars
    else:
        yield Lines(write)
