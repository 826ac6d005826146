"""A process that runs a command of surelabel and kills itself at a chosen change of the disk.

    python victim.py '{"fatal": 12, "folder": "/scene", "save_every": 0}' fit data.npz --out run

Changes are counted through Python's audit events, just before they happen: opening a file for
writing, renaming, removing, making a folder. So a moment can be repeated exactly, whatever the
speed of the machine. Bytes that libraries write themselves are between two such moments.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink")
COUNT_FILE = "changes.count"
"""In the folder: how many changes a process that was not killed has made."""
SECOND_EPOCH = "second epoch"
"""A value of `save_every`: the state is saved after every second epoch."""


class Hook:
    """Counts changes below a folder, and kills the process before number `fatal`.

    `fatal` may also be a file: the process is killed before the first change after it exists.
    """

    def __init__(self, folder: str, fatal: int | str | None) -> None:
        self.folder, self.fatal, self.count = str(Path(folder).absolute()), fatal, 0

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return
        elif event in CHANGES:
            path = arguments[0]
        else:
            return
        if isinstance(path, int) or not str(Path(os.fsdecode(path)).absolute()).startswith(self.folder):
            return
        self.count += 1
        if self.count == self.fatal or (isinstance(self.fatal, str) and Path(self.folder, self.fatal).exists()):
            os.kill(os.getpid(), signal.SIGKILL)


class EverySecondTime(float):
    """Seconds between saves that have passed at every second look, whatever the clock says."""

    looks = 0

    def __le__(self, _seconds: float) -> bool:
        self.looks += 1
        return self.looks % 2 == 0


def run_command(order: dict[str, Any], words: list[str]) -> None:
    """Run a command in this process as `python -m surelabel` does, under the order given."""
    import surelabel.cli
    from surelabel.engine import loop

    save_every = order.get("save_every")
    if save_every is not None:  # 20 s else, longer than a tiny run takes
        loop.SAVE_EVERY = EverySecondTime() if save_every == SECOND_EPOCH else save_every
    if words[0] == "reproduce":
        _add_toy_table()
    if words[0] == "review":
        _serve_nothing()
    hook = Hook(order["folder"], order.get("fatal"))
    sys.addaudithook(hook)
    sys.argv = ["surelabel", *words]
    try:
        surelabel.cli.main()
    finally:
        count, hook.fatal = hook.count, None
        if order.get("is_counted"):
            Path(order["folder"], COUNT_FILE).write_text(str(count))


def _add_toy_table() -> None:
    """Add the table `toy`: three runs on data.npz."""
    import scenes

    from surelabel.config import validate
    from surelabel.paper.tables import PRESETS, Preset, Trial

    names = ("cross_entropy", "car", "elr")
    trials = [Trial({"method": name}, validate(scenes.settings(name))) for name in names]
    PRESETS["toy"] = Preset("toy", "A toy", lambda _: trials, rows=("method",))


def _serve_nothing() -> None:
    """Let `review` open the run and its journal, and end before it serves the page."""
    from surelabel.reviewing import server

    def open_only(run_dir: Any, corpus: Any, *_arguments: Any, **_options: Any) -> Any:
        journal = server.make_review(run_dir, corpus).journal
        journal.book()
        return journal

    server.serve = open_only


def run_detached(order: dict[str, Any], words: list[str]) -> None:
    """Run a command in a process of a fork server, as if it had been started afresh."""
    os.setsid()
    os.chdir(order["folder"])
    os.environ.update(order["environment"])
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    run_command(order, words)


if __name__ == "__main__":
    run_command(json.loads(sys.argv[1]), sys.argv[2:])
