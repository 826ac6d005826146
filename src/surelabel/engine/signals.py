"""Ctrl-C, SIGTERM and SIGHUP: training stops after its current step, with its state saved.

SIGHUP comes when the terminal is closed or the connection breaks. Where it is ignored, as under
nohup, it stays ignored.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

from surelabel.engine.loop import Interrupted


@contextlib.contextmanager
def stop_on_signals() -> Iterator[Callable[[], bool]]:
    """Turn these signals into a flag to check after each step; a second Ctrl-C interrupts."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def ask(number: int, _frame: Any) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield lambda: bool(asked)
    except Interrupted as error:
        error.args = tuple(asked[:1])  # the signal, so that a caller can end the process with it
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
