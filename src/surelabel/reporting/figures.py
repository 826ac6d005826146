"""Choose the figures of a run and embed them in the page."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surelabel.plotting.curves import (
    accuracy_drawing,
    accuracy_on_test,
    compared_drawing,
    loss_drawing,
    memorised_curve,
)
from surelabel.plotting.density import density_drawing
from surelabel.plotting.drawing import HEIGHT, WIDTH, Drawing, darken
from surelabel.plotting.heat_maps import (
    confidence_drawing,
    confusion_drawing,
    count_pairs,
    mean_by_pair,
    shares_drawing,
)
from surelabel.plotting.memorisation import memorisation_figure, memorisation_text
from surelabel.reporting.reported_run import ReportedRun

NAMES = (
    *("accuracy", "loss", "memorisation", "density", "confidence", "suggested-given", "suggested-true", "transitions"),
    *("compared-accuracy", "compared-memorised"),
)
"""Names of all drawings of a report."""


@dataclass(frozen=True)
class EmbeddedFigure:
    """A figure as the template shows it: two data URIs, one for each colour scheme."""

    title: str
    text: str
    """What the figure shows, in words and numbers, for all readers."""
    light: str
    dark: str


def embed(drawings: Sequence[Drawing], folder: Path | None = None, prefix: str = "") -> list[EmbeddedFigure]:
    """Turn drawings into embedded SVG; with a folder, also write them there as PNG and SVG."""
    if folder is not None:
        for drawing in drawings:
            drawing.write(folder, prefix)
    return [
        EmbeddedFigure(drawing.title, drawing.text, _svg_uri(drawing.svg), _svg_uri(darken(drawing.svg)))
        for drawing in drawings
    ]


def list_files(folder: Path, num_runs: int) -> list[Path]:
    """Return the files that `embed` may write for a report of so many runs."""
    prefixes = ["", *(f"run{number}-" for number in range(1, num_runs + 1) if num_runs > 1)]
    return [folder / f"{prefix}{name}.{kind}" for prefix in prefixes for name in NAMES for kind in ("svg", "png")]


def _svg_uri(svg: str) -> str:
    return data_uri("image/svg+xml", svg.encode())


def data_uri(kind: str, content: bytes) -> str:
    """Return the content as a data URI, so that the page need not load it."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def training_drawings(run: ReportedRun) -> list[Drawing]:
    """Draw accuracy, loss and memorisation over epochs, where the run has them."""
    found = [accuracy_drawing(run.metrics), loss_drawing(run.metrics), _memorisation(run)]
    return [drawing for drawing in found if drawing is not None]


def _memorisation(run: ReportedRun) -> Drawing | None:
    if not any("false_labels" in row for row in run.metrics):
        return None
    figure = memorisation_figure({"": run.metrics})
    figure.set_size_inches(WIDTH, 1.75 * HEIGHT)
    return Drawing("memorisation", "Memorisation", memorisation_text(run.metrics), figure)


def label_drawings(run: ReportedRun) -> list[Drawing]:
    """Draw confidence and confusion of the labels."""
    size, names = len(run.class_names), run.class_names
    given, suggested = run.class_numbers("given"), run.class_numbers("suggested")
    drawings = [_density(run), _confidence(run, given, suggested)]
    title = "Suggested label against given label"
    table = count_pairs(given, suggested, size)
    drawings.append(confusion_drawing("suggested-given", title, ("Given label", "Suggested label"), table, names))
    if run.is_wrong is not None:
        title = "Suggested label against true label"
        table = count_pairs(run.class_numbers("clean"), suggested, size)
        drawings.append(confusion_drawing("suggested-true", title, ("True label", "Suggested label"), table, names))
    return [*drawings, _transitions(run)]


def _transitions(run: ReportedRun) -> Drawing:
    """Draw the estimated probability of each given label for each true class."""
    title, axes = "Estimated labels of each true class", ("True label (estimated)", "Given label")
    return shares_drawing("transitions", title, axes, run.audit.transition_matrix, run.class_names)


def _density(run: ReportedRun) -> Drawing:
    name, values = run.confidence
    groups = {"kept": ~run.is_suspicious, "looks wrong": run.is_suspicious}
    if run.is_wrong is not None:
        groups |= {"really right": ~run.is_wrong, "really wrong": run.is_wrong}
    return density_drawing(values, groups, name)


def _confidence(run: ReportedRun, given: np.ndarray, suggested: np.ndarray) -> Drawing:
    """Draw mean confidence by true and given label, as the paper does.

    Suggested labels take the place of true ones that are not known.
    """
    name, values = run.confidence
    word, rows = ("Suggested", suggested) if run.is_wrong is None else ("True", run.class_numbers("clean"))
    size = len(run.class_names)
    table, counts = mean_by_pair(values, rows, given, size), count_pairs(rows, given, size)
    title = f"Mean {name} by label pair"
    return confidence_drawing(title, (f"{word} label", "Given label"), table, counts, run.class_names)


def comparison_drawings(runs: Sequence[ReportedRun]) -> list[Drawing]:
    """Draw one figure per quantity with a line for each run."""
    metrics = {run.name: run.metrics for run in runs}
    tested = {name: accuracy_on_test(rows) for name, rows in metrics.items()}
    memorised = {name: memorised_curve(rows) for name, rows in metrics.items()}
    found = [
        compared_drawing("compared-accuracy", "Test accuracy", tested),
        compared_drawing("compared-memorised", "Wrong labels memorised", memorised),
    ]
    return [drawing for drawing in found if drawing is not None]
