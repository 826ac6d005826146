"""What all figures share: text alternatives, colour-blind safe colours, panels, SVG and PNG."""

import io
import math
import re
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from surelabel.files import replace_bytes, replace_text

WIDTH, HEIGHT = 4.8, 3.3
"""Inches; narrow, so that text stays legible on a phone that shows the figure 360 pixels wide."""
TEXT, SMALL_TEXT = 11.5, 10.0
"""Points."""

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#b0528b",
    "#c98500",
    "#3f9bd1",
    "#6b6b6b",
)
"""The palette of Okabe and Ito; orange and the light tones are darkened to stand out on white."""
LINES = tuple(
    zip((BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY), ("-", "--", "-.", ":", "-", "--", "-."), strict=True)
)
"""Colour and dash of the first, second, ... line; lines never differ by colour alone."""
INK, PAPER, GRID = "#000000", "#ffffff", "#dddddd"
CELL_DARK, CELL_LIGHT = "#0b0b0b", "#fefefe"
"""Text on coloured cells, whose colours are the same on light and dark pages."""

NOT_RUN = "not run"
"""Text in a panel without a run."""
TITLE_TEXT = 12.5
"""Points."""
EMPTY = "#f6f6f6"
"""Background of a panel without a run."""

DARK = {
    INK: "#e6e6e6",
    PAPER: "#1b1e24",
    GRID: "#3a3f48",
    BLUE: "#5fb4ee",
    VERMILION: "#ff9150",
    GREEN: "#38cfa3",
    PURPLE: "#e29ac5",
    ORANGE: "#f0b84a",
    SKY: "#9bd4f5",
    GREY: "#a9a9a9",
    "#7b2d8e": "#cf9be0",
    "#1f6fd6": "#7ab4ff",
}
"""Replacement on dark pages for each colour of a light figure."""


@dataclass(frozen=True)
class Drawing:
    """A figure with a file name, a title and a text alternative that states its numbers."""

    name: str
    title: str
    text: str
    figure: Figure

    @cached_property
    def svg(self) -> str:
        """The figure for a light page; text stays text, and equal figures yield equal files."""
        file = io.StringIO()
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": self.name}), _ignore_missing_glyphs():
            self.figure.savefig(file, format="svg", metadata={"Date": None, "Title": self.title})
        self.figure.set_layout_engine("none")  # laying it out again takes as long as drawing it
        return file.getvalue()

    def png(self) -> bytes:
        """Render the figure at twice the resolution of a screen."""
        file = io.BytesIO()
        with _ignore_missing_glyphs():
            self.figure.savefig(file, format="png", dpi=200)
        return file.getvalue()

    def files(self, folder: Path, prefix: str = "") -> list[Path]:
        """Return the paths that `write` writes to."""
        return [folder / f"{prefix}{self.name}.{kind}" for kind in ("svg", "png")]

    def write(self, folder: Path, prefix: str = "") -> list[Path]:
        """Write NAME.svg and NAME.png into `folder`, which is created if needed."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = self.files(folder, prefix)
        replace_text(paths[0], self.svg)
        replace_bytes(paths[1], self.png())
        return paths


@contextmanager
def _ignore_missing_glyphs() -> Iterator[None]:
    """Allow letters that matplotlib's font lacks; in an SVG the reader's fonts show them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def darken(svg: str) -> str:
    """Recolour a figure for a dark page; the root gets a fill, because the default is black."""
    svg = svg.replace("<svg ", f'<svg fill="{INK}" ', 1)
    return re.sub("|".join(DARK), lambda found: DARK[found.group()], svg)


def make_figure(width: float = WIDTH, height: float = HEIGHT) -> tuple[Figure, Axes]:
    """Make an empty figure of one panel."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=TEXT)
    axes.xaxis.label.set_fontsize(TEXT)
    axes.yaxis.label.set_fontsize(TEXT)
    return figure, axes


def set_epoch_axis(axes: Axes, last_epoch: int) -> None:
    """Label the horizontal axis with epochs and add a grid."""
    axes.set_xlabel("Epoch")
    axes.set_xlim(0, max(2, last_epoch))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def digits_for(span: tuple[float, float]) -> int:
    """Return how many digits (two to four) resolve numbers on a scale of this span."""
    return min(max(2, math.ceil(1 - math.log10(span[1] - span[0]))), 4)


def add_legend(figure: Figure, num_columns: int = 1) -> None:
    """Add a legend below the panels; lines with the same name share one entry."""
    named: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, text in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(text, handle)
    if named:
        place = {"loc": "outside lower center", "ncols": num_columns, "frameon": False, "fontsize": SMALL_TEXT}
        figure.legend(list(named.values()), list(named), **place)


def shorten(name: str, length: int = 14) -> str:
    """Shorten a name to fit beside an axis, and escape `$`, which starts mathematics."""
    flat = "".join(letter if letter.isprintable() else " " for letter in name)
    return (flat if len(flat) <= length else flat[: length - 1] + "…").replace("$", r"\$")


def make_panels(
    num_rows: int, num_columns: int, size: tuple[float, float], *, share: bool = True, extra_width: float = 0.0
) -> tuple[Figure, np.ndarray]:
    """Make a figure and its axes (rows, columns).

    `size` is the width and height of a panel in inches, `share` gives all panels one vertical
    scale, and `extra_width` leaves room on the right.
    """
    width, height = size
    figure = Figure(figsize=(width * num_columns + extra_width, height * num_rows + 0.9), layout="constrained")
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    # Keep the tick labels of neighbouring panels apart: PNG text is a little wider than SVG text.
    engine.set(wspace=0.04, w_pad=0.08, h_pad=0.06)
    axes = figure.subplots(num_rows, num_columns, sharey=share, squeeze=False)
    for one in axes.flat:
        one.spines[["top", "right"]].set_visible(False)
        one.tick_params(labelsize=SMALL_TEXT)
    return figure, axes


def add_headline(figure: Figure, text: str) -> None:
    """Add the title above all panels, in lines that fit; call this when all else is drawn."""
    # Letters are about 0.55 times as wide as high, and a point is 1/72 inch.
    most = int(72 * figure.get_figwidth() / (0.55 * TITLE_TEXT))
    figure.suptitle("\n".join(textwrap.wrap(text, most)), fontsize=TITLE_TEXT)
    if any(axes.get_aspect() != "auto" for axes in figure.axes):
        _settle(figure)


def _settle(figure: Figure) -> None:
    """Lay out panels of fixed aspect twice: only the second layout of matplotlib is right."""
    for _ in range(2):
        figure.draw_without_rendering()


def leave_empty(axes: Axes, title: str | None = None) -> None:
    """Mark a panel as not run; keep its vertical scale, which others may share."""
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
    """Mark a panel as not run and drop its vertical scale, which no other panel shares."""
    leave_empty(axes, title)
    axes.set_yticks([])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color(GRID)
    axes.set_aspect("equal")


def missing_text(empty: list[str]) -> str:
    """Name the panels that were not run, as the end of a text alternative."""
    return f" Not run: {'; '.join(empty)}." if empty else ""


def plain_text(title: str) -> str:
    """Join the lines of a title and drop its mathematical markup."""
    return title.replace(",\n", ", ").replace("\n", ", ").replace("$", "").replace("\\", "")
