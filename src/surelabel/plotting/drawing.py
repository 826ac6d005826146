"""A figure with its text alternative, in colours that the colour-blind can tell apart, as SVG and PNG, light and dark."""

import io
import math
import re
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
"""Inches: narrow, so that the text can still be read where a phone shows the figure 360 pixels wide."""
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
"""After Okabe and Ito; orange and the light tones are darker, to stand out on white."""
LINES = tuple(
    zip((BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY), ("-", "--", "-.", ":", "-", "--", "-."), strict=True)
)
"""Colour and dash of the first, second, ... line: never colour alone."""
INK, PAPER, GRID = "#000000", "#ffffff", "#dddddd"
CELL_DARK, CELL_LIGHT = "#0b0b0b", "#fefefe"
"""Text on coloured cells, which have the same colours on light and dark pages."""

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
"""What each colour of a light figure becomes on a dark page."""


@dataclass(frozen=True)
class Drawing:
    """A figure, what it is called, and what it shows in words and numbers."""

    name: str
    title: str
    text: str
    figure: Figure

    @cached_property
    def svg(self) -> str:
        """For a light page; text stays text, and the same figure gives the same file."""
        file = io.StringIO()
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": self.name}), _any_letter():
            self.figure.savefig(file, format="svg", metadata={"Date": None, "Title": self.title})
        self.figure.set_layout_engine("none")  # it is laid out, and to do so again takes as long as to draw
        return file.getvalue()

    def png(self) -> bytes:
        """At twice the size on a screen."""
        file = io.BytesIO()
        with _any_letter():
            self.figure.savefig(file, format="png", dpi=200)
        return file.getvalue()

    def write(self, folder: Path, prefix: str = "") -> list[Path]:
        """NAME.svg and NAME.png in `folder`, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{prefix}{self.name}.{kind}" for kind in ("svg", "png")]
        replace_text(paths[0], self.svg)
        replace_bytes(paths[1], self.png())
        return paths


@contextmanager
def _any_letter() -> Iterator[None]:
    """Names may hold letters that matplotlib's own font lacks; as SVG they are shown in a font of the reader's."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def darken(svg: str) -> str:
    """The same figure for a dark page; what says no colour is black, so the root says another."""
    svg = svg.replace("<svg ", f'<svg fill="{INK}" ', 1)
    return re.sub("|".join(DARK), lambda found: DARK[found.group()], svg)


def make_figure(width: float = WIDTH, height: float = HEIGHT) -> tuple[Figure, Axes]:
    """An empty figure of one panel."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=TEXT)
    axes.xaxis.label.set_fontsize(TEXT)
    axes.yaxis.label.set_fontsize(TEXT)
    return figure, axes


def set_epoch_axis(axes: Axes, last_epoch: int) -> None:
    """An axis of epochs, and lines to read values by."""
    axes.set_xlabel("Epoch")
    axes.set_xlim(0, max(2, last_epoch))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def digits_for(span: tuple[float, float]) -> int:
    """As many as tell numbers apart that an axis or colours over this span tell apart, two to four."""
    return min(max(2, math.ceil(1 - math.log10(span[1] - span[0]))), 4)


def add_legend(figure: Figure, num_columns: int = 1) -> None:
    """Below the panels, where it hides nothing; lines of the same name are named once."""
    named: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, text in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(text, handle)
    if named:
        place = {"loc": "outside lower center", "ncols": num_columns, "frameon": False, "fontsize": SMALL_TEXT}
        figure.legend(list(named.values()), list(named), **place)


def shorten(name: str, length: int = 14) -> str:
    """A class or run name that fits beside an axis; `$` would begin mathematics."""
    flat = "".join(letter if letter.isprintable() else " " for letter in name)
    return (flat if len(flat) <= length else flat[: length - 1] + "…").replace("$", r"\$")


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
