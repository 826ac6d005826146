"""The clean data that noise is drawn for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from surelabel.errors import DataError

Inputs = Callable[[np.ndarray], np.ndarray]
"""Maps ascending row numbers (B,) to inputs (B, ...): uint8 for images, floats for features."""


@dataclass(frozen=True)
class CleanData:
    """N rows with their clean labels, and whatever else a kind of noise may depend on."""

    clean: np.ndarray
    """(N,) int64."""
    class_names: tuple[str, ...]
    """In the order of the class numbers."""
    ids: np.ndarray | None = None
    """(N,) str."""
    inputs: Inputs | None = None

    @property
    def num_classes(self) -> int:
        """K."""
        return len(self.class_names)


def make_clean_data(
    clean: np.ndarray, class_names: Sequence[str], ids: Sequence[str] | np.ndarray | None, inputs: Inputs | None
) -> CleanData:
    """Check labels, class names and ids against each other, and convert them to fixed types."""
    clean = np.asarray(clean, dtype=np.int64)
    if len(class_names) < 2:
        raise DataError(f"noise needs at least 2 classes, there is {', '.join(class_names) or 'none'}")
    if len(clean) and not (clean.min() >= 0 and clean.max() < len(class_names)):
        raise DataError(f"labels must lie in 0..{len(class_names) - 1}, got {clean.min()}..{clean.max()}")
    if ids is not None and len(ids) != len(clean):
        raise DataError(f"noise: {len(ids)} ids for {len(clean)} labels; expected one for each")
    return CleanData(clean, tuple(class_names), None if ids is None else np.asarray(ids, dtype=np.str_), inputs)
