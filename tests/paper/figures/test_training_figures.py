"""Values of the paper's figures of single runs, checked by hand; and panels without a run."""

import numpy as np
import pytest

from surelabel.paper.figures.confidence_density import (
    density_figure,
    density_text,
    group_confidence,
    span_of,
)
from surelabel.paper.figures.corrections import corrections_figure, corrections_text, find_corrections
from surelabel.paper.figures.gradient_share import gradient_figure, gradient_shares, gradient_text
from surelabel.paper.figures.label_pairs import (
    confidence_figure,
    confidence_table,
    confidence_text,
    correction_figure,
    correction_table,
    correction_text,
    span_of_means,
)
from surelabel.paper.figures.training_samples import TrainingSamples
from surelabel.plotting.density import estimate_density
from surelabel.plotting.drawing import NOT_RUN, plain_text
from surelabel.plotting.heat_maps import row_fractions
from surelabel.plotting.memorisation import memorisation_figure

NAMES = ("cat", "dog", "bird")


def rows_of(given, clean, tau, corrected, weight=None) -> TrainingSamples:
    given, clean, corrected = map(np.array, (given, clean, corrected))
    weight = np.full(len(given), 0.8) if weight is None else np.array(weight)
    target = np.eye(3)[corrected] * weight[:, None] + (1 - weight[:, None]) / 3
    ids = np.array([f"row {number}" for number in range(len(given))])
    return TrainingSamples(ids, given, clean, np.array(tau), target, corrected, target.max(1), NAMES)


ROWS = rows_of([0, 1, 1, 2, 0, 2], [0, 0, 1, 2, 2, 2], [0.9, 0.2, 0.8, 1.0, 0.4, np.nan], [0, 0, 1, 2, 0, 1])
METRICS = [{"epoch": 1, "gradient_share": {"clean": 0.75, "false": 0.25}}, {"epoch": 2}]
METRICS += [{"epoch": 3, "gradient_share": {"clean": 0.4, "false": 0.6}}]
SHARES = {"clean_labels": {"correct": 1.0, "wrong": 0.0}}


