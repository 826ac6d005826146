"""Data that a scale needs before its runs start; surelabel.paper.prepare_data makes them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Prepared:
    """The first rows of a data set, as images or as fixed features of them."""

    kind: Literal["subset", "patches"]
    data: str
    num_train: int
    num_test: int
    num_filters: int = 0
    """Patches only: random patches that images are compared with."""
    patch_size: int = 6
    seed: int = 0
    """Patches only: of the draw of filters."""

    @property
    def name(self) -> str:
        """A file name that tells all that matters."""
        words = [self.data, self.kind, str(self.num_train), str(self.num_test)]
        if self.num_filters:
            words += [f"{self.num_filters}x{self.patch_size}", f"seed-{self.seed}"]
        return "-".join(words) + ".npz"

    def path(self, folder: Path) -> Path:
        """Where it lies in the folder of a reproduction."""
        return folder / "data" / self.name
