"""Processes that decode images, started afresh rather than forked.

A fork copies locks that threads of Arrow, OpenMP or the user's program may hold, and the copy then
waits for ever. `multiprocessing` without forks imports the main script again in every worker, which
breaks scripts and notebooks without `if __name__ == "__main__"`. So these are plain programs that
talk through pipes, each with a thread of this process that waits for it; they live as long as the
pool and are used by every pass over any images.
"""

import contextlib
import os
import pickle
import subprocess
import sys
import weakref
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from surelabel.data.images.worker import Job
from surelabel.errors import DataError

_PROGRAM = """\
import sys, types
sys.path[:] = {path!r}
sys.modules["surelabel.data"] = package = types.ModuleType("surelabel.data")
package.__path__ = {package!r}
from surelabel.data.images.worker import serve
serve()
"""
"""Imports what this process would, but not all that surelabel/data/__init__.py needs."""

_pools: "weakref.WeakValueDictionary[tuple[int, int], Pool]" = weakref.WeakValueDictionary()
"""Pools that are in use, by process and number of workers."""


def shared_pool(num_workers: int) -> "Pool":
    """Return the pool of this process with `num_workers` workers; it ends when no one holds it."""
    key = os.getpid(), num_workers  # a forked process must not use the workers of its parent
    pool = _pools.get(key)
    if pool is None or pool.is_broken:
        pool = _pools[key] = Pool(num_workers)
    return pool


class Pool:
    """Up to `num_workers` processes, which are started as they are needed."""

    is_broken = False
    """Whether a worker has died."""

    def __init__(self, num_workers: int) -> None:
        self._threads = ThreadPoolExecutor(num_workers, "surelabel-decode")
        self._workers: list[subprocess.Popen[bytes]] = []
        self._idle: list[subprocess.Popen[bytes]] = []
        weakref.finalize(self, _end, self._workers, os.getpid())

    def submit(self, job: Job) -> "Future[np.ndarray]":
        """Let a worker decode a job; the result is pixels (n, B, C, h, w) uint8."""
        return self._threads.submit(self._run, job)

    def _run(self, job: Job) -> np.ndarray:
        worker = self._take_idle() or self._start()
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            pickle.dump(job, worker.stdin, protocol=pickle.HIGHEST_PROTOCOL)
            worker.stdin.flush()
            answer = pickle.load(worker.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            self.is_broken = True
            worker.kill()
            raise DataError(
                f"a process that decodes images died (exit code {worker.wait()}), perhaps for lack of memory; "
                "try a smaller data.workers"
            ) from None
        self._idle.append(worker)
        if isinstance(answer, str):
            raise DataError(answer)
        pixels: np.ndarray = answer
        return pixels

    def _take_idle(self) -> "subprocess.Popen[bytes] | None":
        with contextlib.suppress(IndexError):  # other threads take them too
            while True:
                worker = self._idle.pop()
                if worker.poll() is None:
                    return worker
        return None

    def _start(self) -> "subprocess.Popen[bytes]":
        import surelabel.data

        program = _PROGRAM.format(path=sys.path, package=list(surelabel.data.__path__))
        worker = subprocess.Popen(
            [sys.executable, "-P", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C in a terminal is for the parent
        )
        self._workers.append(worker)
        return worker


def _end(workers: "list[subprocess.Popen[bytes]]", parent: int) -> None:
    if os.getpid() != parent:  # a forked process ends without the workers of its parent
        return
    for worker in workers:
        worker.kill()  # it only reads
    for worker in workers:
        worker.communicate()
