"""The gallery: the most suspicious samples of each class, drawn as thumbnails or as bars."""

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from surelabel.data.corpus import Examples
from surelabel.data.images.decode import Unreadable, to_image
from surelabel.errors import DataError
from surelabel.reporting.figures import data_uri
from surelabel.reporting.reported_run import ReportedRun
from surelabel.reporting.text import amount
from surelabel.reporting.texts import mark_texts
from surelabel.training.word_marks import Piece

MAX_SAMPLES = 240
"""Samples in the whole report; this keeps the HTML file far below 5 MB."""
SAMPLES_PER_CLASS = (12, 6, 4, 3, 2)
"""The largest of these that fits is used; 12 and 6 fill whole rows on phones and on desktops."""
NUM_VALUES = 4
"""Features of a row that are written out as numbers."""
SMALL_SIDE = 64
"""Images up to this many pixels are stored without loss; arrays are enlarged with sharp edges."""
THUMBNAIL_SIDE = 120
JPEG_QUALITY = 70
MAX_BARS = 64
"""Bars of a row; with more features, each bar is the mean of several neighbours."""
BAR_HEIGHT = 40
MAX_MEASURED_VALUES = 2_000_000
"""Limits how many rows are read to find the usual range of each feature."""


@dataclass(frozen=True)
class Thumbnail:
    """An image as a data URI."""

    uri: str
    is_small: bool
    text: str


@dataclass(frozen=True)
class Bars:
    """A feature vector as bars, each given by its top, its height and whether it points up."""

    bars: list[tuple[str, str, bool]]
    height: int
    text: str
    values: str


@dataclass(frozen=True)
class Sample:
    """A suspicious sample; without image, text and bars if the data could not be read again."""

    id: str
    given: str
    suggested: str
    clean: str | None
    p_wrong: float
    thumbnail: Thumbnail | None
    bars: Bars | None
    words: list[Piece] | None = None
    """Text in pieces."""
    note: str | None = None


@dataclass(frozen=True)
class ClassSamples:
    """The first suspects that were given one class."""

    name: str
    note: str
    samples: list[Sample]


@dataclass(frozen=True)
class Gallery:
    """Suspects by given class, with notes on how to read them."""

    notes: list[str]
    classes: list[ClassSamples]


def make_gallery(run: ReportedRun, max_samples: int = MAX_SAMPLES) -> Gallery:
    """Draw the first suspects of each class; if not all classes fit, those with most suspects."""
    chosen = _choose_rows(run, max_samples)
    if not chosen:
        return Gallery([], [])
    num_hidden = len({str(name) for name in run.columns["given"][run.is_suspicious]}) - len(chosen)
    painter = Painter(run, [row for rows in chosen.values() for row in rows])
    notes = [_hidden_note(num_hidden), painter.legend()]
    classes = [
        ClassSamples(name, _class_note(run, name, len(rows)), [painter.sample(row) for row in rows])
        for name, rows in chosen.items()
    ]
    return Gallery([note for note in notes if note], classes)


def _choose_rows(run: ReportedRun, max_samples: int) -> dict[str, list[int]]:
    """Return the rows to show for each given class, in the order of the classes."""
    rows: dict[str, list[int]] = {name: [] for name in run.class_names}
    for row in np.flatnonzero(run.is_suspicious).tolist():
        rows[str(run.columns["given"][row])].append(row)
    rows = {name: suspects for name, suspects in rows.items() if suspects}
    shown = sorted(rows, key=lambda name: -len(rows[name]))[:max_samples]
    per_class = next((size for size in SAMPLES_PER_CLASS if size * len(shown) <= max_samples), 1)
    return {name: suspects[:per_class] for name, suspects in rows.items() if name in set(shown)}


def _hidden_note(num_hidden: int) -> str | None:
    verb = "is" if num_hidden == 1 else "are"
    return f"{amount(num_hidden, 'class', 'classes')} with fewer suspects {verb} not shown." if num_hidden else None


def _class_note(run: ReportedRun, name: str, num_shown: int) -> str:
    total = int((run.columns["given"][run.is_suspicious] == name).sum())
    shown = "the first is shown" if num_shown == 1 else f"the first {num_shown} are shown"
    return amount(total, "suspect") + (f", {shown}" if total > num_shown else "")


