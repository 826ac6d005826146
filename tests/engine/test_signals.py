"""Signals that stop training: each sets the flag, and handlers come back afterwards."""

import os
import signal

import pytest

from surelabel.engine.signals import stop_on_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_asks_to_stop(number):
    before = signal.getsignal(number)
    with stop_on_signals() as is_asked:
        assert not is_asked()
        os.kill(os.getpid(), number)
        assert is_asked()
    assert signal.getsignal(number) is before


def test_a_hangup_that_is_ignored_stays_ignored():
    """So it is under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals() as is_asked:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not is_asked()
    finally:
        signal.signal(signal.SIGHUP, before)
