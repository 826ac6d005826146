"""Photos on cards in the colours of the report, with the folder, the suggestion and P(wrong)."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from PIL import Image

PAGE, CARD, LINE, INK, SOFT, GIVEN, SUGGESTED = (
    "#f4f5f7",
    "#ffffff",
    "#d9dce1",
    "#16181d",
    "#555b66",
    "#0d6074",
    "#7a2f8f",
)
"""The colours of `reporting/page/style.css` on a light page."""
COLUMNS = 5
WIDTH, GAP, PADDING = 9.0, 0.13, 0.08
"""Inches; a figure of this width is read at 900 pixels."""
HEAD, ROW = 0.78, 0.235
"""Inches of the title, and of a line of text on a card."""
TITLE, TEXT = 15.0, 9.5
"""Points."""
ROUND = 0.06

Card = tuple[Image.Image, str, str, float]
"""A photo, the folder it was in, the suggested folder, and P(wrong)."""


def photo_grid(cards: Sequence[Card], title: str, text: str) -> Figure:
    """Draw photos in rows of five below a title and a sentence."""
    side = (WIDTH - (COLUMNS + 1) * GAP) / COLUMNS
    height = side + 3 * ROW
    num_rows = -(-len(cards) // COLUMNS)
    total = HEAD + num_rows * (height + GAP)
    figure = Figure(figsize=(WIDTH, total), facecolor=PAGE)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.text(GAP, 0.3, title, fontsize=TITLE, fontweight="bold", color=INK, va="center")
    axes.text(GAP, 0.59, text, fontsize=TEXT, color=SOFT, va="center")
    for number, card in enumerate(cards):
        row, column = divmod(number, COLUMNS)
        _draw_card(axes, card, GAP + column * (side + GAP), HEAD + row * (height + GAP), side, height)
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(total, 0)
    axes.set_aspect("auto")
    return figure


def _draw_card(axes: Axes, card: Card, left: float, top: float, width: float, height: float) -> None:
    """Draw a card whose upper left corner is at this place, in inches."""
    photo, given, suggested, p_wrong = card
    axes.add_patch(_rounded(left, top, width, height, facecolor=CARD, edgecolor=LINE, linewidth=0.8))
    side = width - 2 * PADDING
    place = (left + PADDING, left + PADDING + side, top + PADDING + side, top + PADDING)
    drawn = axes.imshow(cut_square(photo), extent=place, interpolation="bicubic", aspect="auto", zorder=2)
    drawn.set_clip_path(_rounded(place[0], place[3], side, side, transform=axes.transData))
    lines = (
        ("folder", given, GIVEN, "bold"),
        ("suggested", suggested, SUGGESTED, "bold"),
        ("P(wrong)", f"{p_wrong:.3f}", INK, "normal"),
    )
    for number, (name, value, colour, weight) in enumerate(lines):
        y = place[2] + PADDING / 2 + ROW * (number + 0.5)
        axes.text(place[0], y, name, fontsize=TEXT - 0.5, color=SOFT, va="center")
        axes.text(place[1], y, value, fontsize=TEXT, color=colour, fontweight=weight, ha="right", va="center")


def _rounded(left: float, top: float, width: float, height: float, **style: Any) -> FancyBboxPatch:
    return FancyBboxPatch((left, top), width, height, boxstyle=f"round,pad=0,rounding_size={ROUND}", **style)


def cut_square(photo: Image.Image) -> Image.Image:
    """Return the middle of a photo as a square."""
    side = min(photo.size)
    left, top = (photo.width - side) // 2, (photo.height - side) // 2
    return photo.crop((left, top, left + side, top + side))
