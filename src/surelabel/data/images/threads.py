"""A function of many items, by threads, with a word on how far it is where that takes long."""

import logging
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Result = TypeVar("_Result")

SPEAK_AFTER = 5.0
"""Seconds of silence after which progress is logged."""
_ITEMS_PER_TASK = 64
_MOST_THREADS = 8

_log = logging.getLogger("surelabel")


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each(function: Callable[[int], _Result], count: int, doing: str, in_threads: bool = True) -> Iterator[_Result]:
    """`function` of 0, 1, ... `count` - 1, in order; `doing` is what progress calls it, as in "decoding 10 images"."""

    def task(start: int) -> list[_Result]:
        return [function(position) for position in range(start, min(start + _ITEMS_PER_TASK, count))]

    spoken, num_done, starts = time.monotonic(), 0, range(0, count, _ITEMS_PER_TASK)
    with ThreadPoolExecutor(min(_MOST_THREADS, num_cores())) as pool:
        for results in pool.map(task, starts) if in_threads else map(task, starts):
            yield from results
            num_done += len(results)
            if time.monotonic() - spoken >= SPEAK_AFTER:
                spoken = time.monotonic()
                _log.info("%s: %d %%", doing, 100 * num_done // count)
