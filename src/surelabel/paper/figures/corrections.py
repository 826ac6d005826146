"""The paper's last two figures: images with their given label above in red and the corrected one below in green."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from surelabel.paper.figures.training_samples import TrainingRows
from surelabel.plotting.drawing import GRID, SMALL_TEXT, shortened

RED, GREEN = "#c3202f", "#00785a"
NUM_SHOWN, NUM_COLUMNS = 18, 6
OF_A_PAIR = 2
"""Images of the same two labels that are shown before others have had their turn."""
CELL = (1.75, 2.05)
"""Inches."""
SMALL_SIDE = 64
"""Pixels up to which an image is drawn with sharp edges."""


@dataclass(frozen=True)
class Correction:
    """A row whose label was corrected."""

    row: int
    given: str
    corrected: str
    probability: float


def surest_corrections(rows: TrainingRows, count: int = NUM_SHOWN) -> list[Correction]:
    """The rows that the targets correct, the surest first, few of a pair of labels; verdicts where no target has moved."""
    corrected, probability = rows.corrected, rows.target.max(1)
    if (corrected == rows.given).all():
        corrected, probability = rows.suggested, rows.suggested_probability
    changed = np.flatnonzero(corrected != rows.given)
    order = changed[np.argsort(-probability[changed], kind="stable")].tolist()
    chosen = _varied([(int(rows.given[row]), int(corrected[row])) for row in order], count)
    names = rows.class_names
    return [
        Correction(row, names[rows.given[row]], names[corrected[row]], float(probability[row]))
        for row in (order[at] for at in chosen)
    ]


def _varied(pairs: Sequence[tuple[int, int]], count: int) -> list[int]:
    """Places in `pairs`: at most OF_A_PAIR of each, then the rest where there is room."""
    seen: dict[tuple[int, int], int] = {}
    first: list[int] = []
    rest: list[int] = []
    for at, pair in enumerate(pairs):
        seen[pair] = seen.get(pair, 0) + 1
        (first if seen[pair] <= OF_A_PAIR else rest).append(at)
    return (first + rest)[:count]


def corrections_figure(corrections: Sequence[Correction], images: Sequence[np.ndarray]) -> Figure:
    """`images` are (C, H, W) uint8, one for each correction."""
    columns = min(NUM_COLUMNS, max(1, len(corrections)))
    num_rows = -(-len(corrections) // columns)
    figure = Figure(figsize=(CELL[0] * columns, CELL[1] * num_rows + 0.9), layout="constrained")
    axes = list(figure.subplots(num_rows, columns, squeeze=False).flat)
    for one, correction, image in zip(axes, corrections, images, strict=False):
        _draw(one, correction, image)
    for one in axes[len(corrections) :]:
        one.set_axis_off()
    return figure


def _draw(axes: Axes, correction: Correction, image: np.ndarray) -> None:
    is_grey = len(image) < 3
    picture = image[0] if is_grey else image[:3].transpose(1, 2, 0)
    smooth = "nearest" if max(picture.shape[:2]) <= SMALL_SIDE else "antialiased"
    axes.imshow(picture, cmap="gray" if is_grey else None, vmin=0, vmax=255, interpolation=smooth)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color(GRID)
    axes.set_title(shortened(correction.given, 18), color=RED, fontsize=SMALL_TEXT, pad=4)
    axes.set_xlabel(shortened(correction.corrected, 18), color=GREEN, fontsize=SMALL_TEXT, labelpad=4)


def corrections_text(corrections: Sequence[Correction], rows: TrainingRows) -> str:
    """Every image in words; how many corrections are right where clean labels are known."""
    words = "; ".join(f"{one.given} to {one.corrected} ({one.probability:.2f})" for one in corrections)
    text = (
        f"{len(corrections)} sure corrections, row by row, from the given to the corrected label (its weight): {words}."
    )
    clean = [int(rows.clean[one.row]) for one in corrections]
    if clean and min(clean) >= 0:
        right = sum(rows.class_names[at] == one.corrected for at, one in zip(clean, corrections, strict=True))
        text += f" {right} of them are right."
    return text
