"""Curves of runs: only measured values are drawn, and the text states where the lines end."""

from surelabel.plotting.curves import accuracy_curves, accuracy_drawing, compared_drawing, loss_drawing, memorised_curve

ROWS = [
    {"epoch": 1, "loss": 3.0, "terms": {"fit": 2.0, "penalty": 1.0}, "tests": {"test": {"top1": 0.5}}},
    {"epoch": 2, "loss": 2.0, "terms": {"fit": 1.5, "penalty": 0.5}},
    {
        "epoch": 3,
        "loss": 1.25,
        "terms": {"fit": 1.0, "penalty": 0.25},
        "tests": {"test": {"top1": 0.75}},
        "false_labels": {"memorised": 0.1},
    },
]


def test_epochs_without_a_value_are_omitted():
    assert accuracy_curves(ROWS) == {"test": ([1, 3], [0.5, 0.75])}
    assert memorised_curve(ROWS) == ([3], [0.1])


def test_the_last_epoch_is_drawn_and_described():
    drawing = accuracy_drawing(ROWS)
    assert list(drawing.figure.axes[0].lines[0].get_ydata()) == [50, 75]
    assert drawing.text == "Accuracy over 3 epochs: test 50.0 % in epoch 1, 75.0 % in epoch 3."


def test_long_runs_end_with_their_last_epoch():
    rows = [{"epoch": epoch, "loss": 1.0, "terms": {"fit": 1 / epoch}} for epoch in range(1, 5001)]
    line = loss_drawing(rows).figure.axes[0].lines[0]
    assert list(line.get_xdata())[-1] == 5000
    assert len(line.get_xdata()) < 500


def test_loss_has_the_objective_and_its_terms():
    labels = [line.get_label() for line in loss_drawing(ROWS).figure.axes[0].lines]
    assert labels == ["objective", "term fit", "term penalty"]
    alone = [{"epoch": 1, "loss": 1.0, "terms": {"fit": 1.0}}]
    assert len(loss_drawing(alone).figure.axes[0].lines) == 1


def test_without_measurements_there_is_no_figure():
    assert accuracy_drawing([{"epoch": 1}]) is None
    assert loss_drawing([]) is None
    assert compared_drawing("x", "X", {"a": ([], []), "b": ([], [])}) is None
    assert len(compared_drawing("x", "X", {"a": ([], []), "b": ([1], [0.5])}).figure.axes[0].lines) == 1
