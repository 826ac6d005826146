"""Progress of training: a bar on a terminal, lines elsewhere."""

import io

from rich.console import Console

from surelabel.console import ProgressBar, ProgressLines

ROW = {"epoch": 3, "loss": 0.5, "samples_per_second": 1234.0, "tests": {"test": {"top1": 0.75}}}


def shown_by_bars(*rows: dict) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    with ProgressBar(console, "car") as bars:
        bars.begin(num_epochs=4, done=0)
        bars.step(epoch=1, batch=5, num_batches=10, loss=1.25)
        for row in rows:
            bars.epoch(row)
        bars.warn("look here [red]")
        bars.bar.refresh()
    return console.file.getvalue()


def test_bars_show_epoch_loss_accuracy_speed_and_time_left():
    text = shown_by_bars(ROW)
    for part in ("car", "3/4", "loss 0.500", "0.750", "1,234", "look here [red]"):
        assert part in text
    assert "0:0" in text, "time left"


def test_bars_move_within_an_epoch():
    assert "loss 1.250" in shown_by_bars()


def test_plain_lines_say_the_same_and_always_the_last_epoch():
    lines: list[str] = []
    plain = ProgressLines(lines.append, every=1000.0)
    plain.begin(num_epochs=4, done=0)
    plain.epoch(ROW)
    assert lines == []
    plain.epoch({**ROW, "epoch": 4})
    (line,) = lines
    for part in ("4/4", "0.5000", "0.750", "1,234 samples/s", "0 s left"):
        assert part in line
    plain.warn("look here")
    assert lines[-1] == "note: look here"


def test_without_a_test_set_the_accuracy_is_named_for_what_it_is():
    lines: list[str] = []
    plain = ProgressLines(lines.append, every=0.0)
    plain.begin(num_epochs=4, done=0)
    plain.epoch({"epoch": 1, "loss": 0.5, "samples_per_second": 9.0, "given_accuracy": 0.625})
    assert "given labels predicted 0.625" in lines[0]
