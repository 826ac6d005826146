"""One run, trained in the process that calls: the part that every backend shares."""

import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from surelabel.config import RunConfig
from surelabel.console import Silent, accuracy_text
from surelabel.errors import SurelabelError
from surelabel.jobs.events import Advanced, Began, Ended, Event, Noted
from surelabel.runs.run_dir import RunDir

QUIET = 0.1
"""Seconds between two events of a run: epochs of a tiny one are shorter than anybody can read."""


def attempt(name: str, config: RunConfig, path: Path, tell: Callable[[Event], Any]) -> Ended:
    """Train to the end and say how it ended: errors are a part of the answer."""
    try:
        _train(config, path, Telling(name, tell))
    except SurelabelError as error:
        return Ended(name, " ".join(str(error).split()))
    except KeyboardInterrupt:
        return Ended(name, "stopped by a signal", is_killed=True)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return Ended(name, reason, details=traceback.format_exc())
    return Ended(name)


def _train(config: RunConfig, path: Path, progress: "Telling") -> None:
    from surelabel import api

    run = RunDir(path)
    if not run.has_begun:
        api.fit(config, path, progress=progress)
        return
    if run.config() != config:
        with run.locked():  # the data may lie elsewhere now; the run itself checks that they are the same
            run.write_json("config.json", config.model_dump(mode="json"))
    api.resume(run, progress=progress, trust=True)  # its method is the trial's own


class Telling(Silent):
    """Passes on how training goes."""

    def __init__(self, name: str, tell: Callable[[Event], Any]) -> None:
        self.name, self.tell, self.told = name, tell, 0.0

    def begin(self, num_epochs: int, done: int) -> None:
        """Training starts, or goes on."""
        self.tell(Began(self.name, num_epochs, done, os.getpid()))

    def epoch(self, row: dict[str, Any]) -> None:
        """An epoch has ended."""
        now = time.monotonic()
        if now - self.told >= QUIET:
            self.told = now
            self.tell(Advanced(self.name, row["epoch"], accuracy_text(row)))

    def warn(self, text: str) -> None:
        """Something the user should know."""
        self.tell(Noted(self.name, text))
