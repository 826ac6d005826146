"""The memorisation figure draws the fractions of the metrics in the right panels."""

import pytest

from surelabel.errors import RunError
from surelabel.plotting.memorisation import CORRECT, MEMORISED, OTHER, _spread, memorisation_figure


def row(epoch, memorised, accuracy=None):
    tests = {} if accuracy is None else {"tests": {"test": {"top1": accuracy}}}
    return {
        "epoch": epoch,
        "clean_labels": {"correct": 0.9, "wrong": 0.1},
        "false_labels": {"correct": 0.8 - memorised, "memorised": memorised, "other": 0.2},
        **tests,
    }


RUNS = {"Cross entropy": [row(1, 0.1), row(2, 0.7, 0.65)], "CAR": [row(1, 0.1, 0.9), row(2, 0.05, 0.97)]}


def test_a_column_per_run_and_clean_above_false():
    figure = memorisation_figure(RUNS)
    axes = figure.axes
    assert len(axes) == 4
    assert [one.get_title().splitlines()[0] for one in axes[:2]] == ["Cross entropy", "CAR"]
    assert axes[0].get_title().endswith("test accuracy in the last epoch: 65.0 %")
    assert "clean" in axes[0].get_ylabel()
    assert "false" in axes[2].get_ylabel()


def test_lines_are_percentages_and_in_the_papers_colours():
    lines = {line.get_label(): line for line in memorisation_figure(RUNS).axes[2].lines}
    assert list(lines[MEMORISED.text].get_xdata()) == [1, 2]
    assert list(lines[MEMORISED.text].get_ydata()) == pytest.approx([10, 70])
    assert list(lines[CORRECT.text].get_ydata()) == pytest.approx([70, 10])
    assert [lines[line.text].get_color() for line in (CORRECT, MEMORISED, OTHER)] == ["#7b2d8e", "#1f6fd6", "#000000"]


def test_all_panels_share_one_scale():
    axes = memorisation_figure(RUNS).axes
    assert len({one.get_ylim() for one in axes}) == 1
    low, high = axes[0].get_ylim()
    assert low <= 0
    assert high >= 100


def test_the_figure_is_written_without_a_display(tmp_path):
    memorisation_figure(RUNS).savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_a_single_epoch_and_epochs_without_measurements():
    memorisation_figure({"one": [row(1, 0.1)]})
    figure = memorisation_figure({"gaps": [{"epoch": 1}, row(2, 0.1)]})
    assert list(figure.axes[0].lines[0].get_xdata()) == [2]


def test_only_clean_labels():
    rows = [{"epoch": 1, "clean_labels": {"correct": 1.0, "wrong": 0.0}}]
    assert len(memorisation_figure({"clean": rows}).axes) == 2


def test_unknown_truth_is_an_error():
    with pytest.raises(RunError, match="mine: no memorisation to draw"):
        memorisation_figure({"mine": [{"epoch": 1, "loss": 0.5}]})


def test_numbers_at_the_ends_keep_apart():
    heights = _spread({CORRECT: 0.0, OTHER: 0.0, MEMORISED: 100.0})
    assert sorted(heights.values()) == [0, 8, 100]
    top = sorted(_spread({CORRECT: 99.0, OTHER: 99.5, MEMORISED: 100.0}).values())
    assert top == [84, 92, 100]
