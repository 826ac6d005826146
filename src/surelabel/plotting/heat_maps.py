"""Heat maps over pairs of classes: how often, or how sure."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from surelabel.plotting.drawing import CELL_DARK, CELL_LIGHT, SMALL_TEXT, TEXT, Drawing, make_figure, shorten

MOST_CLASSES = 30
"""Classes of a whole heat map; with more, the most confused ones are shown."""
NUM_CONFUSED = 20
MOST_NUMBERED = 12
"""Classes up to which the cells hold their number."""
CELL_TEXT, LONG_CELL_TEXT = 9, 7.5
"""Size of the numbers in cells; of those with more than five characters."""


def count_pairs(first: np.ndarray, second: np.ndarray, num_classes: int) -> np.ndarray:
    """(K, K): rows with class `first` and class `second`."""
    return np.bincount(first * num_classes + second, minlength=num_classes**2).reshape(num_classes, num_classes)


def mean_by_pair(values: np.ndarray, first: np.ndarray, second: np.ndarray, num_classes: int) -> np.ndarray:
    """(K, K): the mean value of each pair; NaN where there is none."""
    known = np.isfinite(values)
    pair = first[known] * num_classes + second[known]
    total = np.bincount(pair, values[known].astype(np.float64), num_classes**2)
    number = np.bincount(pair, minlength=num_classes**2)
    mean = np.divide(total, number, out=np.full(num_classes**2, np.nan), where=number > 0)
    return mean.reshape(num_classes, num_classes)


def most_confused(table: np.ndarray) -> np.ndarray:
    """Numbers of the classes to show, in their order: all, or those with the most rows off the diagonal."""
    if len(table) <= MOST_CLASSES:
        return np.arange(len(table))
    off = table - np.diag(np.diag(table))
    return np.sort(np.argsort(-(off.sum(0) + off.sum(1)), kind="stable")[:NUM_CONFUSED])


def top_pairs(table: np.ndarray, count: int) -> list[tuple[int, int, Any]]:
    """The `count` largest cells off the diagonal, as (row, column, value)."""
    off = table - np.diag(np.diag(table))
    order = np.argsort(-off, axis=None, kind="stable")[:count]
    cells = [(int(cell // len(table)), int(cell % len(table))) for cell in order]
    return [(row, column, off[row, column].item()) for row, column in cells if off[row, column] > 0]


def confusion_drawing(name: str, title: str, axes: tuple[str, str], table: np.ndarray, names: Sequence[str]) -> Drawing:
    """Counts of pairs; the colour is the share of the row, so that rare classes are seen too."""
    chosen = most_confused(table)
    share = table / table.sum(1, keepdims=True).clip(1)
    kept = np.diag(table).sum() / max(1, table.sum())
    pairs = "; ".join(f"{names[a]} to {names[b]} {number:,} times" for a, b, number in top_pairs(table, 5))
    text = f"{title}: {kept:.1%} of {int(table.sum()):,} labels lie on the diagonal".replace("%", " %")
    text += f". Most frequent off it: {pairs}." if pairs else ". None lies off it."
    heat = _heat(
        share[np.ix_(chosen, chosen)],
        table[np.ix_(chosen, chosen)],
        [names[at] for at in chosen],
        axes,
        "Share of the row",
    )
    return Drawing(name, title, text + _left_out(chosen, names), heat)


def confidence_drawing(
    title: str, axes: tuple[str, str], table: np.ndarray, number: np.ndarray, names: Sequence[str]
) -> Drawing:
    """Mean confidence of each pair; `number` (K, K) says which classes are confused most."""
    chosen = most_confused(number)
    cells = table[np.ix_(chosen, chosen)]
    on, known = np.diag(table), np.isfinite(table)
    off = table[known & ~np.eye(len(table), dtype=bool)]
    parts = [f"{np.nanmean(on):.2f} on the diagonal" if np.isfinite(on).any() else "nothing on the diagonal"]
    parts += [f"{off.mean():.2f} off it, from {off.min():.2f} to {off.max():.2f}"] if len(off) else ["nothing off it"]
    text = f"{title}: the mean over pairs is {' and '.join(parts)}."
    text += "" if known.all() else " Grey pairs do not occur."
    heat = _heat(cells, cells, [names[at] for at in chosen], axes, "Mean")
    return Drawing("confidence", title, text + _left_out(chosen, names), heat)


def shares_drawing(name: str, title: str, axes: tuple[str, str], table: np.ndarray, names: Sequence[str]) -> Drawing:
    """(K, K) shares whose rows sum to one."""
    chosen = most_confused(table)
    pairs = "; ".join(f"{names[a]} to {names[b]} {share:.1%}" for a, b, share in top_pairs(table, 5) if share >= 0.001)
    text = f"{title}: the mean on the diagonal is {np.diag(table).mean():.1%}"
    text += f". Largest off it: {pairs}." if pairs else ". Nothing lies off it."
    cells = table[np.ix_(chosen, chosen)]
    heat = _heat(cells, cells, [names[at] for at in chosen], axes, "Share of the row")
    return Drawing(name, title, text.replace("%", " %") + _left_out(chosen, names), heat)


def _left_out(chosen: np.ndarray, names: Sequence[str]) -> str:
    return "" if len(chosen) == len(names) else f" The {len(chosen)} most confused of {len(names)} classes are shown."


def _heat(colour: np.ndarray, shown: np.ndarray, names: Sequence[str], labels: tuple[str, str], measure: str) -> Figure:
    figure, axes = make_figure(5.2, 4.9)
    mesh = heat_map(axes, colour, names, labels, _texts(shown))
    colour_bar(figure, mesh, axes, measure)
    return figure


def heat_map(
    axes: Axes,
    colour: np.ndarray,
    names: Sequence[str],
    labels: tuple[str, str],
    texts: np.ndarray | None = None,
    span: tuple[float, float] = (0.0, 1.0),
) -> Any:
    """Draw (K, K) numbers, with (K, K) texts in the cells where these are few; NaN is grey. Returns the mesh.

    The colours go over `span`. More than MOST_CLASSES classes are counted along the axes, not named.
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
    number = " (class number)" if len(names) > MOST_CLASSES else ""
    axes.set_ylabel(labels[0] + number, fontsize=TEXT)
    axes.set_xlabel(labels[1] + number, fontsize=TEXT)
    if texts is not None and len(names) <= MOST_NUMBERED:
        _number(axes, (colour - span[0]) / (span[1] - span[0]), texts)
    return mesh


