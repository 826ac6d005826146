"""Figure 3: the shares of the gradient that come from clean and from false labels, over epochs."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from surelabel.plotting.curves import Curve, Rows
from surelabel.plotting.drawing import (
    BLUE,
    GREY,
    TEXT,
    VERMILION,
    add_legend,
    leave_empty,
    make_panels,
    missing_text,
    set_epoch_axis,
)

MEASURED = "gradient_share"
STYLES = {"clean": ("clean labels", BLUE, "-"), "false": ("false labels", VERMILION, "--")}
"""Name in the legend, colour and dash of each share."""
PANEL = (4.0, 3.0)


def gradient_shares(rows: Rows) -> dict[str, Curve]:
    """Return both shares in percent over the epochs that measured them."""
    measured = [row for row in rows if MEASURED in row]
    epochs = [int(row["epoch"]) for row in measured]
    return {name: (epochs, [100 * row[MEASURED][name] for row in measured]) for name in STYLES}


def unmeasured_text(rows: Rows) -> str:
    """Return in how many epochs the gradient was not measured, for example with mixed inputs."""
    missing = sum(MEASURED not in row for row in rows)
    return f"not measured in {missing} of {len(rows)} epochs" if missing else ""


def gradient_figure(runs: Mapping[str, Rows | None]) -> Figure:
    """Draw a panel for the metrics of each run, by its title; a panel without a run stays empty."""
    figure, axes = make_panels(1, len(runs), PANEL)
    for one, (title, rows) in zip(axes[0], runs.items(), strict=True):
        one.set_ylim(-3, 103)
        one.set_yticks(range(0, 101, 25))
        if rows is None:
            leave_empty(one, title)
        else:
            _draw(one, title, gradient_shares(rows))
            one.text(0.5, 0.5, unmeasured_text(rows), transform=one.transAxes, ha="center", color=GREY, fontsize=TEXT)
    axes[0, 0].set_ylabel("Share of the gradient (%)", fontsize=TEXT)
    add_legend(figure, 2)
    return figure


def gradient_text(runs: Mapping[str, Rows | None]) -> str:
    """Return the first, middle and last epoch of each panel in words."""
    parts = [_describe(title, rows) for title, rows in runs.items() if rows is not None]
    return " ".join(parts) + missing_text([title for title, rows in runs.items() if rows is None])


def _draw(axes: Axes, title: str, shares: Mapping[str, Curve]) -> None:
    for name, (epochs, values) in shares.items():
        text, colour, dash = STYLES[name]
        marker = "o" if len(epochs) == 1 else None
        axes.plot(epochs, values, dash, color=colour, linewidth=2, marker=marker, label=text)
    set_epoch_axis(axes, max((epochs[-1] for epochs, _ in shares.values() if epochs), default=2))
    axes.set_title(title, fontsize=TEXT)


def _describe(title: str, rows: Rows) -> str:
    epochs, values = gradient_shares(rows)["false"]
    if not epochs:
        return f"{title}: the gradient was not measured."
    places = sorted({0, len(epochs) // 2, len(epochs) - 1})
    words = ", ".join(f"{values[at]:.1f} % in epoch {epochs[at]}" for at in places)
    missing = f" It was {text}." if (text := unmeasured_text(rows)) else ""
    return f"{title}: false labels have {words} of the gradient, clean labels the rest.{missing}"
