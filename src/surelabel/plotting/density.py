"""Densities of confidence: kept labels against labels that look wrong."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from surelabel.plotting.drawing import BLUE, GREEN, GRID, INK, TEXT, VERMILION, Drawing, add_legend, make_figure

NUM_BINS = 40
STYLES = {
    "kept": (BLUE, "-"),
    "looks wrong": (VERMILION, "--"),
    "really right": (GREEN, ":"),
    "really wrong": (INK, "-."),
}
"""Colour and dash of each group; the last two exist only where clean labels are known."""


@dataclass(frozen=True)
class Density:
    """A histogram of area one, and the mean of its values."""

    heights: np.ndarray
    edges: np.ndarray
    mean: float


def estimate_density(values: np.ndarray, num_bins: int, span: tuple[float, float] = (0.0, 1.0)) -> Density:
    """Estimate the density of values (N,) over a span; values outside it count at its ends."""
    heights, edges = np.histogram(values.clip(*span), num_bins, span, density=True)
    return Density(heights, edges, float(values.mean()))


def density_drawing(values: np.ndarray, groups: Mapping[str, np.ndarray], quantity: str) -> Drawing:
    """Draw one line per group of rows.

    `quantity` names the `values` (N,), which lie in [0, 1]; a group is a mask (N,) under a name of
    STYLES.
    """
    figure, axes = make_figure(height=3.4)
    known = np.isfinite(values)
    for name, mask in groups.items():
        _draw(axes, values[mask & known], name)
    axes.set_xlabel(quantity[0].upper() + quantity[1:], fontsize=TEXT)
    axes.set_ylabel("Density (log scale)", fontsize=TEXT)
    axes.set_xlim(0, 1)
    axes.set_yscale("symlog", linthresh=1)
    axes.grid(color=GRID, linewidth=0.6)
    add_legend(figure, 2)
    parts = "; ".join(_describe(name, values[mask & known]) for name, mask in groups.items())
    return Drawing("density", f"Density of {quantity}", f"Density of {quantity} between 0 and 1: {parts}.", figure)


def _draw(axes: Axes, values: np.ndarray, name: str) -> None:
    colour, dash = STYLES[name]
    if len(values):
        density = estimate_density(values, NUM_BINS)
        axes.stairs(density.heights, density.edges, color=colour, linestyle=dash, linewidth=2, label=name)


def _describe(name: str, values: np.ndarray) -> str:
    if not len(values):
        return f"{name}: none"
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return f"{name}: {len(values):,} labels, median {middle:.2f}, middle half {low:.2f} to {high:.2f}"
