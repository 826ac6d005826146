"""Figures of several panels; a panel without a run stays empty and says so."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from surelabel.plotting.drawing import GREY, GRID, SMALL_TEXT, TEXT

NOT_RUN = "not run"
TITLE_TEXT = 12.5
"""Points."""
EMPTY = "#f6f6f6"
"""Background of a panel without a run."""


def make_panels(
    num_rows: int, num_columns: int, size: tuple[float, float], *, share: bool = True, beside: float = 0.0
) -> tuple[Figure, np.ndarray]:
    """A figure and its (rows, columns) axes.

    `size` is width and height of a panel in inches, `share` one vertical scale for all, `beside` the room right of all.
    """
    width, height = size
    figure = Figure(figsize=(width * num_columns + beside, height * num_rows + 0.9), layout="constrained")
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    # Numbers at the ends of two axes stay apart; and letters are a little larger in a png than where the svg was laid out.
    engine.set(wspace=0.04, w_pad=0.08, h_pad=0.06)
    axes = figure.subplots(num_rows, num_columns, sharey=share, squeeze=False)
    for one in axes.flat:
        one.spines[["top", "right"]].set_visible(False)
        one.tick_params(labelsize=SMALL_TEXT)
    return figure, axes


def add_headline(figure: Figure, text: str) -> None:
    """The title above all panels; the last thing that is drawn."""
    figure.suptitle(text, fontsize=TITLE_TEXT)
    if any(axes.get_aspect() != "auto" for axes in figure.axes):
        _settle(figure)


def _settle(figure: Figure) -> None:
    """Where panels have a fixed shape, matplotlib's layout is right only when it starts from an earlier one."""
    for _ in range(2):
        figure.draw_without_rendering()


def leave_empty(axes: Axes, title: str | None = None) -> None:
    """A panel for which there is no run; its vertical scale stays, because others may share it."""
    axes.text(
        0.5, 0.5, NOT_RUN, transform=axes.transAxes, ha="center", va="center", color=GREY, style="italic", fontsize=TEXT
    )
    axes.set_facecolor(EMPTY)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=False)
    axes.set_xticks([])
    if title is not None:
        axes.set_title(title, fontsize=TEXT)


def leave_blank(axes: Axes, title: str) -> None:
    """The same where the vertical scale is the panel's own."""
    leave_empty(axes, title)
    axes.set_yticks([])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color(GRID)
    axes.set_aspect("equal")


def missing_text(empty: list[str]) -> str:
    """The panels that were not run, as the end of a text alternative."""
    return f" Not run: {'; '.join(empty)}." if empty else ""


def plain_text(title: str) -> str:
    """A title of several lines in one, without the signs of mathematics."""
    return title.replace(",\n", ", ").replace("\n", ", ").replace("$", "").replace("\\", "")
