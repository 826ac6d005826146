"""What a source of data is, and what it returns: inputs with labels as the user spells them."""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from surelabel.config import DataConfig
from surelabel.data.images.encode import Encoded
from surelabel.data.inputs import Inputs, Shape, select_rows


@dataclass(frozen=True)
class ImageDefaults:
    """The usual cropping, augmentation and normalisation of a data set.

    Settings in the configuration override them.
    """

    crop: int | None = None
    """Side of the window that networks see; None is the whole image."""
    crop_padding: int = 4
    flip: bool = True
    mean: tuple[float, ...] | None = None
    """Per channel, of pixels in 0..255; None measures the training rows."""
    std: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Rows:
    """N inputs whose labels are still class names."""

    x: Inputs
    """(N, C, H, W) uint8 images, or (N, D) float32 features."""
    names: np.ndarray
    """(N,) str: the name of each row's given class; blank if it has no label."""
    ids: np.ndarray
    """(N,) str."""
    clean: np.ndarray | None = None
    """(N,) str: the name of each row's true class, if known."""
    group: np.ndarray | None = None
    """(N,) str: the name of each row's group, blank if it has none; None if there are no groups."""
    positions: np.ndarray | None = None
    """(N,) positions of the rows in the user's data; None if these are all its rows."""
    original: np.ndarray | None = None
    """(N,) str: the given class before an export replaced it; None if no export did."""
    trusted: np.ndarray | None = None
    """(N,) bool: the rows that a person decided on before that export; None if there was none."""
    encoded: Encoded | None = None
    """The images as they are stored; None if `x` has all there is."""

    @property
    def original_positions(self) -> np.ndarray:
        """The positions (N,) of the rows in the user's data, counted from 0."""
        return np.arange(len(self.ids)) if self.positions is None else self.positions

    def subset(self, positions: np.ndarray) -> "Rows":
        """Return the rows at `positions`, in that order."""
        known = (self.clean, self.group, self.original, self.trusted)
        clean, group, original, trusted = (None if part is None else part[positions] for part in known)
        x, places = select_rows(self.x, positions), self.original_positions[positions]
        encoded = None if self.encoded is None else self.encoded.subset(positions)
        return Rows(x, self.names[positions], self.ids[positions], clean, group, places, original, trusted, encoded)


@dataclass(frozen=True)
class Parts:
    """The training rows of a source, and its test sets if it has any."""

    train: Rows
    tests: dict[str, Rows] = field(default_factory=dict)
    """By name; summaries show the first."""
    class_names: tuple[str, ...] | None = None
    """The order of the classes, if the source fixes it; None sorts the names."""
    image_defaults: ImageDefaults = field(default_factory=ImageDefaults)
    feature_names: tuple[str, ...] | None = None
    """Of inputs that are not images, if the source names them."""


class Source(Protocol):
    """A module that reads one kind of data."""

    KIND: str
    """What it reads, in a few words for error messages."""
    BUNDLED: tuple[str, ...]
    """Names of data sets, not paths, that it accepts."""

    def accepts(self, source: str) -> bool:
        """Return whether `source` is of this kind; the file need not exist."""

    def read(self, config: DataConfig, shape: Shape | None = None) -> Parts:
        """Read the labelled rows at `config.source`, converted to `shape` if that is given."""

    def read_inputs(self, config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
        """Read the inputs at `config.source` and their ids; labels are not needed."""


class ObjectSource(Protocol):
    """A module that reads one kind of Python object."""

    KIND: str

    def accepts(self, data: Any) -> bool:
        """Return whether `data` is of this kind."""

    def describe(self, data: Any, /) -> str:
        """Return the placeholder for `data` in a configuration: words in <>, not a path."""

    def read(self, data: Any, config: DataConfig, shape: Shape | None = None) -> Parts:
        """Read the labelled rows of `data`."""
