"""Counting many runs, and showing them."""

import io

import pytest
from rich.console import Console

from surelabel.jobs.display import Bars, Lines, duration, summary
from surelabel.jobs.events import Advanced, Began, Ended, Noted
from surelabel.jobs.tally import Tally


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def names(trial):
    return {word: trial(method, epochs=10).name for word, method in (("ce", "cross_entropy"), ("car", "car"))}


@pytest.fixture
def tally(trial, clock):
    return Tally([trial(epochs=10), trial("car", epochs=10)], clock)


def advance(tally, clock, name, epoch, now):
    clock.now = now
    tally.hear(Advanced(name, epoch, "test accuracy 0.500"))


def test_time_left_is_by_kind_of_run(tally, clock, names):
    assert tally.seconds_left() is None
    assert summary(tally) == "0 done, 0 failed, 2 left, time left unknown"
    tally.hear(Began(names["ce"], 10, 0, 1))
    advance(tally, clock, names["ce"], 2, 4.0)
    assert tally.seconds_left() == 8 * 2 + 10 * 2, "none of the other kind yet: as this one"
    tally.hear(Began(names["car"], 10, 5, 2))
    advance(tally, clock, names["car"], 6, 10.0)
    assert tally.seconds_left() == max((8 * 2 + 4 * 6) / 2, 4 * 6), "two at a time, but not sooner than the longer one"
    tally.settle(names["ce"], is_done=True)
    tally.settle(names["car"], is_done=False)
    tally.hear(Began(names["car"], 10, 5, 2))
    assert not tally.running, "late words of a run that is over"
    assert summary(tally) == "1 done, 1 failed, 0 left"


def test_lines(tally, clock, names):
    said = []
    lines = Lines(said.append, every=0.0)
    lines.see(tally, None)
    assert said == []
    tally.hear(Began(names["ce"], 10, 0, 1))
    advance(tally, clock, names["ce"], 1, 2.0)
    lines.see(tally, None)
    assert said[0].startswith(f"{names['ce']}: epoch 1/10, test accuracy 0.500  [0 done, 0 failed, 2 left, about 38 s")
    for _ in range(2):
        lines.see(tally, Noted(names["ce"], "mind the gap"))
    tally.settle(names["ce"], is_done=False)
    lines.see(tally, Ended(names["ce"], "no memory"))
    assert said[1] == "note: mind the gap"
    assert said[2].startswith(f"{names['ce']}: failed: no memory  [0 done, 1 failed, 1 left")


def test_bars(tally, clock, names):
    page = io.StringIO()
    with Bars(Console(file=page, force_terminal=True, width=200, color_system=None)) as bars:
        tally.hear(Began(names["ce"], 10, 0, 1))
        advance(tally, clock, names["ce"], 3, 6.0)
        bars.see(tally, None)
        bars.bar.refresh()
        tally.settle(names["ce"], is_done=False)
        bars.see(tally, Ended(names["ce"], "no [memory]"))
    text = page.getvalue()
    assert f"{names['ce']}" in text
    assert "3/10" in text
    assert "test accuracy 0.500" in text
    assert "0 done, 0 failed, 2 left, about 34 s left" in text
    assert f"failed: {names['ce']}: no [memory]" in text


def test_durations():
    assert [duration(seconds) for seconds in (4.4, 61, 3 * 3600 + 120, 5 * 86400)] == [
        "4 s",
        "1 min 01 s",
        "3 h 02 min",
        "5.0 days",
    ]
