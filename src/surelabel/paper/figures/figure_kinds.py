"""Draw each kind of figure from the runs of its panels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from matplotlib.figure import Figure

from surelabel.errors import RunError
from surelabel.paper.figures.confidence_density import density_figure, density_text, group_confidence
from surelabel.paper.figures.corrections import corrections_figure, corrections_text, find_corrections
from surelabel.paper.figures.gradient_share import gradient_figure, gradient_text
from surelabel.paper.figures.label_pairs import (
    confidence_figure,
    confidence_table,
    confidence_text,
    correction_figure,
    correction_table,
    correction_text,
)
from surelabel.paper.figures.panel_runs import SCHEDULES, FoundRun, RunQuery, choose_runs, method_text, setting_text
from surelabel.paper.figures.training_samples import read_known_samples, read_training_samples
from surelabel.plotting.drawing import missing_text
from surelabel.plotting.memorisation import memorisation_figure, memorisation_text

Value = TypeVar("Value")
MAX_TITLE_LENGTH = 36
"""Characters in a line of a panel's title."""
Chosen = Mapping[str, FoundRun | None]
"""The run of each panel, by the panel's name, or None."""


@dataclass(frozen=True)
class Picture:
    """A figure, its text alternative, and its runs; the first one names data and method."""

    figure: Figure
    text: str
    runs: Sequence[FoundRun]


Draw = Callable[[Mapping[str, RunQuery], Sequence[FoundRun]], Picture | None]
"""Draws from the panels and the runs found; returns None if nothing can be drawn."""


def draw_panels(draw: Callable[[Chosen], tuple[Figure, str]]) -> Draw:
    """Return a function that draws a figure with one run per panel, if there is any run."""

    def draw_found(wanted: Mapping[str, RunQuery], available: Sequence[FoundRun]) -> Picture | None:
        panels = choose_runs(wanted, available)
        runs = [found for found in panels.values() if found is not None]
        return Picture(*draw(panels), runs) if runs else None

    return draw_found


def draw_memorisation(panels: Chosen) -> tuple[Figure, str]:
    """Draw columns of curves over epochs."""
    runs = {_training_title(name, found): None if found is None else found.metrics for name, found in panels.items()}
    parts = [f"{title}: {memorisation_text(rows)}" for title, rows in runs.items() if rows is not None]
    empty = missing_text([title for title, rows in runs.items() if rows is None])
    return memorisation_figure(runs), " ".join(parts) + empty


def draw_gradients(panels: Chosen) -> tuple[Figure, str]:
    """Draw shares of the gradient over epochs."""
    runs = {_training_title(name, found): None if found is None else found.metrics for name, found in panels.items()}
    return gradient_figure(runs), gradient_text(runs)


def draw_densities(panels: Chosen) -> tuple[Figure, str]:
    """Draw the density of tau; panels are named after their data."""
    values = _by_setting(panels, lambda found: group_confidence(read_known_samples(found.run)))
    return density_figure(values), density_text(values)


def draw_densities_by_option(panels: Chosen) -> tuple[Figure, str]:
    """Draw the density of tau; panels are named after an option."""
    values = {
        name: None if found is None else group_confidence(read_known_samples(found.run))
        for name, found in panels.items()
    }
    return density_figure(values), density_text(values)


def draw_confidences(panels: Chosen) -> tuple[Figure, str]:
    """Draw the mean of tau by clean and given label."""
    tables = _by_setting(panels, lambda found: confidence_table(read_known_samples(found.run)))
    return confidence_figure(tables), confidence_text(tables)


def draw_corrections(panels: Chosen) -> tuple[Figure, str]:
    """Draw corrected against clean labels."""
    tables = _by_setting(panels, lambda found: correction_table(read_known_samples(found.run)))
    return correction_figure(tables), correction_text(tables)


def draw_corrected_images(wanted: Mapping[str, RunQuery], available: Sequence[FoundRun]) -> Picture | None:
    """Draw images with given and corrected labels; of any method if the wanted one was not run."""
    draw = draw_panels(_draw_images)
    return draw(wanted, available) or draw({name: replace(one, method=None) for name, one in wanted.items()}, available)


def _draw_images(panels: Chosen) -> tuple[Figure, str]:
    """Draw the only panel."""
    found = next(found for found in panels.values() if found is not None)
    rows = read_training_samples(found.run)
    corrections = find_corrections(rows)
    if not corrections:
        raise RunError(f"{found.run.path}: this run has corrected no label; there is nothing to show")
    train = found.corpus().train
    place = {str(id): at for at, id in enumerate(train.ids)}
    positions = torch.tensor([place[str(rows.ids[one.row])] for one in corrections])
    images = [image.numpy() for image in train.x[positions]]
    return corrections_figure(corrections, images), corrections_text(corrections, rows)


def _training_title(name: str, found: FoundRun | None) -> str:
    """Return a title with the method and schedule of a run."""
    if found is None:
        return name
    letter = name.partition(" ")[0]
    return f"{letter} {method_text(found)}, {SCHEDULES[found.config.optimiser.schedule.kind]}"


def _break_title(title: str) -> str:
    """Return the title in one or two lines, so that it fits over its panel."""
    return title if len(title) <= MAX_TITLE_LENGTH else ",\n".join(title.rsplit(", ", 1))


def _by_setting(panels: Chosen, value: Callable[[FoundRun], Value]) -> dict[str, Value | None]:
    """Return the value of each run, by its data and noise."""
    return {
        name if found is None else _break_title(setting_text(found)): None if found is None else value(found)
        for name, found in panels.items()
    }
