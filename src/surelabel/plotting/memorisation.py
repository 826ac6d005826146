"""The paper's first figure: how clean and false labels are predicted over the epochs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from surelabel.errors import RunError
from surelabel.plotting.curves import Rows
from surelabel.plotting.drawing import GRID, leave_empty

COLUMN_WIDTH, ROW_HEIGHT, MARGIN = 4.6, 2.7, 0.9
"""Inches."""
MIN_GAP = 8.0
"""Percentage points between the numbers at the ends of two lines, to keep them legible."""


@dataclass(frozen=True)
class Line:
    """A fraction in the metrics and how to draw it."""

    name: str
    text: str
    colour: str
    style: str = "-"


CORRECT = Line("correct", "predicted correctly", "#7b2d8e")
MEMORISED = Line("memorised", "memorised: the false label is predicted", "#1f6fd6")
WRONG = Line("wrong", "otherwise wrong", "#000000", "--")
OTHER = Line("other", "otherwise wrong", "#000000", "--")

GROUPS = {
    "clean_labels": ("Samples with\nclean labels (%)", (CORRECT, WRONG)),
    "false_labels": ("Samples with\nfalse labels (%)", (CORRECT, MEMORISED, OTHER)),
}


def memorisation_figure(runs: Mapping[str, Rows | None]) -> Figure:
    """Draw one column per run, clean labels above false ones.

    `runs` maps titles to metrics; a column whose metrics are None stays empty.
    """
    for name, rows in runs.items():
        if rows is not None and not any(group in row for row in rows for group in GROUPS):
            raise RunError(f"{name}: no memorisation to draw: the clean labels of this run are not known")
    size = (COLUMN_WIDTH * len(runs) + MARGIN, ROW_HEIGHT * len(GROUPS) + MARGIN)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(GROUPS), len(runs), sharex="col", sharey=True, squeeze=False)
    for column, (name, rows) in enumerate(runs.items()):
        for row, (group, (_, lines)) in enumerate(GROUPS.items()):
            if rows is None:
                leave_empty(axes[row, column])
            else:
                _draw(axes[row, column], rows, group, lines)
        axes[0, column].set_title(name if rows is None else _title(name, rows), fontsize=11)
        axes[-1, column].set_xlabel("" if rows is None else "Epoch")
    for row, (text, _) in enumerate(GROUPS.values()):
        axes[row, 0].set_ylabel(text)
    first_drawn = next((column for column, rows in enumerate(runs.values()) if rows is not None), 0)
    _add_legend(figure, axes[-1, first_drawn], len(runs))
    return figure


def memorisation_text(rows: Rows) -> str:
    """Describe the last epoch of the figure."""
    row = next(row for row in reversed(rows) if "false_labels" in row or "clean_labels" in row)
    parts = []
    for group, (title, lines) in GROUPS.items():
        shares = "; ".join(f"{line.text} {100 * row[group][line.name]:.1f} %" for line in lines if group in row)
        parts.append(f"{title.split(' (')[0].replace(chr(10), ' ')}: {shares or 'none'}.")
    return f"In epoch {row['epoch']}. {' '.join(parts)}"


def _title(name: str, rows: Rows) -> str:
    accuracy = next((next(iter(row["tests"].values()))["top1"] for row in reversed(rows) if row.get("tests")), None)
    return name if accuracy is None else f"{name}\ntest accuracy in the last epoch: {accuracy:.1%}".replace("%", " %")


def _draw(axes: Axes, rows: Rows, group: str, lines: Sequence[Line]) -> None:
    measured = [row for row in rows if group in row]
    epochs = [row["epoch"] for row in measured]
    last = {}
    for line in lines:
        shares = [100 * row[group][line.name] for row in measured]
        marker = "o" if len(shares) == 1 else None
        axes.plot(epochs, shares, line.style, color=line.colour, linewidth=1.8, label=line.text, marker=marker)
        if shares:
            last[line] = shares[-1]
    axes.set_xlim(0, max([2, *epochs]))
    axes.set_ylim(-3, 103)
    axes.set_yticks(range(0, 101, 25))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(color=GRID, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    for line, height in _spread(last).items():
        place = (1.015, height)
        axes.annotate(
            f"{last[line]:.0f}", place, xycoords=axes.get_yaxis_transform(), color=line.colour, va="center", fontsize=9
        )


def _spread(last: Mapping[Line, float]) -> dict[Line, float]:
    """Place the numbers at the right end: move them apart upwards, then back down from the top."""
    heights: dict[Line, float] = {}
    below = -MIN_GAP
    for line in sorted(last, key=lambda line: last[line]):
        below = heights[line] = max(last[line], below + MIN_GAP)
    above = 100 + MIN_GAP
    for line in reversed(list(heights)):
        above = heights[line] = min(heights[line], above - MIN_GAP)
    return heights


def _add_legend(figure: Figure, axes: Axes, num_runs: int) -> None:
    """Add a legend below all columns; the lines of the false labels include all others."""
    handles, texts = axes.get_legend_handles_labels()
    columns, size = (1, 10.5) if num_runs == 1 else (len(texts), 9)
    figure.legend(handles, texts, loc="outside lower center", ncols=columns, frameon=False, fontsize=size)
