"""The forms in which a table with a value per sample and class may be kept."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from torch import Tensor

from surelabel.core.mapped_store import MappedStore
from surelabel.core.state import SampleStore
from surelabel.core.topk_store import TopKStore

Form = Literal["dense", "topk", "memmap"]
ClassTable = SampleStore | TopKStore
"""An (N, K) table: `read`, `write`, `blend`, `replace`, `apply_rows` and `whole` work alike."""
EVERY_FORM: tuple[Form, ...] = ("dense", "topk", "memmap")
"""What a method sets as `table_forms` if its tables may be kept in any form."""


@dataclass(frozen=True)
class TableForm:
    """How the (N, K) tables of a method are kept."""

    name: Form = "dense"
    num_kept: int = 16
    """topk: classes per row."""
    folder: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))
    """memmap: where the files are."""

    def make(self, given: Tensor, num_classes: int, fill: float = 0.0, one_hot: bool = False) -> ClassTable:
        """Make a table of `fill`, and of 1 at the (N,) given labels if `one_hot`."""
        if self.name == "topk":
            make = TopKStore.one_hot if one_hot else TopKStore
            return make(given, num_classes, self.num_kept, fill)
        store = self._make_dense(len(given), num_classes, fill)
        if one_hot:
            store.set_labels(given)
        return store

    def _make_dense(self, num_samples: int, num_classes: int, fill: float) -> SampleStore:
        if self.name == "memmap":
            return MappedStore(num_samples, num_classes, folder=self.folder, fill=fill)
        return SampleStore(num_samples, num_classes, fill=fill)
