"""Run commands of surelabel in processes that may be killed, and say how they ended.

Most come from a fork server that has imported PyTorch and surelabel and done nothing else, so that
a command takes a second instead of four. `is_fresh` starts a new interpreter instead.
"""

import contextlib
import functools
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import victim

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
HANG_SECONDS = 60.0
"""A command hangs if it and all that it has started use hardly any CPU time for so long.

The wall clock alone would accuse every command of a busy machine.
"""
IDLE_SECONDS = 0.5
"""CPU time within HANG_SECONDS below which a command does nothing."""
LONGEST_SECONDS = 900.0
"""A command on tiny data that is busy for longer will never end."""
PRELOADED = ["surelabel.api", "surelabel.cli", "surelabel.engine.loop", "surelabel.exporting", "surelabel.reporting"]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    words: tuple[str, ...]
    code: int | None
    """Exit code, negative if killed by a signal; None if it hung."""
    stdout: str
    stderr: str

    @property
    def was_killed(self) -> bool:
        """Whether SIGKILL ended it."""
        return self.code == -signal.SIGKILL

    def fault(self) -> str | None:
        """Return what no command may do: hang, show a traceback, or die of another signal."""
        if self.code is None:
            return "hung"
        if "Traceback (most recent call last)" in self.stderr:
            return f"traceback: {self.stderr.strip().splitlines()[-1]}"
        if self.code < 0 and not self.was_killed:
            return f"ended by signal {-self.code}"
        if self.code == 2 and len([x for x in self.stderr.splitlines() if x.startswith("error: ")]) != 1:
            return f"exit code 2 without one line that says why: {self.stderr.strip()[-200:]!r}"
        return None

    def describe(self) -> str:
        """Return the command and its last words, on one line."""
        last = (self.stderr.strip() or self.stdout.strip()).splitlines()[-1:]
        return f"surelabel {' '.join(self.words)}: exit code {self.code}: {''.join(last)[:300]}"


def run(
    words: Sequence[object],
    folder: Path,
    *,
    fatal: int | str | None = None,
    kill_after: float | None = None,
    is_counted: bool = False,
    save_every: float | str | None = None,
    is_fresh: bool = False,
    environment: Mapping[str, str] | None = None,
    prepare: Callable[[], None] | None = None,
    name: str = "",
) -> Ended:
    """Run a command in `folder`; kill it at `fatal` (see victim.Hook), or after some seconds.

    `prepare` runs in a fresh process before its program, to set limits. Its output is kept beside
    `folder` meanwhile, under `name` if others run there too. A command that is too late is killed
    with its session.
    """
    texts = tuple(map(str, words))
    files = {stream: folder.parent / f"{folder.name}{name}.{stream}" for stream in ("stdout", "stderr")}
    order = {
        "folder": str(folder),
        "fatal": fatal,
        "is_counted": is_counted,
        "save_every": save_every,
        **{stream: str(path) for stream, path in files.items()},
        "environment": {**environment_of(folder), **(environment or {})},
    }
    start = _start_fresh if is_fresh or prepare is not None else _start_preloaded
    code = start(order, texts, prepare, kill_after)
    out, err = (path.read_text(errors="replace") if path.exists() else "" for path in files.values())
    for path in files.values():
        path.unlink(missing_ok=True)
    return Ended(texts, code, out, err)


def environment_of(folder: Path) -> dict[str, str]:
    """Return the environment of commands in `folder`: our source, one thread, a cache there."""
    ours = {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "SURELABEL_CACHE": str(folder / "cache")}
    return {**os.environ, **ours}


def num_changes(folder: Path) -> int:
    """Return how many changes the last command that was counted in `folder` has made."""
    file = folder / victim.COUNT_FILE
    count = int(file.read_text())
    file.unlink()
    return count


def _start_fresh(
    order: Mapping[str, Any], words: tuple[str, ...], prepare: Callable[[], None] | None, kill_after: float | None
) -> int | None:
    plain = order["fatal"] is None and not order["is_counted"] and order["save_every"] is None
    program = ["-m", "surelabel"] if plain else [str(HERE / "victim.py"), json.dumps(order)]
    with Path(order["stdout"]).open("wb") as out, Path(order["stderr"]).open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, *program, *words],
            cwd=order["folder"],
            env=order["environment"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=prepare,
        )
        is_late = not wait_for(process.poll, process.pid, kill_after)
        if is_late:
            _end_session(process.pid)
        code = process.wait()
        return None if is_late and kill_after is None else code


def _start_preloaded(
    order: Mapping[str, Any], words: tuple[str, ...], _prepare: Callable[[], None] | None, kill_after: float | None
) -> int | None:
    process = _start_server().Process(target=victim.run_detached, args=(dict(order), list(words)))
    process.start()
    is_late = not wait_for(lambda: process.exitcode, process.pid, kill_after)
    if is_late:
        _end_session(process.pid)
    process.join()
    return None if is_late and kill_after is None else process.exitcode


def wait_for(poll: Callable[[], int | None], leader: int | None, kill_after: float | None = None) -> bool:
    """Wait until a process has ended; return False if it hangs, or after `kill_after` seconds."""
    began = seen = time.monotonic()
    used = _cpu_seconds(leader)
    while poll() is None:
        time.sleep(0.02)
        now = time.monotonic()
        if now - began > (LONGEST_SECONDS if kill_after is None else kill_after):
            return False
        if now - seen > HANG_SECONDS:
            before, used, seen = used, _cpu_seconds(leader), now
            if used - before < IDLE_SECONDS:
                return False
    return True


def _cpu_seconds(leader: int | None) -> float:
    """Return the CPU time of the processes in a session, and of their children that have ended."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


@functools.cache
def _start_server() -> Any:
    """Start the fork server with our source and one thread; it keeps this environment."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    before = dict(os.environ)
    try:
        os.environ.update(environment_of(HERE))
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(before)
    return context


def _end_session(leader: int | None) -> None:
    """Kill the leader first, as `kill -9 PID` does, and what it has started after a moment."""
    assert leader is not None
    with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
        os.kill(leader, signal.SIGKILL)
    time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def copy(source: Path, target: Path) -> Path:
    """Copy a folder in place of another, links as links."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
    return target
