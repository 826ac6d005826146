"""Count many runs, estimate the time left, and show them."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from surelabel.jobs.progress import Bars, Lines, Overview, format_duration
from surelabel.jobs.training_process import Report, TrainingProgress


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
def overview(trial, clock):
    return Overview([trial(epochs=10), trial("car", epochs=10)], clock)


def begin(overview, name, first_epoch, pid):
    overview.read(Report(name, TrainingProgress(pid, 10, first_epoch, first_epoch)))


def advance(overview, clock, name, epoch, now):
    clock.now = now
    progress = replace(overview.running[name], epoch=epoch, accuracy="test accuracy 0.500")
    overview.read(Report(name, progress))


def test_time_left_is_by_kind_of_run(overview, clock, names):
    assert overview.seconds_left() is None
    assert overview.summary() == "0 done, 0 failed, 2 left, time left unknown"
    begin(overview, names["ce"], 0, pid=1)
    advance(overview, clock, names["ce"], 2, 4.0)
    assert overview.seconds_left() == 8 * 2 + 10 * 2, "the other kind is assumed to take as long"
    begin(overview, names["car"], 5, pid=2)
    advance(overview, clock, names["car"], 6, 10.0)
    assert overview.seconds_left() == max((8 * 2 + 4 * 6) / 2, 4 * 6), "two at a time, at least as long as the longer"
    overview.end(names["ce"], is_done=True)
    overview.end(names["car"], is_done=False)
    begin(overview, names["car"], 5, pid=2)
    assert not overview.running, "a late report of a run that has ended is ignored"
    assert overview.summary() == "1 done, 1 failed, 0 left"


def test_lines(overview, clock, names):
    lines_written = []
    lines = Lines(lines_written.append, every=0.0)
    lines.update(overview)
    assert lines_written == []
    begin(overview, names["ce"], 0, pid=1)
    advance(overview, clock, names["ce"], 1, 2.0)
    lines.update(overview)
    assert lines_written[0].startswith(
        f"{names['ce']}: epoch 1/10, test accuracy 0.500  [0 done, 0 failed, 2 left, about 38 s"
    )
    for _ in range(2):
        lines.note("mind the gap")
    overview.end(names["ce"], is_done=False)
    lines.ended(overview, names["ce"], "no memory")
    assert lines_written[1] == "note: mind the gap"
    assert lines_written[2].startswith(f"{names['ce']}: failed: no memory  [0 done, 1 failed, 1 left")


def test_bars(overview, clock, names):
    page = io.StringIO()
    with Bars(Console(file=page, force_terminal=True, width=200, color_system=None)) as bars:
        begin(overview, names["ce"], 0, pid=1)
        advance(overview, clock, names["ce"], 3, 6.0)
        bars.update(overview)
        bars.bar.refresh()
        overview.end(names["ce"], is_done=False)
        bars.ended(overview, names["ce"], "no [memory]")
    text = page.getvalue()
    assert f"{names['ce']}" in text
    assert "3/10" in text
    assert "test accuracy 0.500" in text
    assert "0 done, 0 failed, 2 left, about 34 s left" in text
    assert f"failed: {names['ce']}: no [memory]" in text


def test_durations():
    assert [format_duration(seconds) for seconds in (4.4, 61, 3 * 3600 + 120, 5 * 86400)] == [
        "4 s",
        "1 min 01 s",
        "3 h 02 min",
        "5.0 days",
    ]