class Painter:
    """Draws rows of a run; reads all inputs at once, because they may be on disk."""

    def __init__(self, run: ReportedRun, rows: list[int]) -> None:
        self.run = run
        train = run.splits.get("train")
        self.texts = mark_texts(run, rows)
        self.inputs = dict(self._read(rows)) if self.texts is None else {}
        self.originals = run.find_originals() if self.inputs else None
        is_features = train is not None and not train.is_image and self.texts is None
        self.range = _FeatureRange(train) if train is not None and is_features else None

    def _read(self, rows: list[int]) -> Iterator[tuple[int, Tensor]]:
        for split, positions in self.run.locate(rows).items():
            found = self.run.splits[split].x[torch.tensor(list(positions.values()))]
            yield from zip(positions, found, strict=True)

    def legend(self) -> str | None:
        """Explain how to read the drawings; images need no explanation."""
        if self.texts is not None:
            return self.texts.legend
        if not self.inputs:
            return "The data could not be read again; the samples are named by their ids."
        if self.range is None:
            return None
        return (
            "A bar is a feature: up and blue is above the middle of all rows, down and orange below. "
            f"First {NUM_VALUES} values beneath."
        )

    def sample(self, row: int, note: str | None = None) -> Sample:
        """Draw one row of the audit, with a note below."""
        values = {name: str(self.run.columns[name][row]) for name in ("id", "given", "suggested")}
        clean = str(self.run.columns["clean"][row]) if "clean" in self.run.columns else None
        thumbnail = bars = words = None
        if self.texts is not None:
            words = self.texts.pieces.get(row)
        elif row in self.inputs:
            text = f"Sample {values['id']}: given {values['given']}, suggested {values['suggested']}"
            if self.range is None:
                thumbnail = self._thumbnail(row, values["id"], text)
            else:
                bars = _make_bars(self.inputs[row], self.range)
        p_wrong = float(self.run.columns["p_wrong"][row])
        return Sample(**values, clean=clean, p_wrong=p_wrong, thumbnail=thumbnail, bars=bars, words=words, note=note)

    def _thumbnail(self, row: int, id: str, text: str) -> Thumbnail:
        """Draw the original, or what networks see where there is none or it cannot be read."""
        if self.originals is not None and id in self.originals:
            with contextlib.suppress(Unreadable, DataError):
                found = _make_thumbnail(self.originals.read(id, THUMBNAIL_SIDE), text)
                return replace(found, is_small=False)
        return _make_thumbnail(to_image(self.inputs[row]), text)


def _make_thumbnail(image: Image.Image, text: str) -> Thumbnail:
    """Encode an image: small ones without loss, large ones scaled down as JPEG."""
    is_small = max(image.size) <= SMALL_SIDE
    uri = data_uri("image/png", _png(image)) if is_small else data_uri("image/jpeg", _jpeg(image))
    return Thumbnail(uri, is_small, text)


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def _jpeg(image: Image.Image) -> bytes:
    image.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return file.getvalue()


class _FeatureRange:
    """Median and spread of each feature, measured on evenly spaced rows."""

    def __init__(self, train: Examples) -> None:
        size = min(len(train), max(2, MAX_MEASURED_VALUES // int(train.x.shape[1])))
        rows = torch.linspace(0, len(train) - 1, size).long()
        low, self.median, high = np.quantile(train.x[rows].numpy(), (0.05, 0.5, 0.95), axis=0)
        self.spread = np.maximum(high - self.median, self.median - low).clip(1e-12)

    def scale(self, values: Tensor) -> np.ndarray:
        """Map values (D,) to [-1, 1]: 0 is the median, 1 and -1 are the usual extremes."""
        scaled: np.ndarray = ((values.numpy() - self.median) / self.spread).clip(-1, 1)
        return scaled


def _make_bars(values: Tensor, usual: _FeatureRange) -> Bars:
    """Draw features (D,) as bars up and down from their medians."""
    heights = [float(part.mean()) for part in np.array_split(usual.scale(values), min(MAX_BARS, len(values)))]
    half = BAR_HEIGHT / 2
    bars = [
        (f"{half - max(height, 0) * half:.1f}", f"{max(abs(height) * half, 0.5):.1f}", height >= 0)
        for height in heights
    ]
    first = ", ".join(f"{value:.3g}" for value in values[:NUM_VALUES].tolist())
    written = first + (", ..." if len(values) > NUM_VALUES else "")
    return Bars(bars, BAR_HEIGHT, f"{len(values)} features: {written}", written)
