"""Figures of runs that are not the paper's: the same kinds, named after their data and noise."""

from collections.abc import Iterator, Sequence

from surelabel.paper.figures import figure_kinds
from surelabel.paper.figures.catalogue import NumberedFigure
from surelabel.paper.figures.figure_kinds import Draw, draw_corrected_images, draw_panels
from surelabel.paper.figures.gradient_share import MEASURED
from surelabel.paper.figures.panel_runs import PAPER_DATA, FoundRun, RunQuery

BY_METHOD = {
    "memorisation": (
        "What becomes of clean and of false labels: {setting}",
        "false_labels",
        figure_kinds.draw_memorisation,
    ),
    "gradients": (
        "Share of the gradient from clean and from false labels: {setting}",
        MEASURED,
        figure_kinds.draw_gradients,
    ),
}
"""Figures with a panel for each method: title, what metrics must have, and how to draw them."""
OF_TAU = {
    "density": (r"Density of $\tau$: {method}, {setting}", figure_kinds.draw_densities),
    "confidence": (r"Average $\tau$ by clean and false label: {method}, {setting}", figure_kinds.draw_confidences),
}
CORRECTION = "Corrected against clean labels: {method}, {setting}"
IMAGES = "Given label above in red, corrected label below in green: {method}, {setting}"

Own = tuple[NumberedFigure, Sequence[FoundRun]]


def list_own_figures(found: Sequence[FoundRun]) -> list[Own]:
    """Return the figures that runs on other data than the paper's can show, with their runs."""
    groups: dict[str, list[FoundRun]] = {}
    for one in found:
        if one.data is None:
            groups.setdefault(_setting_name(one), []).append(one)
    return [figure for setting, runs in groups.items() for figure in _of_setting(setting, runs)]


def _setting_name(found: FoundRun) -> str:
    """Return data and noise as a part of a file name, such as digits-symmetric-40."""
    noise = found.config.noise
    words = [] if noise is None else [noise.kind] + ([f"{100 * noise.rate:g}"] if noise.rate else [])
    return "-".join([found.file_name, *words])


def _of_setting(setting: str, runs: list[FoundRun]) -> Iterator[Own]:
    methods = list(dict.fromkeys(one.config.method.name for one in runs))
    for kind, (title, measured, draw) in BY_METHOD.items():
        shown = [one for one in runs if any(measured in row for row in one.metrics)]
        panels = {
            f"({chr(ord('a') + number)}) {method}": _query(method)
            for number, method in enumerate(dict.fromkeys(one.config.method.name for one in shown))
        }
        if panels:
            yield _figure(f"{kind}-{setting}", title, panels, draw_panels(draw)), shown
    for method in methods:
        yield from _of_method(f"{setting}-{method}", method, [one for one in runs if one.config.method.name == method])


def _of_method(name: str, method: str, runs: list[FoundRun]) -> Iterator[Own]:
    panels = {"": _query(method)}
    is_known = runs[0].run.labels()["clean"].null_count == 0
    if is_known and runs[0].run.samples()["tau"].null_count == 0:
        for kind, (title, draw) in OF_TAU.items():
            yield _figure(f"{kind}-{name}", title, panels, draw_panels(draw)), runs
    if is_known:
        yield _figure(f"correction-{name}", CORRECTION, panels, draw_panels(figure_kinds.draw_corrections)), runs
    if runs[0].is_image:
        yield _figure(f"corrected-{name}", IMAGES, panels, draw_corrected_images), runs


def _query(method: str) -> RunQuery:
    return RunQuery(next(iter(PAPER_DATA)), method=method)  # runs on other data take the place of the paper's


def _figure(name: str, title: str, panels: dict[str, RunQuery], draw: Draw) -> NumberedFigure:
    return NumberedFigure(None, name, title, panels, (), draw)
