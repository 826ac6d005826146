"""The paper's tenth and eleventh figures: test accuracy by one parameter at a time."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from surelabel.plotting.drawing import (
    BLUE,
    GRID,
    SMALL_TEXT,
    TEXT,
    VERMILION,
    add_legend,
    leave_empty,
    make_panels,
    missing_text,
    plain_text,
)

PANEL = (2.6, 3.0)
DEFAULT = "default"
"""Shown for a parameter that the configuration leaves to the method's own rule."""


@dataclass(frozen=True)
class Point:
    """A value of a parameter, and the accuracies of its seeds in percent."""

    value: float | None
    mean: float
    deviation: float
    """One standard deviation of the sample; 0 with a single seed, which has none."""
    num_seeds: int

    @property
    def text(self) -> str:
        """The value as it stands on the axis."""
        return DEFAULT if self.value is None else f"{self.value:g}"


@dataclass(frozen=True)
class Parameter:
    """A panel: one parameter, and the value that it has in all other panels."""

    title: str
    points: Sequence[Point]
    held_at: float | None = None


def summarised(accuracies: Mapping[float | None, Sequence[float]]) -> list[Point]:
    """Mean and deviation for each value, in the order of the values."""
    points = []
    for value in sorted(accuracies, key=lambda value: (value is not None, value or 0.0)):
        percent = [100 * one for one in accuracies[value]]
        deviation = statistics.stdev(percent) if len(percent) > 1 else 0.0
        points.append(Point(value, statistics.fmean(percent), deviation, len(percent)))
    return points


def sensitivity_figure(parameters: Sequence[Parameter]) -> Figure:
    """A panel per parameter; one with fewer than two values has nothing to compare and stays empty."""
    figure, axes = make_panels(1, len(parameters), PANEL)
    for one, parameter in zip(axes[0], parameters, strict=True):
        if is_run(parameter):
            _draw(one, parameter)
        else:
            leave_empty(one)
            one.set_xlabel(parameter.title, fontsize=TEXT)
    axes[0, 0].set_ylabel("Test accuracy, last epoch (%)", fontsize=TEXT)
    add_legend(figure, 2)
    return figure


def is_run(parameter: Parameter) -> bool:
    """Whether there is something to compare."""
    return len(parameter.points) > 1


def _draw(axes: Axes, parameter: Parameter) -> None:
    places, points = range(len(parameter.points)), parameter.points
    axes.errorbar(
        places,
        [point.mean for point in points],
        [point.deviation for point in points],
        color=BLUE,
        marker="o",
        markersize=5,
        linewidth=1.8,
        capsize=5,
        label="mean and one standard deviation",
    )
    held = [
        (place, point.mean) for place, point in zip(places, points, strict=True) if point.value == parameter.held_at
    ]
    for place, mean in held:
        style: dict[str, Any] = {
            "marker": "s",
            "markersize": 11,
            "markerfacecolor": "none",
            "markeredgewidth": 1.6,
            "linestyle": "none",
        }
        axes.plot([place], [mean], color=VERMILION, label="value in the other panels", **style)
    axes.set_xticks(places, [point.text for point in points])
    axes.set_xlim(-0.4, len(points) - 0.6)
    axes.tick_params(labelsize=SMALL_TEXT)
    axes.set_xlabel(parameter.title, fontsize=TEXT)
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def sensitivity_text(parameters: Sequence[Parameter]) -> str:
    """Every point in words."""
    parts = []
    for parameter in filter(is_run, parameters):
        words = "; ".join(
            f"{point.text}: {point.mean:.2f} ± {point.deviation:.2f} % ({point.num_seeds} seed{'s'[: point.num_seeds > 1]})"
            for point in parameter.points
        )
        parts.append(f"{plain_text(parameter.title)}: {words}.")
    return " ".join(parts) + missing_text([plain_text(one.title) for one in parameters if not is_run(one)])
