"""Figures 12 and 13: images with the given label in red and the corrected one in green."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from surelabel.paper.figures.training_samples import TrainingSamples
from surelabel.plotting.drawing import GRID, SMALL_TEXT, shorten

RED, GREEN = "#c3202f", "#00785a"
NUM_SHOWN, NUM_COLUMNS = 18, 6
NUM_PER_PAIR = 2
"""How many images with the same two labels are shown before those of other labels."""
CELL = (1.75, 2.05)
"""Width and height of an image with its labels, in inches."""
SMALL_SIDE = 64
"""Pixels: images up to this size are drawn without smoothing."""


@dataclass(frozen=True)
class Correction:
    """A sample whose label was corrected."""

    row: int
    given: str
    corrected: str
    probability: float


def find_corrections(rows: TrainingSamples, count: int = NUM_SHOWN) -> list[Correction]:
    """Return corrections by the targets, surest first, with few of each pair of labels.

    If no target has changed, the suggestions of the method are used instead.
    """
    corrected, probability = rows.corrected, rows.target.max(1)
    if (corrected == rows.given).all():
        corrected, probability = rows.suggested, rows.suggested_probability
    changed = np.flatnonzero(corrected != rows.given)
    order = changed[np.argsort(-probability[changed], kind="stable")].tolist()
    chosen = _mix_pairs([(int(rows.given[row]), int(corrected[row])) for row in order], count)
    names = rows.class_names
    return [
        Correction(row, names[rows.given[row]], names[corrected[row]], float(probability[row]))
        for row in (order[at] for at in chosen)
    ]


def _mix_pairs(pairs: Sequence[tuple[int, int]], count: int) -> list[int]:
    """Return indices into `pairs`: at most NUM_PER_PAIR of each, then the others."""
    seen: dict[tuple[int, int], int] = {}
    first: list[int] = []
    rest: list[int] = []
    for at, pair in enumerate(pairs):
        seen[pair] = seen.get(pair, 0) + 1
        (first if seen[pair] <= NUM_PER_PAIR else rest).append(at)
    return (first + rest)[:count]


def corrections_figure(corrections: Sequence[Correction], images: Sequence[np.ndarray]) -> Figure:
    """Draw the image of each correction, given as (C, H, W) uint8."""
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
    axes.set_title(shorten(correction.given, 18), color=RED, fontsize=SMALL_TEXT, pad=4)
    axes.set_xlabel(shorten(correction.corrected, 18), color=GREEN, fontsize=SMALL_TEXT, labelpad=4)


def corrections_text(corrections: Sequence[Correction], rows: TrainingSamples) -> str:
    """Return the corrections in words, and how many are right if clean labels are known."""
    words = "; ".join(f"{one.given} to {one.corrected} ({one.probability:.2f})" for one in corrections)
    text = (
        f"{len(corrections)} sure corrections, row by row, from the given to the corrected label (its weight): {words}."
    )
    clean = [int(rows.clean[one.row]) for one in corrections]
    if clean and min(clean) >= 0:
        right = sum(rows.class_names[at] == one.corrected for at, one in zip(clean, corrections, strict=True))
        text += f" {right} of them are right."
    return text
