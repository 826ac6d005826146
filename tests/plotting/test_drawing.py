"""Figures as files and on dark pages."""

import numpy as np

from surelabel.plotting.density import density_drawing
from surelabel.plotting.drawing import BLUE, DARK, INK, PAPER, darken, shorten

VALUES = np.array([0.1, 0.2, 0.8, 0.9, np.nan])
GROUPS = {"kept": VALUES > 0.5, "looks wrong": ~(VALUES > 0.5)}


def test_equal_figures_yield_equal_files():
    first, second = (density_drawing(VALUES, GROUPS, "tau").svg for _ in range(2))
    assert first == second
    assert ">Tau<" in first


def test_darken_replaces_every_light_colour():
    svg = density_drawing(VALUES, GROUPS, "tau").svg
    assert BLUE in svg
    dark = darken(svg)
    assert not [colour for colour in (BLUE, PAPER, INK) if colour in dark]
    assert f'<svg fill="{DARK[INK]}"' in dark


def test_long_names_are_shortened_and_dollars_escaped():
    assert shorten("a" * 40) == "a" * 13 + "…"
    assert shorten("a$b\n$c") == r"a\$b \$c"