def words_in(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_gradient_shares_in_percent_where_they_were_measured():
    assert gradient_shares(METRICS) == {"clean": ([1, 3], [75, 40]), "false": ([1, 3], [25, 60])}
    figure = gradient_figure({"a": METRICS, "b": None})
    assert [list(line.get_ydata()) for line in figure.axes[0].lines] == [[75, 40], [25, 60]]
    assert words_in(figure.axes[0]) == ["not measured in 1 of 3 epochs"]
    assert words_in(figure.axes[1]) == [NOT_RUN]
    text = gradient_text({"a": METRICS, "b": None})
    assert "25.0 % in epoch 1, 60.0 % in epoch 3" in text
    assert "not measured in 1 of 3 epochs" in text
    assert "not measured" not in gradient_text({"a": METRICS[::2]})
    assert text.endswith("Not run: b.")


def test_tau_of_clean_and_false_labels():
    groups = group_confidence(ROWS)
    assert groups["clean labels"].tolist() == [0.9, 0.8, 1.0]
    assert groups["false labels"].tolist() == [0.2, 0.4]
    density = estimate_density(np.array([0.1, 0.2, 0.9, 1.0]), num_bins=4)
    assert density.heights.tolist() == [2, 0, 0, 2]
    assert density.mean == pytest.approx(0.55)


def test_a_narrow_tau_is_drawn_closer_and_the_text_says_so():
    wide, narrow = group_confidence(ROWS), {"clean labels": np.linspace(0.9905, 0.9995, 100)}
    assert span_of({"a": wide, "b": None}) == (0, 1)
    assert span_of({"a": narrow}) == pytest.approx((0.990, 1.0))
    assert "from 0.99 to 1" in density_text({"a": narrow})
    narrowest = {"clean labels": np.full(9, 0.99981), "false labels": np.full(9, 0.99955)}
    assert "mean: clean 0.9998, false 0.9996" in density_figure({"a": narrowest}).axes[0].get_title()
    assert "9 false labels have a mean tau of 0.9996" in density_text({"a": narrowest})
    figure = density_figure({"a": narrowest})
    figure.draw_without_rendering()
    assert figure.axes[0].xaxis.get_offset_text().get_text() == "", (
        "whole numbers along the axis, nothing to add to them"
    )
    assert span_of({"a": {"clean labels": np.ones(9)}}) == pytest.approx((0.999, 1.0))  # all values are equal
    assert span_of({"a": {"clean labels": np.zeros(9)}}) == pytest.approx((0.0, 0.001))
    assert estimate_density(np.array([0.1, 0.995]), 2, (0.99, 1.0)).heights.tolist() == pytest.approx([100, 100])


def test_density_panels_without_a_run_are_empty_and_named():
    figure = density_figure({r"$\beta$ = 0": group_confidence(ROWS), r"$\beta$ = 0.3": None})
    assert words_in(figure.axes[1]) == [NOT_RUN]
    assert figure.axes[1].get_title() == r"$\beta$ = 0.3"
    text = density_text({r"$\beta$ = 0": group_confidence(ROWS), r"$\beta$ = 0.3": None})
    assert "3 clean labels have a mean tau of 0.900" in text
    assert text.endswith("Not run: beta = 0.3.")


def test_confidence_by_clean_row_and_given_column():
    table = confidence_table(ROWS)
    expected = [[0.9, 0.2, np.nan], [np.nan, 0.8, np.nan], [0.4, np.nan, 1.0]]
    np.testing.assert_allclose(table.cells, expected)
    assert "0.900 for clean labels (the diagonal) and 0.300 for false ones" in confidence_text({"x": table})
    assert span_of_means({"x": table}) == (0, 1)
    close = confidence_table(rows_of([0, 1], [0, 0], [0.95, 0.9], [0, 0]))
    assert span_of_means({"x": close, "y": None}) == pytest.approx((0.9, 0.95))
    cells = [text for text in words_in(confidence_figure({"x": close}).axes[0]) if text]
    assert cells == [".950", ".900"]
    closer = confidence_table(rows_of([0, 1], [0, 0], [0.9998, 0.9991], [0, 0]))
    cells = [text for text in words_in(confidence_figure({"x": closer}).axes[0]) if text]
    assert cells == [".9998", ".9991"]  # with fewer digits both would be 1


def test_corrected_against_clean_labels():
    table = correction_table(ROWS)
    assert table.cells.tolist() == [[2, 0, 0], [0, 1, 0], [1, 1, 1]]
    assert row_fractions(table.cells)[2].tolist() == pytest.approx([1 / 3] * 3)
    text = correction_text({"x": table, "y": None})
    assert text.startswith("x: 66.67 % of 6 corrected labels are the clean ones; most often wrong: bird as cat 1 times")
    figure = correction_figure({"x": table, "y": None})
    assert words_in(figure.axes[0])[0] == "100.0"
    assert words_in(figure.axes[1]) == [NOT_RUN]


def test_a_hundred_classes_have_few_ticks_and_no_numbers():
    rows = rows_of([0, 1], [0, 0], [0.9, 0.1], [0, 0])
    many = TrainingSamples(**{**vars(rows), "class_names": tuple(map(str, range(100)))})
    axes = confidence_figure({"x": confidence_table(many)}).axes[0]
    assert not axes.texts
    assert len(axes.get_xticks()) == 10
    assert "class number" in axes.get_xlabel()


def test_the_surest_corrections_first_and_few_of_a_pair():
    given, corrected = [0, 0, 0, 0, 1, 2], [1, 1, 1, 1, 2, 2]
    rows = rows_of(given, corrected, [1.0] * 6, corrected, [0.9, 0.8, 0.95, 0.7, 0.5, 1.0])
    chosen = find_corrections(rows, 4)
    assert [one.row for one in chosen] == [2, 0, 4, 1]
    assert (chosen[0].given, chosen[0].corrected) == ("cat", "dog")
    assert corrections_text(chosen, rows).endswith("4 of them are right.")


def test_where_no_target_has_moved_the_verdicts_are_shown():
    rows = rows_of([0, 1], [0, 0], [1.0, 1.0], [0, 0])
    kept = TrainingSamples(**{**vars(rows), "target": np.eye(3)[rows.given]})
    assert [one.row for one in find_corrections(kept)] == [1]


def test_images_have_the_given_label_above_in_red_and_the_corrected_below_in_green():
    corrections = find_corrections(ROWS)
    figure = corrections_figure(corrections, [np.zeros((3, 4, 4), np.uint8), np.zeros((1, 80, 80), np.uint8)])
    axes = figure.axes[0]
    assert (axes.get_title(), axes.get_xlabel()) == ("dog", "cat")
    assert axes.title.get_color() != axes.xaxis.label.get_color()


def test_places_for_images_that_are_not_there_stay_white():
    rows = rows_of([0] * 8, [1] * 8, [1.0] * 8, [1] * 8)
    figure = corrections_figure(find_corrections(rows), [np.zeros((3, 4, 4), np.uint8)] * 8)
    assert [axes.axison for axes in figure.axes] == [True] * 8 + [False] * 4


def test_memorisation_without_a_run_keeps_its_column():
    figure = memorisation_figure({"a": None, "b": [{"epoch": 1, **SHARES}]})
    assert words_in(figure.axes[0]) == [NOT_RUN]
    assert figure.axes[0].get_title() == "a"
    assert len(figure.axes[1].lines) == 2


def test_titles_in_words():
    assert plain_text("CIFAR-10,\n$\\beta$ = 0") == "CIFAR-10, beta = 0"
