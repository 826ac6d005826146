"""Trials that take a second or two."""

import os
import signal
import threading

import pytest

from surelabel.config import validate
from surelabel.jobs.events import Advanced, Began, Ended
from surelabel.jobs.trial import Trial


@pytest.fixture
def trial():
    """`trial("car", epochs=2)`: a tiny run on digits."""

    def make(method="cross_entropy", seed=0, epochs=2, **data):
        content = {
            "data": {"source": "digits", **data},
            "noise": {"kind": "symmetric", "rate": 0.4},
            "method": {"name": method},
            "model": {"name": "mlp", "options": {"widths": [8]}},
            "train": {"epochs": epochs, "seed": seed, "threads": 1, "device": "cpu"},
        }
        return Trial({"method": method}, validate(content))

    return make


class Killer:
    """Kills the process of a run at its first epoch; up to `times` times."""

    def __init__(self, name, times=1):
        self.name, self.times, self.pids, self.events = name, times, {}, []

    def see(self, tally, event):
        self.events.append(event)
        if isinstance(event, Began):
            self.pids[event.name] = event.pid
        if isinstance(event, Advanced) and event.name == self.name and self.times:
            self.times -= 1
            os.kill(self.pids[self.name], signal.SIGKILL)

    def ends(self):
        return [event.name for event in self.events if isinstance(event, Ended)]


@pytest.fixture
def killer():
    return Killer


class CtrlC:
    """Sends this process what a terminal sends, at the first epoch of any run."""

    def __init__(self):
        self.sent = False

    def see(self, tally, event):
        if isinstance(event, Advanced) and not self.sent:
            self.sent = True
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


@pytest.fixture
def ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup has it ignored
    yield CtrlC()
    signal.signal(signal.SIGINT, before)
