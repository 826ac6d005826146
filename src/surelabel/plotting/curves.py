"""Curves over epochs: accuracies and loss terms of a run, and one figure of several runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from surelabel.plotting.drawing import LINES, Drawing, add_legend, make_figure, set_epoch_axis, shorten

Rows = Sequence[Mapping[str, Any]]
"""The metrics of a run, a mapping per epoch, as `RunDir.metrics` gives them."""
Curve = tuple[list[int], list[float]]
"""Epochs, and a value for each."""

MOST_POINTS = 400
"""Points of a drawn line; more are not seen."""
MOST_TERMS = 7


def names_of_tests(rows: Rows) -> list[str]:
    """Names of the test sets that were evaluated."""
    return list(dict.fromkeys(name for row in rows for name in row.get("tests", {})))


def accuracy_on_test(rows: Rows, name: str | None = None) -> Curve:
    """Accuracy on a test set, by default the first."""
    name = name or next(iter(names_of_tests(rows)), None)
    return _curve(rows, lambda row: row.get("tests", {}).get(name, {}).get("top1"))


def memorised_curve(rows: Rows) -> Curve:
    """Share of the false labels that are predicted; empty where clean labels are not known."""
    return _curve(rows, lambda row: row.get("false_labels", {}).get("memorised"))


def accuracy_curves(rows: Rows) -> dict[str, Curve]:
    """What can be drawn of accuracies, by the words of the legend."""
    tests = names_of_tests(rows)
    found = {f"test{'' if len(tests) == 1 else f' ({name})'}": accuracy_on_test(rows, name) for name in tests}
    found["held-out rows, given label"] = _curve(rows, lambda row: row.get("validation", {}).get("top1"))
    found["training rows, given label"] = _curve(rows, lambda row: row.get("given_accuracy"))
    found["targets that are right"] = _curve(rows, lambda row: row.get("correction_accuracy"))
    return {name: curve for name, curve in found.items() if curve[0]}


def accuracy_drawing(rows: Rows) -> Drawing | None:
    """Accuracies of one run."""
    curves = accuracy_curves(rows)
    return _shares("accuracy", "Accuracy", curves) if curves else None


def compared_drawing(name: str, title: str, curves: Mapping[str, Curve]) -> Drawing | None:
    """One quantity of several runs; runs that do not have it are left out."""
    there = {run: curve for run, curve in curves.items() if curve[0]}
    return _shares(name, title, there) if there else None


def loss_drawing(rows: Rows) -> Drawing | None:
    """The objective and its terms."""
    names = list(dict.fromkeys(name for row in rows for name in row.get("terms", {})))
    curves = {"objective": _curve(rows, lambda row: row.get("loss"))} if len(names) != 1 else {}
    for name in names[: MOST_TERMS - len(curves)]:
        curves[f"term {name}"] = _curve(rows, lambda row, name=name: row.get("terms", {}).get(name))
    curves = {name: curve for name, curve in curves.items() if curve[0]}
    if not curves:
        return None
    figure, axes = _lines(curves)
    axes.set_ylabel("Loss")
    ends = "; ".join(f"{name} from {values[0]:.3g} to {values[-1]:.3g}" for name, (_, values) in curves.items())
    return Drawing("loss", "Loss terms", f"Loss over {_last_epoch(curves)} epochs: {ends}.", figure)


def _shares(name: str, title: str, curves: Mapping[str, Curve]) -> Drawing:
    figure, axes = _lines({text: (epochs, [100 * v for v in values]) for text, (epochs, values) in curves.items()})
    axes.set_ylabel(f"{title} (%)")
    ends = "; ".join(
        f"{text} {100 * values[0]:.1f} % in epoch {epochs[0]}, {100 * values[-1]:.1f} % in epoch {epochs[-1]}"
        for text, (epochs, values) in curves.items()
    )
    return Drawing(name, title, f"{title} over {_last_epoch(curves)} epochs: {ends}.", figure)


def _lines(curves: Mapping[str, Curve]) -> tuple[Any, Any]:
    figure, axes = make_figure(height=2.8 + 0.24 * len(curves))
    for number, (text, (epochs, values)) in enumerate(curves.items()):
        colour, dash = LINES[number % len(LINES)]
        step = max(1, len(epochs) // MOST_POINTS)
        marker = "o" if len(epochs) == 1 else None
        # The last epoch is always drawn, whatever the step.
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


def _curve(rows: Rows, value: Any) -> Curve:
    found = [(int(row["epoch"]), float(number)) for row in rows if (number := value(row)) is not None]
    return [epoch for epoch, _ in found], [number for _, number in found]
