"""Heat maps over pairs of classes: counts, means, and which of many classes are shown."""

import numpy as np
import pytest

from surelabel.plotting.heat_maps import (
    MAX_CLASSES,
    NUM_CONFUSED,
    confidence_drawing,
    confusion_drawing,
    count_pairs,
    mean_by_pair,
    most_confused,
    top_pairs,
)

FIRST, SECOND = np.array([0, 0, 1, 2, 0]), np.array([0, 1, 1, 1, 1])
NAMES = ("a", "b", "c")


def test_counts_and_means_by_hand():
    assert count_pairs(FIRST, SECOND, 3).tolist() == [[1, 2, 0], [0, 1, 0], [0, 1, 0]]
    table = mean_by_pair(np.array([0.5, 0.2, 1.0, np.nan, 0.4]), FIRST, SECOND, 3)
    assert table[0].tolist() == pytest.approx([0.5, 0.3, np.nan], nan_ok=True)
    assert np.isnan(table[2]).all()


def test_the_largest_cells_off_the_diagonal_come_first():
    table = count_pairs(FIRST, SECOND, 3)
    assert top_pairs(table, 5) == [(0, 1, 2), (2, 1, 1)]
    assert top_pairs(np.eye(3, dtype=int), 5) == []


def test_of_many_classes_the_most_confused_are_shown():
    table = np.eye(MAX_CLASSES + 10, dtype=int) * 50
    table[35, 3] = 9
    chosen = most_confused(table)
    assert len(chosen) == NUM_CONFUSED
    assert {3, 35} <= set(chosen.tolist())
    assert len(most_confused(table[:MAX_CLASSES, :MAX_CLASSES])) == MAX_CLASSES


def test_the_text_has_the_numbers_of_the_figure():
    drawing = confusion_drawing("x", "Title", ("Given", "Suggested"), count_pairs(FIRST, SECOND, 3), NAMES)
    assert drawing.text.startswith("Title: 40.0 % of 5 labels lie on the diagonal")
    assert "a to b 2 times; c to b 1 times" in drawing.text
    table = np.array([[0.9, 0.2], [np.nan, 0.7]])
    text = confidence_drawing("Mean tau", ("True", "Given"), table, np.ones((2, 2), int), NAMES[:2]).text
    assert "0.80 on the diagonal and 0.20 off it" in text
    assert text.endswith("Grey pairs do not occur.")
