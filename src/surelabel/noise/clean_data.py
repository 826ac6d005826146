"""What noise is drawn for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surelabel.errors import DataError
from surelabel.noise.instance import Inputs


@dataclass(frozen=True)
class CleanData:
    """N rows with their clean labels, and what else a kind of noise may want to know of them."""

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
    """The same in fixed types, or an error that names what does not fit."""
    clean = np.asarray(clean, dtype=np.int64)
    if len(class_names) < 2:
        raise DataError(f"noise needs at least 2 classes, there is {', '.join(class_names) or 'none'}")
    if len(clean) and not (clean.min() >= 0 and clean.max() < len(class_names)):
        raise DataError(f"labels must lie in 0..{len(class_names) - 1}, got {clean.min()}..{clean.max()}")
    if ids is not None and len(ids) != len(clean):
        raise DataError(f"noise: {len(ids)} ids for {len(clean)} labels; expected one for each")
    return CleanData(clean, tuple(class_names), None if ids is None else np.asarray(ids, dtype=np.str_), inputs)
