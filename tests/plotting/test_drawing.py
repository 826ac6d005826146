"""Figures as files and on dark pages."""

import numpy as np

from surelabel.plotting.density import density_drawing
from surelabel.plotting.drawing import BLUE, DARK, INK, PAPER, darken, shorten

VALUES = np.array([0.1, 0.2, 0.8, 0.9, np.nan])
GROUPS = {"kept": VALUES > 0.5, "looks wrong": ~(VALUES > 0.5)}


def test_the_same_figure_gives_the_same_file():
    first, second = (density_drawing(VALUES, GROUPS, "tau").svg for _ in range(2))
    assert first == second
    assert ">Tau<" in first


def test_on_a_dark_page_no_light_colour_stays():
    svg = density_drawing(VALUES, GROUPS, "tau").svg
    assert BLUE in svg
    dark = darken(svg)
    assert not [colour for colour in (BLUE, PAPER, INK) if colour in dark]
    assert f'<svg fill="{DARK[INK]}"' in dark


def test_unknown_values_are_left_out_of_the_text():
    text = density_drawing(VALUES, GROUPS, "tau").text
    assert "kept: 2 labels, median 0.85" in text
    assert "looks wrong: 2 labels, median 0.15" in text
    assert "kept: none" in density_drawing(VALUES, {"kept": VALUES > 2}, "tau").text


def test_names_fit_and_stay_text():
    assert shorten("a" * 40) == "a" * 13 + "…"
    assert shorten("a$b\n$c") == r"a\$b \$c"
