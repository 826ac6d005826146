"""Figures 2 and 4: the density of the confidence tau for clean and for false labels."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from surelabel.paper.figures.training_samples import TrainingSamples
from surelabel.plotting.density import Density, estimate_density
from surelabel.plotting.drawing import (
    BLUE,
    GRID,
    SMALL_TEXT,
    TEXT,
    VERMILION,
    add_legend,
    digits_for,
    leave_empty,
    make_panels,
    missing_text,
    plain_text,
)

NUM_BINS = 50
STYLES = {"clean labels": (BLUE, "-"), "false labels": (VERMILION, "--")}
"""Colour and dash of each group."""
LOG_ABOVE = 20.0
"""If the highest density is larger, the vertical scale is logarithmic."""
MIN_SPAN = 0.2
"""If the middle 98 % of tau span less in all panels, only that part of the axis is drawn."""
MIN_STEP = 1e-3
"""The ends of the axis are multiples of this, so that their labels stay readable."""
PANEL = (4.2, 3.0)

Groups = Mapping[str, Mapping[str, np.ndarray] | None]
"""By panel title, the values of tau of each group of labels; None if it was not run."""


def group_confidence(rows: TrainingSamples) -> dict[str, np.ndarray]:
    """Return the values of tau in each group; a group without labels is left out."""
    known = np.isfinite(rows.tau)
    groups = zip(STYLES, (known & ~rows.is_false, known & rows.is_false), strict=True)
    return {name: rows.tau[mask] for name, mask in groups if mask.any()}


def span_of(runs: Groups) -> tuple[float, float]:
    """Return the part of the axis to draw: all of it, or the range of tau if that is narrow."""
    values = [tau for groups in runs.values() if groups is not None for tau in groups.values()]
    if not values:
        return 0.0, 1.0
    low, high = np.quantile(np.concatenate(values), (0.01, 0.99))
    if high - low >= MIN_SPAN:
        return 0.0, 1.0
    step = 10.0 ** np.floor(np.log10(max(high - low, MIN_STEP)))
    low, high = max(0.0, np.floor(low / step) * step), min(1.0, np.ceil(high / step) * step)
    if low == high:  # all values of tau are equal
        low, high = max(0.0, low - step), min(1.0, high + step)
    return float(low), float(high)


def density_figure(runs: Groups) -> Figure:
    """Draw a panel per run, with a vertical line at the mean of each group."""
    span = span_of(runs)
    densities = {
        title: None if groups is None else {name: estimate_density(tau, NUM_BINS, span) for name, tau in groups.items()}
        for title, groups in runs.items()
    }
    figure, axes = make_panels(1, len(runs), PANEL)
    for one, (title, drawn) in zip(axes[0], densities.items(), strict=True):
        if drawn is None:
            leave_empty(one, title)
        else:
            _draw(one, title, drawn, max(3, digits_for(span)))
            one.set_xlim(span)
    _scale(
        axes[0], max((one.heights.max() for drawn in densities.values() for one in (drawn or {}).values()), default=1)
    )
    add_legend(figure, 2)
    return figure


def _scale(axes: Sequence[Axes], highest: float) -> None:
    """Give all panels the same vertical scale."""
    is_log = highest > LOG_ABOVE
    for one in axes:
        if is_log:
            one.set_yscale("symlog", linthresh=1)
        one.set_ylim(0, (1.6 if is_log else 1.1) * highest)
    axes[0].set_ylabel("Density (log scale)" if is_log else "Density", fontsize=TEXT)


def _draw(axes: Axes, title: str, groups: Mapping[str, Density], num_digits: int) -> None:
    for name, density in groups.items():
        colour, dash = STYLES[name]
        axes.stairs(density.heights, density.edges, fill=True, color=colour, alpha=0.18)
        axes.stairs(density.heights, density.edges, color=colour, linestyle=dash, linewidth=1.8, label=name)
        axes.axvline(density.mean, color=colour, linestyle=":", linewidth=1.4)
    axes.set_xlabel("Confidence $\\tau$", fontsize=TEXT)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    means = "mean: " + ", ".join(f"{name.split()[0]} {density.mean:.{num_digits}f}" for name, density in groups.items())
    axes.set_title(f"{title}\n{means}", fontsize=SMALL_TEXT + 0.5)


def density_text(runs: Groups) -> str:
    """Return count, mean and middle half of each group in words."""
    low, high = span_of(runs)
    num_digits = max(3, digits_for((low, high)))
    parts = [
        f"{plain_text(title)}: {'; '.join(_describe(name, tau, num_digits) for name, tau in groups.items())}."
        for title, groups in runs.items()
        if groups is not None
    ]
    axis = (
        ""
        if (low, high) == (0, 1)
        else f" The axis is drawn from {low:.4g} to {high:.4g}; what lies outside counts at its ends."
    )
    return (
        " ".join(parts) + axis + missing_text([plain_text(title) for title, groups in runs.items() if groups is None])
    )


def _describe(name: str, tau: np.ndarray, num_digits: int) -> str:
    mean, low, high = (f"{value:.{num_digits}f}" for value in (tau.mean(), *np.quantile(tau, (0.25, 0.75))))
    return f"{len(tau):,} {name} have a mean tau of {mean}, the middle half {low} to {high}"
