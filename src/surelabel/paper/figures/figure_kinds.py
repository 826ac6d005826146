"""How each kind of figure is drawn from the runs in its panels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from matplotlib.figure import Figure

from surelabel.errors import RunError
from surelabel.paper.figures.choosing import chosen
from surelabel.paper.figures.confidence_density import confidence_groups, density_figure, density_text
from surelabel.paper.figures.corrections import corrections_figure, corrections_text, surest_corrections
from surelabel.paper.figures.gradient_share import gradient_figure, gradient_text
from surelabel.paper.figures.label_pairs import (
    confidence_figure,
    confidence_table,
    confidence_text,
    correction_figure,
    correction_table,
    correction_text,
)
from surelabel.paper.figures.panel_runs import Found
from surelabel.paper.figures.training_samples import known_rows, training_rows
from surelabel.paper.figures.wanted import SCHEDULES, Wanted, method_text, setting_text
from surelabel.plotting.memorisation import memorisation_figure, memorisation_text
from surelabel.plotting.panels import missing_text

Value = TypeVar("Value")
LONGEST_TITLE = 36
"""Letters of a line over a panel."""
Chosen = Mapping[str, Found | None]
"""The panels by their names, with the run of each or None."""


@dataclass(frozen=True)
class Picture:
    """A figure, its text alternative, and the runs in it, of which the first names data and method."""

    figure: Figure
    text: str
    runs: Sequence[Found]


Draw = Callable[[Mapping[str, Wanted], Sequence[Found]], Picture | None]
"""From the panels and the runs that are there; None where these are not enough for anything."""


def from_panels(draw: Callable[[Chosen], tuple[Figure, str]]) -> Draw:
    """A figure with one run a panel, drawn where at least one of them is there."""

    def drawn(wanted: Mapping[str, Wanted], there: Sequence[Found]) -> Picture | None:
        panels = chosen(wanted, there)
        runs = [found for found in panels.values() if found is not None]
        return Picture(*draw(panels), runs) if runs else None

    return drawn


def memorisation(panels: Chosen) -> tuple[Figure, str]:
    """Columns of curves over epochs."""
    runs = {_trained(name, found): None if found is None else found.metrics for name, found in panels.items()}
    parts = [f"{title}: {memorisation_text(rows)}" for title, rows in runs.items() if rows is not None]
    empty = missing_text([title for title, rows in runs.items() if rows is None])
    return memorisation_figure(runs), " ".join(parts) + empty


def gradients(panels: Chosen) -> tuple[Figure, str]:
    """Shares of the gradient over epochs."""
    runs = {_trained(name, found): None if found is None else found.metrics for name, found in panels.items()}
    return gradient_figure(runs), gradient_text(runs)


def density(panels: Chosen) -> tuple[Figure, str]:
    """The density of tau; a panel is named after the data, which differ from panel to panel."""
    values = _by_setting(panels, lambda found: confidence_groups(known_rows(found.run)))
    return density_figure(values), density_text(values)


def density_by_option(panels: Chosen) -> tuple[Figure, str]:
    """The same where the panels differ in an option, by which they are named."""
    values = {
        name: None if found is None else confidence_groups(known_rows(found.run)) for name, found in panels.items()
    }
    return density_figure(values), density_text(values)


def confidence(panels: Chosen) -> tuple[Figure, str]:
    """Mean tau by clean and given label."""
    tables = _by_setting(panels, lambda found: confidence_table(known_rows(found.run)))
    return confidence_figure(tables), confidence_text(tables)


def correction(panels: Chosen) -> tuple[Figure, str]:
    """Corrected against clean labels."""
    tables = _by_setting(panels, lambda found: correction_table(known_rows(found.run)))
    return correction_figure(tables), correction_text(tables)


def corrected_images(wanted: Mapping[str, Wanted], there: Sequence[Found]) -> Picture | None:
    """Images with their given and corrected labels; where the wanted method was not run, another one's."""
    draw = from_panels(_images)
    return draw(wanted, there) or draw({name: replace(one, method=None) for name, one in wanted.items()}, there)


def _images(panels: Chosen) -> tuple[Figure, str]:
    """There is one panel."""
    found = next(found for found in panels.values() if found is not None)
    rows = training_rows(found.run)
    corrections = surest_corrections(rows)
    if not corrections:
        raise RunError(f"{found.run.path}: this run has corrected no label; there is nothing to show")
    train = found.corpus().train
    place = {str(id): at for at, id in enumerate(train.ids)}
    positions = torch.tensor([place[str(rows.ids[one.row])] for one in corrections])
    images = [image.numpy() for image in train.x[positions]]
    return corrections_figure(corrections, images), corrections_text(corrections, rows)


def _trained(name: str, found: Found | None) -> str:
    """Method and schedule of a column, as they are in the run."""
    if found is None:
        return name
    letter = name.partition(" ")[0]
    return f"{letter} {method_text(found)}, {SCHEDULES[found.config.optimiser.schedule.kind]}"


def _in_lines(title: str) -> str:
    """A title that fits over its panel."""
    return title if len(title) <= LONGEST_TITLE else ",\n".join(title.rsplit(", ", 1))


def _by_setting(panels: Chosen, value: Callable[[Found], Value]) -> dict[str, Value | None]:
    """Panels named after data and noise of their runs."""
    return {
        name if found is None else _in_lines(setting_text(found)): None if found is None else value(found)
        for name, found in panels.items()
    }
