"""Trials that take a second or two, and progress displays that interfere with them."""

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from surelabel.config import validate
from surelabel.jobs import ProgressDisplay, Trial


@pytest.fixture(scope="session")
def digits_file(tmp_path_factory):
    """The digits as a file, so that training processes need not import scikit-learn."""
    digits, path = load_digits(), tmp_path_factory.mktemp("data") / "digits.npz"
    x, y = digits.data.astype(np.float32), digits.target
    np.savez(path, x=x[:1438], y=y[:1438], x_test=x[1438:], y_test=y[1438:])
    return path


@pytest.fixture
def trial(digits_file):
    """`trial("car", epochs=2)`: a tiny run on digits."""

    def make(method="cross_entropy", seed=0, epochs=2, **data):
        content = {
            "data": {"source": str(digits_file), **data},
            "noise": {"kind": "symmetric", "rate": 0.4},
            "method": {"name": method},
            "model": {"name": "mlp", "options": {"widths": [8]}},
            "train": {"epochs": epochs, "seed": seed, "threads": 1, "device": "cpu"},
        }
        return Trial({"method": method}, validate(content))

    return make


class Starts(ProgressDisplay):
    """Collects the first progress of every training process."""

    def __init__(self):
        self.starts, self.num_updates, self.ends = [], 0, []

    def update(self, overview):
        self.num_updates += 1
        for name, progress in overview.running.items():
            if progress.pid not in [start.pid for _, start in self.starts]:
                self.starts.append((name, progress))

    def ended(self, _overview, name, _reason):
        self.ends.append(name)

    def of(self, name):
        return [start for started, start in self.starts if started == name]


class Killer(Starts):
    """Kills the process of a run, or its parent, after an epoch; up to `times` times."""

    def __init__(self, name, times=1, kills_parent=False):
        super().__init__()
        self.name, self.times, self.kills_parent, self.killed = name, times, kills_parent, set()

    def update(self, overview):
        super().update(overview)
        progress = overview.running.get(self.name)
        if progress is None or progress.epoch == progress.first_epoch or progress.pid in self.killed or not self.times:
            return
        self.times -= 1
        self.killed.add(progress.pid)
        os.kill(parent_of(progress.pid) if self.kills_parent else progress.pid, signal.SIGKILL)


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


@pytest.fixture
def starts():
    return Starts()


@pytest.fixture
def killer():
    return Killer


class CtrlC(ProgressDisplay):
    """Sends this process what a terminal sends, after the first epoch of any run."""

    def __init__(self):
        self.sent = False

    def update(self, overview):
        if not self.sent and any(run.epoch > run.first_epoch for run in overview.running.values()):
            self.sent = True
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


@pytest.fixture
def ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup ignores it
    yield CtrlC()
    signal.signal(signal.SIGINT, before)
