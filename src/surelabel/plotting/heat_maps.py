"""Heat maps over pairs of classes: how often a pair occurs, or how confident the method is."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from surelabel.plotting.drawing import CELL_DARK, CELL_LIGHT, SMALL_TEXT, TEXT, Drawing, make_figure, shorten

MAX_CLASSES = 30
"""Classes that fit into one heat map; of more, only the most confused are shown."""
NUM_CONFUSED = 20
MAX_NUMBERED = 12
"""Largest number of classes for which the cells show their values."""
CELL_TEXT, LONG_CELL_TEXT = 9, 7.5
"""Font size of the values in cells; the second is for values of more than five characters."""


def count_pairs(first: np.ndarray, second: np.ndarray, num_classes: int) -> np.ndarray:
    """Count the rows of each pair of classes; returns (K, K)."""
    return np.bincount(first * num_classes + second, minlength=num_classes**2).reshape(num_classes, num_classes)


def mean_by_pair(values: np.ndarray, first: np.ndarray, second: np.ndarray, num_classes: int) -> np.ndarray:
    """Return the mean value of each pair of classes (K, K); NaN where the pair does not occur."""
    known = np.isfinite(values)
    pair = first[known] * num_classes + second[known]
    total = np.bincount(pair, values[known].astype(np.float64), num_classes**2)
    count = np.bincount(pair, minlength=num_classes**2)
    mean: np.ndarray = np.divide(total, count, out=np.full(num_classes**2, np.nan), where=count > 0)
    return mean.reshape(num_classes, num_classes)


def row_fractions(counts: np.ndarray) -> np.ndarray:
    """Divide counts (K, K) by the sum of their row; empty rows stay zero."""
    return np.asarray(counts / counts.sum(1, keepdims=True).clip(1))


def most_confused(table: np.ndarray) -> np.ndarray:
    """Return the classes to show, in order: all, or those with the most rows off the diagonal."""
    if len(table) <= MAX_CLASSES:
        return np.arange(len(table))
    off = table - np.diag(np.diag(table))
    return np.sort(np.argsort(-(off.sum(0) + off.sum(1)), kind="stable")[:NUM_CONFUSED])


def top_pairs(table: np.ndarray, count: int) -> list[tuple[int, int, Any]]:
    """Return the `count` largest cells off the diagonal as (row, column, value)."""
    off = table - np.diag(np.diag(table))
    order = np.argsort(-off, axis=None, kind="stable")[:count]
    cells = [(int(cell // len(table)), int(cell % len(table))) for cell in order]
    return [(row, column, off[row, column].item()) for row, column in cells if off[row, column] > 0]


def confusion_drawing(name: str, title: str, axes: tuple[str, str], table: np.ndarray, names: Sequence[str]) -> Drawing:
    """Draw counts of pairs, coloured by the fraction of the row so that rare classes show too."""
    chosen = most_confused(table)
    kept = np.diag(table).sum() / max(1, table.sum())
    pairs = "; ".join(f"{names[a]} to {names[b]} {count:,} times" for a, b, count in top_pairs(table, 5))
    text = f"{title}: {kept:.1%} of {int(table.sum()):,} labels lie on the diagonal".replace("%", " %")
    text += f". Most frequent off it: {pairs}." if pairs else ". None lies off it."
    heat = _make_heat_map(
        row_fractions(table)[np.ix_(chosen, chosen)],
        table[np.ix_(chosen, chosen)],
        [names[number] for number in chosen],
        axes,
        "Share of the row",
    )
    return Drawing(name, title, text + _omission_text(chosen, names), heat)


def confidence_drawing(
    title: str, axes: tuple[str, str], table: np.ndarray, counts: np.ndarray, names: Sequence[str]
) -> Drawing:
    """Draw the mean confidence of each pair; `counts` (K, K) select the classes."""
    chosen = most_confused(counts)
    cells = table[np.ix_(chosen, chosen)]
    on, known = np.diag(table), np.isfinite(table)
    off = table[known & ~np.eye(len(table), dtype=bool)]
    parts = [f"{np.nanmean(on):.2f} on the diagonal" if np.isfinite(on).any() else "nothing on the diagonal"]
    parts += [f"{off.mean():.2f} off it, from {off.min():.2f} to {off.max():.2f}"] if len(off) else ["nothing off it"]
    text = f"{title}: the mean over pairs is {' and '.join(parts)}."
    text += "" if known.all() else " Grey pairs do not occur."
    heat = _make_heat_map(cells, cells, [names[number] for number in chosen], axes, "Mean")
    return Drawing("confidence", title, text + _omission_text(chosen, names), heat)


def shares_drawing(name: str, title: str, axes: tuple[str, str], table: np.ndarray, names: Sequence[str]) -> Drawing:
    """Draw fractions (K, K) whose rows sum to one."""
    chosen = most_confused(table)
    pairs = "; ".join(f"{names[a]} to {names[b]} {share:.1%}" for a, b, share in top_pairs(table, 5) if share >= 0.001)
    text = f"{title}: the mean on the diagonal is {np.diag(table).mean():.1%}"
    text += f". Largest off it: {pairs}." if pairs else ". Nothing lies off it."
    cells = table[np.ix_(chosen, chosen)]
    heat = _make_heat_map(cells, cells, [names[number] for number in chosen], axes, "Share of the row")
    return Drawing(name, title, text.replace("%", " %") + _omission_text(chosen, names), heat)


def _omission_text(chosen: np.ndarray, names: Sequence[str]) -> str:
    return "" if len(chosen) == len(names) else f" The {len(chosen)} most confused of {len(names)} classes are shown."


def _make_heat_map(
    colour: np.ndarray, shown: np.ndarray, names: Sequence[str], labels: tuple[str, str], measure: str
) -> Figure:
    figure, axes = make_figure(5.2, 4.9)
    mesh = draw_heat_map(axes, colour, names, labels, _texts(shown))
    add_colour_bar(figure, mesh, axes, measure)
    return figure


def draw_heat_map(
    axes: Axes,
    colour: np.ndarray,
    names: Sequence[str],
    labels: tuple[str, str],
    texts: np.ndarray | None = None,
    span: tuple[float, float] = (0.0, 1.0),
) -> Any:
    """Draw numbers (K, K) as colours over `span` and return the mesh; NaN is grey.

    Few classes also get their `texts` (K, K) in the cells. More than MAX_CLASSES classes are
    numbered along the axes instead of named.
    """
    cmap = mpl.colormaps["cividis"].with_extremes(bad="#e4e4e4")
    mesh = axes.pcolormesh(
        np.ma.masked_invalid(colour), cmap=cmap, vmin=span[0], vmax=span[1], edgecolors="face", linewidth=0.2
    )
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    _name_classes(axes, names)
    suffix = " (class number)" if len(names) > MAX_CLASSES else ""
    axes.set_ylabel(labels[0] + suffix, fontsize=TEXT)
    axes.set_xlabel(labels[1] + suffix, fontsize=TEXT)
    if texts is not None and len(names) <= MAX_NUMBERED:
        _write_values(axes, (colour - span[0]) / (span[1] - span[0]), texts)
    return mesh


def _name_classes(axes: Axes, names: Sequence[str]) -> None:
    size = len(names)
    if size > MAX_CLASSES:
        counted = np.arange(0, size, 10 if size <= 100 else max(10, size // 100 * 10))
        axes.set_xticks(counted + 0.5, counted, fontsize=SMALL_TEXT)
        axes.set_yticks(counted + 0.5, counted, fontsize=SMALL_TEXT)
        return
    short, font_size = [shorten(name, 11) for name in names], TEXT if size <= 16 else 9 if size <= NUM_CONFUSED else 7
    is_turned = max(map(len, short)) > 2
    axes.set_xticks(np.arange(size) + 0.5, short, rotation=90 if is_turned else 0, fontsize=font_size)
    axes.set_yticks(np.arange(size) + 0.5, short, fontsize=font_size)


def add_colour_bar(figure: Figure, mesh: Any, axes: Any, measure: str) -> None:
    """Add the scale that the colours of one or more heat maps share."""
    bar = figure.colorbar(mesh, ax=axes, shrink=0.75, pad=0.02)
    bar.ax.tick_params(labelsize=SMALL_TEXT)
    bar.set_label(measure, fontsize=SMALL_TEXT)
    bar.outline.set_visible(False)


def _texts(shown: np.ndarray) -> np.ndarray:
    """Write counts as they are, without the zeros, and means with two digits."""
    write = _count_text if np.issubdtype(shown.dtype, np.integer) else mean_text
    return np.asarray(np.vectorize(write, otypes=[object])(shown))


def _count_text(value: int) -> str:
    return f"{value:d}" if value else ""


def mean_text(value: float, num_digits: int = 2) -> str:
    """Write a mean between 0 and 1 without its leading zero; NaN is empty."""
    return f"{value:.{num_digits}f}".removeprefix("0") if np.isfinite(value) else ""


def _write_values(axes: Axes, colour: np.ndarray, texts: np.ndarray) -> None:
    size = CELL_TEXT if max(len(str(text)) for text in texts.flat) <= 5 else LONG_CELL_TEXT
    for row, column in np.ndindex(*texts.shape):
        if not texts[row, column]:
            continue
        ink = CELL_DARK if colour[row, column] > 0.5 else CELL_LIGHT
        cell = axes.text(
            column + 0.5, row + 0.5, str(texts[row, column]), color=ink, ha="center", va="center", fontsize=size
        )
        cell.set_in_layout(False)
