"""Densities: what they count and what their text says."""

import numpy as np

from surelabel.plotting.density import density_drawing, estimate_density

VALUES = np.array([0.1, 0.2, 0.8, 0.9, np.nan])
GROUPS = {"kept": VALUES > 0.5, "looks wrong": ~(VALUES > 0.5)}


def test_values_outside_the_span_count_at_its_ends():
    density = estimate_density(np.array([0.0, 0.3, 0.6, 2.0]), 2, (0.25, 0.75))
    assert density.heights.tolist() == [2, 2]
    assert density.edges.tolist() == [0.25, 0.5, 0.75]


def test_unknown_values_are_omitted_from_the_text():
    text = density_drawing(VALUES, GROUPS, "tau").text
    assert "kept: 2 labels, median 0.85" in text
    assert "looks wrong: 2 labels, median 0.15" in text
    assert "kept: none" in density_drawing(VALUES, {"kept": VALUES > 2}, "tau").text
