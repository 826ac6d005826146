"""Signals that stop training: each sets the flag, and handlers come back afterwards."""

import os
import signal

import pytest

from surelabel.engine.loop import Interrupted
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


@pytest.mark.parametrize("library", [None, RuntimeError("unexpected pos 64 vs 0")])
def test_a_second_ctrl_c_interrupts_even_a_library_that_saves(library):
    def save():
        os.kill(os.getpid(), signal.SIGINT)
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt as error:
            raise (library or error) from None

    with pytest.raises(KeyboardInterrupt) as raised, stop_on_signals():
        save()
    assert not isinstance(raised.value, Interrupted)


def kill_and_go_on(number):
    os.kill(os.getpid(), number)
    pytest.fail("it went on")


class TestAtOnce:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_a_signal_raises_and_is_named(self, number):
        with pytest.raises(Interrupted) as raised, stop_on_signals() as stop, stop.at_once():
            kill_and_go_on(number)
        assert raised.value.args == (number,)

    def test_one_that_came_before_raises_too(self):
        with stop_on_signals() as stop:
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(Interrupted), stop.at_once():
                pytest.fail("it began")

    def test_one_that_comes_afterwards_only_asks(self):
        with stop_on_signals() as stop:
            with stop.at_once():
                pass
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop()

    @pytest.mark.parametrize("replacement", [None, RuntimeError("the library failed")])
    def test_a_library_cannot_swallow_it(self, replacement):
        def work():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            except BaseException:
                if replacement is not None:
                    raise replacement from None

        with pytest.raises(Interrupted), stop_on_signals() as stop, stop.at_once():
            work()

    def test_other_errors_stay_as_they_are(self):
        with pytest.raises(RuntimeError, match="of its own"), stop_on_signals() as stop, stop.at_once():
            raise RuntimeError("of its own")
