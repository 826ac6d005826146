"""The most suspicious samples of each class: the given label in red, the suggestion in green."""

from collections.abc import Iterator

import numpy as np
import torch

from surelabel.reporting.markup import Html, element, joined
from surelabel.reporting.reported_run import ReportedRun
from surelabel.reporting.text import amount
from surelabel.reporting.thumbnails import Scale, bars, image

MOST_SAMPLES = 240
"""Samples of the whole report; with them an HTML file stays far below 5 MB."""
OF_A_CLASS = (12, 6, 4, 3, 2)
"""Samples of a class: as many as there is room for; 12 and 6 fill whole rows on a phone and on a desk."""
NUM_VALUES = 4
"""Features of a row that are written out."""


def gallery(chapter: ReportedRun, most: int = MOST_SAMPLES) -> Html:
    """A row of samples for each class that has suspects, the classes with most suspects first where not all fit."""
    chosen = _chosen(chapter, most)
    if not chosen:
        return element("p", "No label looks wrong.")
    hidden = len({str(name) for name in chapter.columns["given"][chapter.flagged]}) - len(chosen)
    verb = "is" if hidden == 1 else "are"
    note = f"{amount(hidden, 'class', 'classes')} with fewer suspects {verb} not shown." if hidden else None
    show = _Show(chapter, [row for rows in chosen.values() for row in rows])
    parts = [_of_class(chapter, name, rows, show) for name, rows in chosen.items()]
    legend = show.explanation()
    return joined(*(element("p", text, class_="note") for text in (note, legend) if text), *parts)


def _chosen(chapter: ReportedRun, most: int) -> dict[str, list[int]]:
    """Row numbers by given class, in the order of the classes."""
    rows: dict[str, list[int]] = {name: [] for name in chapter.class_names}
    for row in np.flatnonzero(chapter.flagged).tolist():
        rows[str(chapter.columns["given"][row])].append(row)
    rows = {name: own for name, own in rows.items() if own}
    shown = sorted(rows, key=lambda name: -len(rows[name]))[:most]
    each = next((size for size in OF_A_CLASS if size * len(shown) <= most), 1)
    return {name: own[:each] for name, own in rows.items() if name in set(shown)}


def _of_class(chapter: ReportedRun, name: str, rows: list[int], show: "_Show") -> Html:
    total = int((chapter.columns["given"][chapter.flagged] == name).sum())
    title = element("h4", "Given label ", element("span", name, class_="given"))
    part = "the first is shown" if len(rows) == 1 else f"the first {len(rows)} are shown"
    note = amount(total, "suspect") + (f", {part}" if total > len(rows) else "")
    cards = [element("li", show.sample(row), _caption(chapter, row)) for row in rows]
    return joined(title, element("p", note, class_="note"), element("ul", *cards, class_="gallery"))


def _caption(chapter: ReportedRun, row: int) -> Html:
    values = {name: column[row] for name, column in chapter.columns.items()}
    lines = [
        element("span", element("span", "given ", class_="word"), values["given"], class_="given"),
        _suggestion(values["given"], values["suggested"]),
    ]
    if "clean" in values:
        lines.append(element("span", element("span", "true ", class_="word"), values["clean"], class_="true"))
    lines.append(element("span", f"P(wrong) {chapter.audit.p_wrong[row]:.3f}", class_="word"))
    lines.append(element("span", values["id"], class_="id", title=values["id"]))
    return element("div", *lines, class_="caption")


def _suggestion(given: str, suggested: str) -> Html:
    if given == suggested:
        return element("span", "no better label found", class_="word")
    return element("span", element("span", "suggested ", class_="word"), suggested, class_="suggested")


class _Show:
    """Draws the rows of a chapter; all inputs are read at once, because they may lie on disk."""

    def __init__(self, chapter: ReportedRun, rows: list[int]) -> None:
        self.chapter = chapter
        self.inputs = dict(self._read(rows))
        train = chapter.parts.get("train")
        self.scale = None if train is None or train.is_image else Scale(train)

    def _read(self, rows: list[int]) -> Iterator[tuple[int, torch.Tensor]]:
        for part, examples in self.chapter.parts.items():
            place = {row: self.chapter.places.get((part, str(self.chapter.columns["id"][row]))) for row in rows}
            own = {
                row: at for row, at in place.items() if at is not None and self.chapter.columns["split"][row] == part
            }
            if own:
                yield from zip(own, examples.x[torch.tensor(list(own.values()))], strict=True)

    def explanation(self) -> str | None:
        """How to read what is drawn."""
        if not self.inputs:
            return "The data could not be read again; the samples are named by their ids."
        if self.scale is None:
            return None
        return f"A bar is a feature: up and blue is above the middle of all rows, down and orange below. First {NUM_VALUES} values beneath."

    def sample(self, row: int) -> Html | None:
        """The picture of a row, or nothing where the data could not be read again."""
        if row not in self.inputs:
            return None
        given, suggested = (self.chapter.columns[name][row] for name in ("given", "suggested"))
        text = f"given {given}, suggested {suggested}"
        values = self.inputs[row]
        if self.scale is None:
            return image(values, f"Sample {self.chapter.columns['id'][row]}: {text}")
        return joined(
            bars(values, self.scale, f"{len(values)} features: {_written(values)}"),
            element("p", _written(values), class_="values"),
        )


def _written(values: torch.Tensor) -> str:
    shown = ", ".join(f"{value:.3g}" for value in values[:NUM_VALUES].tolist())
    return shown + (", ..." if len(values) > NUM_VALUES else "")
