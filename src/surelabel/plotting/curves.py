"""Curves over epochs: accuracies and loss terms of one run, or one quantity of several runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from surelabel.plotting.drawing import LINES, Drawing, add_legend, make_figure, set_epoch_axis, shorten

Rows = Sequence[Mapping[str, Any]]
"""The metrics of a run, one mapping per epoch, as `RunDir.metrics` returns them."""
Curve = tuple[list[int], list[float]]
"""Epochs and their values."""

MAX_POINTS = 400
"""Points per line; more would not be visible."""
MAX_TERMS = 7


def names_of_tests(rows: Rows) -> list[str]:
    """List the test sets that were evaluated."""
    return list(dict.fromkeys(name for row in rows for name in row.get("tests", {})))


def accuracy_on_test(rows: Rows, name: str | None = None) -> Curve:
    """Return the accuracy on a test set, by default the first."""
    name = name or next(iter(names_of_tests(rows)), None)
    return _curve(rows, lambda row: row.get("tests", {}).get(name, {}).get("top1"))


def memorised_curve(rows: Rows) -> Curve:
    """Return the fraction of wrong labels memorised; empty if clean labels are unknown."""
    return _curve(rows, lambda row: row.get("false_labels", {}).get("memorised"))


def accuracy_curves(rows: Rows) -> dict[str, Curve]:
    """Return every accuracy that was measured, by its name in the legend."""
    tests = names_of_tests(rows)
    found = {f"test{'' if len(tests) == 1 else f' ({name})'}": accuracy_on_test(rows, name) for name in tests}
    found["held-out rows, given label"] = _curve(rows, lambda row: row.get("validation", {}).get("top1"))
    found["training rows, given label"] = _curve(rows, lambda row: row.get("given_accuracy"))
    found["targets that are right"] = _curve(rows, lambda row: row.get("correction_accuracy"))
    return {name: curve for name, curve in found.items() if curve[0]}


def accuracy_drawing(rows: Rows) -> Drawing | None:
    """Draw the accuracies of one run; None if nothing was measured."""
    curves = accuracy_curves(rows)
    return _draw_percentages("accuracy", "Accuracy", curves) if curves else None


def compared_drawing(name: str, title: str, curves: Mapping[str, Curve]) -> Drawing | None:
    """Draw one quantity of several runs; runs without it are omitted."""
    measured = {run: curve for run, curve in curves.items() if curve[0]}
    return _draw_percentages(name, title, measured) if measured else None


def loss_drawing(rows: Rows) -> Drawing | None:
    """Draw the objective and its terms; None if nothing was measured."""
    names = list(dict.fromkeys(name for row in rows for name in row.get("terms", {})))
    curves = {"objective": _curve(rows, lambda row: row.get("loss"))} if len(names) != 1 else {}
    for name in names[: MAX_TERMS - len(curves)]:
        curves[f"term {name}"] = _term_curve(rows, name)
    curves = {name: curve for name, curve in curves.items() if curve[0]}
    if not curves:
        return None
    figure, axes = _draw_lines(curves)
    axes.set_ylabel("Loss")
    ends = "; ".join(f"{name} from {values[0]:.3g} to {values[-1]:.3g}" for name, (_, values) in curves.items())
    return Drawing("loss", "Loss terms", f"Loss over {_last_epoch(curves)} epochs: {ends}.", figure)


def _draw_percentages(name: str, title: str, curves: Mapping[str, Curve]) -> Drawing:
    figure, axes = _draw_lines({text: (epochs, [100 * v for v in values]) for text, (epochs, values) in curves.items()})
    axes.set_ylabel(f"{title} (%)")
    ends = "; ".join(
        f"{text} {100 * values[0]:.1f} % in epoch {epochs[0]}, {100 * values[-1]:.1f} % in epoch {epochs[-1]}"
        for text, (epochs, values) in curves.items()
    )
    return Drawing(name, title, f"{title} over {_last_epoch(curves)} epochs: {ends}.", figure)


def _draw_lines(curves: Mapping[str, Curve]) -> tuple[Any, Any]:
    figure, axes = make_figure(height=2.8 + 0.24 * len(curves))
    for number, (text, (epochs, values)) in enumerate(curves.items()):
        colour, dash = LINES[number % len(LINES)]
        step = max(1, len(epochs) // MAX_POINTS)
        marker = "o" if len(epochs) == 1 else None
        # Always include the last epoch.
        shown = [*range(0, len(epochs) - 1, step), len(epochs) - 1]
        axes.plot(
            [epochs[at] for at in shown],
            [values[at] for at in shown],
            dash,
            color=colour,
            linewidth=2,
            marker=marker,
            label=shorten(text, 40),
        )
    set_epoch_axis(axes, _last_epoch(curves))
    add_legend(figure)
    return figure, axes


def _last_epoch(curves: Mapping[str, Curve]) -> int:
    return max(epochs[-1] for epochs, _ in curves.values())


def _term_curve(rows: Rows, name: str) -> Curve:
    return _curve(rows, lambda row: row.get("terms", {}).get(name))


def _curve(rows: Rows, value: Callable[[Mapping[str, Any]], Any]) -> Curve:
    found = [(int(row["epoch"]), float(number)) for row in rows if (number := value(row)) is not None]
    return [epoch for epoch, _ in found], [number for _, number in found]
