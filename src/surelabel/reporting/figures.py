"""Which figures a run gets, and how they stand in the page."""

from collections.abc import Sequence
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
from surelabel.reporting.chapter import Chapter
from surelabel.reporting.markup import Html, element
from surelabel.reporting.thumbnails import data_uri


def training_drawings(chapter: Chapter) -> list[Drawing]:
    """Curves over epochs."""
    found = [accuracy_drawing(chapter.metrics), loss_drawing(chapter.metrics), _memorisation(chapter)]
    return [drawing for drawing in found if drawing is not None]


def _memorisation(chapter: Chapter) -> Drawing | None:
    if not any("false_labels" in row for row in chapter.metrics):
        return None
    figure = memorisation_figure({"": chapter.metrics})
    figure.set_size_inches(WIDTH, 1.75 * HEIGHT)
    return Drawing("memorisation", "Memorisation", memorisation_text(chapter.metrics), figure)


def label_drawings(chapter: Chapter) -> list[Drawing]:
    """Confidence and confusion."""
    size, names = len(chapter.class_names), chapter.class_names
    given, suggested = chapter.codes("given"), chapter.codes("suggested")
    drawings = [_density(chapter), _confidence(chapter, given, suggested)]
    title = "Suggested label against given label"
    table = count_pairs(given, suggested, size)
    drawings.append(confusion_drawing("suggested-given", title, ("Given label", "Suggested label"), table, names))
    if chapter.is_wrong is not None:
        title = "Suggested label against true label"
        table = count_pairs(chapter.codes("clean"), suggested, size)
        drawings.append(confusion_drawing("suggested-true", title, ("True label", "Suggested label"), table, names))
    return [*drawings, _transitions(chapter)]


def _transitions(chapter: Chapter) -> Drawing:
    """Which labels each class is probably given."""
    title, names = "Estimated labels of each true class", chapter.class_names
    return shares_drawing(
        "transitions", title, ("True label (estimated)", "Given label"), chapter.audit.transition_matrix, names
    )


def _density(chapter: Chapter) -> Drawing:
    what, values = chapter.confidence
    groups = {"kept": ~chapter.flagged, "looks wrong": chapter.flagged}
    if chapter.is_wrong is not None:
        groups |= {"really right": ~chapter.is_wrong, "really wrong": chapter.is_wrong}
    return density_drawing(values, groups, what)


def _confidence(chapter: Chapter, given: np.ndarray, suggested: np.ndarray) -> Drawing:
    """As in the paper: rows are true labels; where these are not known, suggested ones stand in."""
    what, values = chapter.confidence
    word, rows = ("Suggested", suggested) if chapter.is_wrong is None else ("True", chapter.codes("clean"))
    size = len(chapter.class_names)
    table, number = mean_by_pair(values, rows, given, size), count_pairs(rows, given, size)
    title = f"Mean {what} by label pair"
    return confidence_drawing(title, (f"{word} label", "Given label"), table, number, chapter.class_names)


def compared_drawings(chapters: Sequence[Chapter]) -> list[Drawing]:
    """One figure per quantity, a line per run."""
    runs = {chapter.name: chapter.metrics for chapter in chapters}
    found = [
        compared_drawing("compared-accuracy", "Test accuracy", {n: accuracy_on_test(rows) for n, rows in runs.items()}),
        compared_drawing(
            "compared-memorised", "False labels memorised", {n: memorised_curve(r) for n, r in runs.items()}
        ),
    ]
    return [drawing for drawing in found if drawing is not None]


def shown(drawings: Sequence[Drawing], folder: Path | None = None, prefix: str = "") -> Html:
    """The figures side by side where there is room; also as files where a folder is given."""
    for drawing in drawings if folder is not None else ():
        assert folder is not None
        drawing.write(folder, prefix)
    return element("div", *map(_figure, drawings), class_="figures")


def _figure(drawing: Drawing) -> Html:
    """As SVG in the page; the text alternative is there for everyone, because numbers in words help all readers."""
    light = drawing.svg
    dark = element("source", media="(prefers-color-scheme: dark)", srcset=_uri(darken(light)))
    picture = element("picture", dark, element("img", src=_uri(light), alt=drawing.text, class_="drawing"))
    words = element("details", element("summary", "In words"), element("p", drawing.text))
    return element("figure", element("figcaption", drawing.title), picture, words)


def _uri(svg: str) -> str:
    return data_uri("image/svg+xml", svg.encode())
