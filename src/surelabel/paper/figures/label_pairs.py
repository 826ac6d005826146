"""Figures 5 to 9: heat maps of mean tau by clean and given label, and of corrected labels."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from surelabel.paper.figures.training_samples import TrainingSamples
from surelabel.plotting.drawing import TEXT, digits_for, leave_blank, make_panels, missing_text, plain_text
from surelabel.plotting.heat_maps import (
    MAX_CLASSES,
    MAX_NUMBERED,
    add_colour_bar,
    count_pairs,
    draw_heat_map,
    mean_by_pair,
    mean_text,
    row_fractions,
    top_pairs,
)

PANEL, BAR, ROOM_FOR_NAMES = (4.7, 4.5), 0.8, 0.9
"""Inches for a heat map, its colour bar, and class names along the axes."""
MIN_SPAN = 0.2
"""If the means of tau span less, the colours cover only their range."""


@dataclass(frozen=True)
class Table:
    """(K, K) numbers and the names of the classes."""

    cells: np.ndarray
    class_names: tuple[str, ...]


def confidence_table(rows: TrainingSamples) -> Table:
    """Return the mean of tau by clean (row) and given label (column); NaN for missing pairs."""
    return Table(mean_by_pair(rows.tau, rows.clean, rows.given, len(rows.class_names)), rows.class_names)


def correction_table(rows: TrainingSamples) -> Table:
    """Return the number of samples by clean (row) and corrected label (column)."""
    return Table(count_pairs(rows.clean, rows.corrected, len(rows.class_names)), rows.class_names)


def confidence_figure(tables: Mapping[str, Table | None]) -> Figure:
    """Draw a heat map per run."""
    span = span_of_means(tables)
    texts = np.vectorize(lambda mean: mean_text(mean, digits_for(span)), otypes=[object])
    drawn = {title: None if table is None else (table.cells, texts(table.cells)) for title, table in tables.items()}
    return _figure(tables, drawn, ("Clean label", "Given (false) label"), "Mean confidence $\\tau$", span)


def span_of_means(tables: Mapping[str, Table | None]) -> tuple[float, float]:
    """Return the range of the colours: 0 to 1, or that of the means if it is narrow."""
    cells = [table.cells[np.isfinite(table.cells)] for table in tables.values() if table is not None]
    values = np.concatenate([np.empty(0), *cells])
    if not len(values) or np.ptp(values) >= MIN_SPAN or np.ptp(values) == 0:
        return 0.0, 1.0
    return float(values.min()), float(values.max())


def correction_figure(tables: Mapping[str, Table | None]) -> Figure:
    """Draw a heat map per run; cells show rounded percentages of their row, without zeros."""
    texts = np.vectorize(lambda share: f"{100 * share:.1f}" if share >= 0.0005 else "", otypes=[object])
    shares = {title: None if table is None else row_fractions(table.cells) for title, table in tables.items()}
    drawn = {title: None if cells is None else (cells, texts(cells)) for title, cells in shares.items()}
    is_numbered = any(cells is not None and len(cells) <= MAX_NUMBERED for cells in shares.values())
    measure = "Share of the row" + ("; cells in %" if is_numbered else "")
    return _figure(tables, drawn, ("Clean label", "Corrected label"), measure)


def _figure(
    tables: Mapping[str, Table | None],
    drawn: Mapping[str, tuple[np.ndarray, np.ndarray] | None],
    labels: tuple[str, str],
    measure: str,
    span: tuple[float, float] = (0.0, 1.0),
) -> Figure:
    room = ROOM_FOR_NAMES if any(table is not None and _has_words(table) for table in tables.values()) else 0.0
    figure, axes = make_panels(1, len(tables), (PANEL[0] + room, PANEL[1] + room), share=False, extra_width=BAR)
    mesh = None
    for one, (title, table) in zip(axes[0], tables.items(), strict=True):
        shown = drawn[title]
        if table is None or shown is None:
            leave_blank(one, title)
            continue
        mesh = draw_heat_map(one, shown[0], table.class_names, labels, shown[1], span)
        one.set_title(title, fontsize=TEXT)
    if mesh is not None:
        add_colour_bar(figure, mesh, list(axes[0]), measure)
    return figure


def _has_words(table: Table) -> bool:
    """Return whether class names of more than two letters are shown along the axes."""
    return len(table.class_names) <= MAX_CLASSES and max(map(len, table.class_names)) > 2


def confidence_text(tables: Mapping[str, Table | None]) -> str:
    """Return the means on and off the diagonal in words."""
    parts = [
        f"{plain_text(title)}: {_on_and_off(table.cells)}." for title, table in tables.items() if table is not None
    ]
    return " ".join(parts) + _missing(tables)


def _on_and_off(cells: np.ndarray) -> str:
    off = cells[np.isfinite(cells) & ~np.eye(len(cells), dtype=bool)]
    on = np.diag(cells)[np.isfinite(np.diag(cells))]
    words = [f"{on.mean():.3f} for clean labels (the diagonal)" if len(on) else "no clean labels"]
    words.append(
        f"{off.mean():.3f} for false ones, from {off.min():.3f} to {off.max():.3f}" if len(off) else "no false labels"
    )
    grey = "" if np.isfinite(cells).all() else "; grey pairs do not occur"
    return f"the mean of tau over pairs is {' and '.join(words)}{grey}"


def correction_text(tables: Mapping[str, Table | None]) -> str:
    """Return correction accuracy and the most frequent wrong pairs in words."""
    parts = []
    for title, table in tables.items():
        if table is None:
            continue
        right = np.diag(table.cells).sum() / max(1, table.cells.sum())
        names = table.class_names
        pairs = "; ".join(f"{names[a]} as {names[b]} {number:,} times" for a, b, number in top_pairs(table.cells, 5))
        total = f"{int(table.cells.sum()):,} corrected labels"
        text = f"{plain_text(title)}: {100 * right:.2f} % of {total} are the clean ones"
        parts.append(text + (f"; most often wrong: {pairs}." if pairs else "."))
    return " ".join(parts) + _missing(tables)


def _missing(tables: Mapping[str, Table | None]) -> str:
    return missing_text([plain_text(title) for title, table in tables.items() if table is None])
