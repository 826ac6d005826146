"""Figures 10 and 11: test accuracy of CAR when one parameter is varied at a time."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from surelabel.paper.figures.figure_kinds import Picture
from surelabel.paper.figures.panel_runs import (
    OPTIONS,
    FoundRun,
    RunQuery,
    choose_source,
    find_typical,
    list_differences,
)
from surelabel.plotting.curves import accuracy_on_test
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
"""The label of a value that the method itself chooses."""


@dataclass(frozen=True)
class Point:
    """A value of a parameter, and the accuracy over seeds in percent."""

    value: float | None
    mean: float
    deviation: float
    """The sample standard deviation; 0 for a single seed."""
    num_seeds: int

    @property
    def text(self) -> str:
        """The label of the value on the axis."""
        return DEFAULT if self.value is None else f"{self.value:g}"


@dataclass(frozen=True)
class Parameter:
    """A panel: one parameter, and its value in all other panels."""

    title: str
    points: Sequence[Point]
    held_at: float | None = None


def summarise(accuracies: Mapping[float | None, Sequence[float]]) -> list[Point]:
    """Return mean and deviation for each value, in the order of the values."""
    points = []
    for value in sorted(accuracies, key=lambda value: (value is not None, value or 0.0)):
        percent = [100 * one for one in accuracies[value]]
        deviation = statistics.stdev(percent) if len(percent) > 1 else 0.0
        points.append(Point(value, statistics.fmean(percent), deviation, len(percent)))
    return points


def sensitivity_figure(parameters: Sequence[Parameter]) -> Figure:
    """Draw a panel per parameter; it stays empty with fewer than two values."""
    figure, axes = make_panels(1, len(parameters), PANEL)
    for one, parameter in zip(axes[0], parameters, strict=True):
        if has_choice(parameter):
            _draw(one, parameter)
        else:
            leave_empty(one)
            one.set_xlabel(parameter.title, fontsize=TEXT)
    axes[0, 0].set_ylabel("Test accuracy, last epoch (%)", fontsize=TEXT)
    add_legend(figure, 2)
    return figure


def has_choice(parameter: Parameter) -> bool:
    """Return whether there are values to compare."""
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
    """Return every point in words."""
    parts = []
    for parameter in filter(has_choice, parameters):
        words = "; ".join(
            f"{point.text}: {point.mean:.2f} ± {point.deviation:.2f} % "
            f"({point.num_seeds} seed{'s'[: point.num_seeds > 1]})"
            for point in parameter.points
        )
        parts.append(f"{plain_text(parameter.title)}: {words}.")
    return " ".join(parts) + missing_text([plain_text(one.title) for one in parameters if not has_choice(one)])


def draw_study(panels: Mapping[str, RunQuery], available: Sequence[FoundRun]) -> Picture | None:
    """Draw a panel for each parameter that the runs vary; None if they vary none."""
    (wanted,) = panels.values()
    base, parameters, runs = find_study(wanted, available)
    if base is None or not any(map(has_choice, parameters)):
        return None
    others = [one for one in runs if one is not base]
    return Picture(sensitivity_figure(parameters), sensitivity_text(parameters), [base, *others])


def find_study(
    wanted: RunQuery, available: Sequence[FoundRun]
) -> tuple[FoundRun | None, list[Parameter], list[FoundRun]]:
    """Return the base run of a study, its parameters with their points, and all its runs."""
    source = choose_source(wanted.data, [wanted], available)
    runs = [
        one for one in available if one.source == source and wanted.matches(one) and _last_accuracy(one) is not None
    ]
    base = find_typical(runs)
    if base is None:
        return None, [Parameter(letter, []) for letter in OPTIONS.values()], []
    varied = {option: _varied(base, runs, option) for option in OPTIONS}
    used = {id(one): one for group in varied.values() for one in group}
    return base, [_parameter(base, option, group) for option, group in varied.items()], list(used.values())


def _varied(base: FoundRun, runs: Sequence[FoundRun], option: str) -> list[FoundRun]:
    """Return runs that differ from the base in no other option, one for each value and seed."""
    alike = [one for one in runs if set(list_differences(base, one)) <= {f"method.options.{option}"}]
    return list({(one.options[option], one.seed): one for one in reversed(alike)}.values())[::-1]


def _parameter(base: FoundRun, option: str, group: Sequence[FoundRun]) -> Parameter:
    accuracies: dict[float | None, list[float]] = {}
    for one in group:
        accuracy = _last_accuracy(one)
        assert accuracy is not None
        accuracies.setdefault(one.options[option], []).append(accuracy)
    return Parameter(OPTIONS[option], summarise(accuracies), base.options[option])


def _last_accuracy(found: FoundRun) -> float | None:
    """Return the accuracy on the first test set in the last epoch."""
    values = accuracy_on_test(found.metrics)[1]
    return values[-1] if values else None