def _name_classes(axes: Axes, names: Sequence[str]) -> None:
    size = len(names)
    if size > MOST_CLASSES:
        counted = np.arange(0, size, 10 if size <= 100 else max(10, size // 100 * 10))
        axes.set_xticks(counted + 0.5, counted, fontsize=SMALL_TEXT)
        axes.set_yticks(counted + 0.5, counted, fontsize=SMALL_TEXT)
        return
    short, letters = [shorten(name, 11) for name in names], TEXT if size <= 16 else 9 if size <= NUM_CONFUSED else 7
    turned = max(map(len, short)) > 2
    axes.set_xticks(np.arange(size) + 0.5, short, rotation=90 if turned else 0, fontsize=letters)
    axes.set_yticks(np.arange(size) + 0.5, short, fontsize=letters)


def colour_bar(figure: Figure, mesh: Any, axes: Any, measure: str) -> None:
    """What the colours of one or more heat maps mean."""
    bar = figure.colorbar(mesh, ax=axes, shrink=0.75, pad=0.02)
    bar.ax.tick_params(labelsize=SMALL_TEXT)
    bar.set_label(measure, fontsize=SMALL_TEXT)
    bar.outline.set_visible(False)


def _texts(shown: np.ndarray) -> np.ndarray:
    """Counts as they are, without the zeros; means with two digits."""
    is_count = np.issubdtype(shown.dtype, np.integer)
    return np.vectorize(lambda value: _count(value) if is_count else mean_text(value), otypes=[object])(shown)


def _count(value: int) -> str:
    return f"{value:d}" if value else ""


def mean_text(value: float, num_digits: int = 2) -> str:
    """A share of one in a cell; empty where there is none."""
    return f"{value:.{num_digits}f}".removeprefix("0") if np.isfinite(value) else ""


def _number(axes: Axes, colour: np.ndarray, texts: np.ndarray) -> None:
    size = CELL_TEXT if max(len(str(text)) for text in texts.flat) <= 5 else LONG_CELL_TEXT
    for row, column in np.ndindex(*texts.shape):
        if not texts[row, column]:
            continue
        ink = CELL_DARK if colour[row, column] > 0.5 else CELL_LIGHT
        cell = axes.text(
            column + 0.5, row + 0.5, str(texts[row, column]), color=ink, ha="center", va="center", fontsize=size
        )
        cell.set_in_layout(False)
