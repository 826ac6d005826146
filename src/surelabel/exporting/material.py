"""What the formats of other tools are written from: cleaned rows, their audit and their inputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.exporting.selection import Cleaned
from surelabel.verdicts import Audit


@dataclass(frozen=True)
class Material:
    """The rows of an export, with everything that a format may show of them."""

    cleaned: Cleaned
    audit: Audit
    place: np.ndarray
    """(N,) the position of each cleaned row in the audit's table."""
    files: Mapping[str, Path] | None = None
    """The image file of each row by id, if the inputs are image files."""
    texts: Mapping[str, str] | None = None
    """The text of each row by id, if the inputs are texts."""
    facts: Mapping[str, Any] | None = None
    """What export.json says of the run: its path, method, rules and counts."""
    has_images: bool = False
    """Whether the user asked for copies of the images."""

    def __len__(self) -> int:
        return len(self.cleaned)

    @cached_property
    def ids(self) -> list[str]:
        """(N,) ids of the rows."""
        return [str(one) for one in self.cleaned.columns["id"].tolist()]

    @cached_property
    def p_wrong(self) -> np.ndarray:
        """(N,) P(wrong) of the given labels."""
        return np.asarray(self.cleaned.columns["p_wrong"], dtype=np.float64)

    def names(self, column: str) -> list[str]:
        """Return the (N,) class names of a column of the cleaned table."""
        return [str(name) for name in self.cleaned.columns[column].tolist()]

    def of_audit(self, column: str) -> np.ndarray | None:
        """Return a column of the audit in the order of the rows; None if it has none."""
        values = self.audit.columns.get(column)
        return None if values is None else np.asarray(values)[self.place]

    def by_suspicion(self) -> list[int]:
        """Return the rows, the most suspicious first; those that people decided on come last."""
        is_decided = self.cleaned.columns["decided_by"] == "person"
        order: list[int] = np.lexsort((-self.p_wrong, is_decided)).tolist()
        return order
