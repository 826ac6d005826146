"""The program of a training process: `python -m surelabel.jobs.worker CONFIG RUN START`.

It trains the configuration in the file CONFIG into the directory RUN, or resumes the run there, and
writes the file START when the first epoch starts. Its output is a log: warnings as lines that begin
with "note:", and as the last line the reason for a failure. When its input is closed, which also
happens if the process that started it dies, it saves its state and exits.
"""

import json
import os
import signal
import sys
import threading
import traceback
from pathlib import Path

from surelabel import files
from surelabel.config import RunConfig, validate
from surelabel.console import Silent
from surelabel.errors import SurelabelError
from surelabel.jobs.training_process import FAILED, NOTE, STOPPED, TrainingProgress
from surelabel.runs.run_dir import RunDir


def main() -> int:
    """Train as the arguments say, and return the exit code."""
    config_file, path, start_file = map(Path, sys.argv[1:])
    threading.Thread(target=_stop_when_input_closes, daemon=True).start()
    try:
        config = validate(json.loads(config_file.read_text(encoding="utf-8")))
        train(config, path, _ProgressFiles(start_file))
    except KeyboardInterrupt:
        return STOPPED
    except SurelabelError as error:
        _write_line(str(error))
        return FAILED
    except Exception as error:
        traceback.print_exc()
        _write_line(f"{type(error).__name__}: {error}")  # messages of several lines on one
        return FAILED
    return 0


def train(config: RunConfig, path: Path, progress: Silent | None = None) -> None:
    """Train into `path`, or resume the run there, whose data may have moved since."""
    from surelabel import api

    run = RunDir(path)
    if not run.has_begun:
        api.fit(config, path, progress=progress)
        return
    if run.config() != config:
        with run.locked():  # resuming checks that the data are the same
            run.write_json("config.json", config.model_dump(mode="json"))
    api.resume(run, progress=progress, trust=True)  # the configuration is ours, and so is its method


class _ProgressFiles(Silent):
    """Writes the start of training to a file, and warnings to the log."""

    def __init__(self, start_file: Path) -> None:
        self.start_file = start_file

    def begin(self, num_epochs: int, done: int) -> None:
        """Write that training starts."""
        start = TrainingProgress(os.getpid(), num_epochs, first_epoch=done, epoch=done)
        files.replace_text(self.start_file, json.dumps(vars(start)), files.unlisted)

    def warn(self, text: str) -> None:
        """Write a line to the log."""
        _write_line(NOTE + text)


def _stop_when_input_closes() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)  # training then saves its state


def _write_line(text: str) -> None:
    sys.stderr.write(" ".join(text.split()) + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
