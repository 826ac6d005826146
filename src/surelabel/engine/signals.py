"""Ctrl-C, SIGTERM and SIGHUP: training stops after its current step, with its state saved.

Evaluation and verdict change nothing that is saved, so they stop at once (`Stop.at_once`).

SIGHUP comes when the terminal is closed or the connection breaks. Where it is ignored, as under
nohup, it stays ignored.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

from surelabel.engine.loop import Interrupted


class Stop:
    """Tells whether a signal has asked to stop."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        """The signals that have come."""
        self.is_forced = False
        """Whether a second Ctrl-C has interrupted the work, even a save."""
        self._raises = False

    def __call__(self) -> bool:
        """Return whether a signal has come."""
        return bool(self.asked)

    def handle(self, number: int, _frame: Any) -> None:
        """Remember a signal; the first one raises Interrupted within `at_once`."""
        is_first = not self.asked
        self.asked.append(number)
        if not is_first and number == signal.SIGINT:
            self.is_forced = True
            raise KeyboardInterrupt
        if is_first and self._raises:
            raise Interrupted

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Raise Interrupted in the middle of this work, or before it if a signal came earlier.

        It may change nothing that is saved, must write files whole or not at all, and must not wait
        for other processes.
        """
        before, self._raises = self._raises, True
        try:
            self.check()
            yield
        except Exception as error:
            if self.asked:  # a library has made an error of its own of the interruption
                raise Interrupted from error
            raise
        finally:
            self._raises = before
        self.check()  # a library may even have dropped it

    def check(self) -> None:
        """Raise Interrupted if a signal has come."""
        if self.asked:
            raise Interrupted


@contextlib.contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Turn these signals into a flag to check after each step; a second Ctrl-C interrupts."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, stop.handle) for number in numbers}
    try:
        yield stop
    except Interrupted as error:
        error.args = tuple(stop.asked[:1])  # the signal, so that a caller can end the process with it
        raise
    except Exception as error:
        if stop.is_forced:  # a library has made an error of its own of the interruption
            raise KeyboardInterrupt from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
