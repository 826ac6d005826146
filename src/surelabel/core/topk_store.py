"""A table of class probabilities that keeps a few classes per row, for many rows and classes."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from surelabel.core.state import SampleStore, row_chunks


class TopKStore(nn.Module):
    """An (N, K) table that keeps k values per row: the given class's and the k - 1 largest others.

    All other classes of a row have one value together: what they would have if their sum were
    shared equally. A row is read and written whole, (B, K), so that methods need not know. A blend
    is computed with all classes, and then the k classes to keep are chosen anew. With k = K nothing
    is lost, and values are those of the dense table, bit for bit. The parts are SampleStores, so
    that sharding, saving and confirmed rows work alike.
    """

    def __init__(self, given: Tensor, num_classes: int, num_kept: int, fill: float = 0.0) -> None:
        super().__init__()
        self.num_samples, self.num_classes = len(given), num_classes
        self.num_kept = min(num_kept, num_classes)
        kind = torch.int16 if num_classes <= torch.iinfo(torch.int16).max else torch.int32
        # The given class comes first in every row: it is always kept.
        self.classes = SampleStore(self.num_samples, self.num_kept, dtype=kind)
        self.values = SampleStore(self.num_samples, self.num_kept, fill=fill)
        self.rest = SampleStore(self.num_samples, fill=fill)
        others = torch.arange(self.num_kept)
        for index in row_chunks(self.num_samples, self.num_kept):
            self.classes.rows[index] = ((given[index, None] + others) % num_classes).to(kind)

    @classmethod
    def one_hot(cls, labels: Tensor, num_classes: int, num_kept: int, fill: float = 0.0) -> "TopKStore":
        """Make a table with 1 at the labels and `fill` elsewhere."""
        store = cls(labels, num_classes, num_kept, fill)
        store.values.rows[:-1, 0] = 1
        return store

    @property
    def num_bytes(self) -> int:
        """Size of the whole table in bytes."""
        return sum(store.num_bytes for store in (self.classes, self.values, self.rest))

    def read(self, index: Tensor) -> Tensor:
        """Return the rows at (B,) `index`, (B, K)."""
        rows = self.rest.read(index)[:, None].repeat(1, self.num_classes)
        return rows.scatter_(1, self.classes.read(index).long(), self.values.read(index))

    def write(self, index: Tensor, value: Tensor, where: Tensor | None = None) -> None:
        """Set the rows at `index`, `where` selected, to (B, K) `value`."""
        self.blend(index, value, momentum=0.0, where=where)

    def blend(self, index: Tensor, value: Tensor, momentum: float | Tensor, where: Tensor | None = None) -> None:
        """Set rows, `where` selected, to momentum x old + (1 - momentum) x value, detached."""
        value = value.detach().to(self.values.rows.dtype)
        if isinstance(momentum, Tensor) or momentum != 0:
            if isinstance(momentum, Tensor) and momentum.dim():
                momentum = momentum[:, None]
            value = (momentum * self.read(index) + (1 - momentum) * value).detach().to(value.dtype)
        classes, values, rest = self._keep(value, self.classes.read(index)[:, :1].long())
        self.classes.write(index, classes, where)
        self.values.write(index, values, where)
        self.rest.write(index, rest, where)

    def _keep(self, rows: Tensor, given: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return classes and values to keep of (B, K) rows, and the mean of the other values."""
        classes = rows.scatter(1, given, torch.inf).topk(self.num_kept, 1).indices
        num_others = self.num_classes - self.num_kept
        rest = rows.scatter(1, classes, 0.0).sum(1) / max(1, num_others)
        return classes.to(self.classes.rows.dtype), rows.gather(1, classes), rest

    def replace(self, rows: Tensor) -> None:
        """Set the whole table to (N, K) `rows`, which must be equal on all ranks."""
        if len(rows) != self.num_samples:
            raise ValueError(f"expected {self.num_samples} rows, got {len(rows)}")
        for index in row_chunks(self.num_samples, self.num_classes, rows.device):
            self.write(index, rows[index])

    def freeze(self, fixed: Tensor, rows: Tensor) -> None:
        """Set the rows where (N,) `fixed` is true to those of (N, K) `rows`, for good."""
        self.write(torch.arange(self.num_samples, device=rows.device), rows, where=fixed)
        self.fix(fixed)

    def fix(self, fixed: Tensor) -> None:
        """Keep the rows where (N,) `fixed` is true as they are, for good."""
        for store in (self.classes, self.values, self.rest):
            store.fix(fixed)

    def apply_rows(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a row-by-row `function` to the table; return (N, ...), equal on all ranks."""
        chunks = row_chunks(self.num_samples, self.num_classes, self.values.rows.device)
        return torch.cat([function(self.read(index)) for index in chunks])

    def whole(self) -> Tensor:
        """Return the whole table, (N, K): only for tables that are small."""
        return self.apply_rows(lambda rows: rows)
