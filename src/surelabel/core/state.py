"""State that survives restarts and is correct on every rank: per-sample tables, weight averages."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from surelabel.core.collective import gathered, own_rows, rank, total, world_size

CHUNK_VALUES = 2**24
"""Values, rows x classes, of a table that are looked at together."""


def row_chunks(num_rows: int, num_classes: int, device: torch.device | None = None) -> Iterator[Tensor]:
    """Yield the positions of all rows, as many at once as have CHUNK_VALUES values together."""
    size = max(1, CHUNK_VALUES // max(1, num_classes))
    for start in range(0, num_rows, size):
        yield torch.arange(start, min(start + size, num_rows), device=device)


class SampleStore(nn.Module):
    """A table with one row per training sample.

    Calls are collective: on several processes every rank calls with its own batch, and every rank
    sees all writes. Small tables are replicated; after `distribute(shard=True)` each rank holds a
    contiguous block of rows. Index -1 (padding) may be read and is never written. The saved state
    is always the whole table, so that it loads on any number of processes.

    >>> import torch
    >>> from surelabel.core import SampleStore
    >>> targets = SampleStore.one_hot(torch.tensor([0, 1, 1]), num_classes=2)
    >>> targets.blend(torch.tensor([2]), torch.tensor([[0.8, 0.2]]), momentum=0.5)
    >>> targets.read(torch.tensor([2, 0]))
    tensor([[0.4000, 0.6000],
            [1.0000, 0.0000]])
    """

    rows: Tensor
    fixed: Tensor | None

    def __init__(self, num_samples: int, *shape: int, dtype: torch.dtype = torch.float32, fill: float = 0) -> None:
        super().__init__()
        self.num_samples = num_samples
        self._start, self._stop = 0, num_samples
        # The extra last row takes what is written at index -1, so that padding needs no mask.
        self.register_buffer("rows", torch.full((num_samples + 1, *shape), fill, dtype=dtype))
        self.register_buffer("fixed", None, persistent=False)

    @classmethod
    def one_hot(cls, labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> "SampleStore":
        """Make a table of one-hot rows."""
        labels = torch.as_tensor(labels, dtype=torch.long)
        store = cls(len(labels), num_classes, dtype=dtype)
        store.set_labels(labels)
        return store

    def set_labels(self, labels: Tensor) -> None:
        """Set the entries of an (N, K) table at (N,) labels to 1."""
        last = self.rows.shape[1] - 1
        if labels.numel() and not (int(labels.min()) >= 0 and int(labels.max()) <= last):
            raise ValueError(f"labels must lie in 0..{last}, got {int(labels.min())}..{int(labels.max())}")
        self.rows[torch.arange(len(labels)), labels] = 1

    @property
    def is_sharded(self) -> bool:
        """Whether this rank holds only a block of the rows."""
        return self._stop - self._start < self.num_samples

    @property
    def num_bytes(self) -> int:
        """Size of the whole table in bytes."""
        row = self.rows[-1]
        return self.num_samples * row.numel() * row.element_size()

    def read(self, index: Tensor) -> Tensor:
        """Return a copy of the rows at (B,) `index`."""
        if not self.is_sharded:
            return self.rows[index]
        everyone = gathered(index)
        position, owned = self._position(everyone)
        rows = self.rows[position]
        rows[~owned] = 0
        return own_rows(total(rows), index)

    def write(self, index: Tensor, value: Tensor, where: Tensor | None = None) -> None:
        """Set the rows at `index`, `where` selected, to `value`."""
        self.blend(index, value, momentum=0.0, where=where)

    def blend(self, index: Tensor, value: Tensor, momentum: float | Tensor, where: Tensor | None = None) -> None:
        """Set rows, `where` selected, to momentum x old + (1 - momentum) x value, detached."""
        value = value.detach().to(self.rows.dtype)
        if world_size() > 1:
            index, value = gathered(index), gathered(value)
            where = None if where is None else gathered(where)
            momentum = gathered(momentum) if isinstance(momentum, Tensor) and momentum.dim() else momentum
        position, _ = self._position(index)
        if isinstance(momentum, Tensor) or momentum != 0:
            if isinstance(momentum, Tensor) and momentum.dim():
                momentum = momentum.view(-1, *[1] * (value.dim() - 1))
            value = (momentum * self.rows[position] + (1 - momentum) * value).detach().to(self.rows.dtype)
        if where is not None:
            position = torch.where(where, position, -1)
        if self.fixed is not None:
            position = torch.where(self.fixed[index], -1, position)
        self.rows[position] = value

    def freeze(self, fixed: Tensor, rows: Tensor) -> None:
        """Set the rows where (N,) `fixed` is true to those of (N, ...) `rows`, for good."""
        self.fixed = None
        self.write(torch.arange(self.num_samples, device=rows.device), rows, where=fixed)
        self.fix(fixed)

    def fix(self, fixed: Tensor) -> None:
        """Keep the rows where (N,) `fixed` is true as they are, for good."""
        # The extra last entry says that padding, index -1, is not fixed.
        self.fixed = torch.cat([fixed, fixed.new_zeros(1)]).to(self.rows.device)

    def replace(self, rows: Tensor) -> None:
        """Set the whole table to (N, ...) `rows`, which must be equal on all ranks."""
        if len(rows) != self.num_samples:
            raise ValueError(f"expected {self.num_samples} rows, got {len(rows)}")
        self._set_own(rows[self._start : self._stop].to(self.rows))

    def average(self, others: Sequence["SampleStore"]) -> None:
        """Set each row to the mean of those rows of `others` that are not all zero, if any.

        The others have the shape and the sharding of this table.
        """
        rows = torch.stack([other.rows[:-1] for other in others])
        count = (rows != 0).flatten(2).any(2).sum(0).view(-1, *[1] * (rows.dim() - 2))
        self._set_own(torch.where(count > 0, rows.sum(0) / count.clamp(min=1), self.rows[:-1]))

    def _set_own(self, new: Tensor) -> None:
        """Set the rows that this rank holds, except those that are fixed."""
        if self.fixed is not None:
            fixed = self.fixed[self._start : self._stop]
            new = torch.where(fixed.view(-1, *[1] * (new.dim() - 1)), self.rows[:-1], new)
        self.rows[:-1] = new

    def apply_rows(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a row-by-row `function` to the table; return (N, ...), equal on all ranks."""
        result = function(self.rows[:-1])
        if not self.is_sharded:
            return result
        block = -(-self.num_samples // world_size())
        padded = result.new_zeros(block, *result.shape[1:])
        padded[: len(result)] = result
        return gathered(padded)[: self.num_samples]

    def whole(self) -> Tensor:
        """Return a copy of the whole table (N, ...), equal on all ranks."""
        return self.apply_rows(lambda rows: rows).clone()

    def distribute(self, shard: bool) -> None:
        """Keep only this rank's contiguous block of rows, or gather all rows again."""
        whole = self.whole()
        self._start, self._stop = self._block() if shard else (0, self.num_samples)
        self.rows = torch.cat([whole[self._start : self._stop], whole.new_zeros(1, *whole.shape[1:])])

    def _block(self) -> tuple[int, int]:
        """Return where the rows of this rank begin and end if the table is sharded."""
        block = -(-self.num_samples // world_size())
        start = min(rank() * block, self.num_samples)
        return start, min(start + block, self.num_samples)

    def _position(self, index: Tensor) -> tuple[Tensor, Tensor]:
        owned = (index >= self._start) & (index < self._stop)
        if not self.is_sharded:
            return index, owned
        return torch.where(owned, index - self._start, -1), owned

    def _save_to_state_dict(self, destination: Any, prefix: str, _keep_vars: bool) -> None:
        destination[prefix + "rows"] = self.whole()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        missing, errors = args[2], args[4]
        rows = state_dict.get(prefix + "rows")
        if rows is None:
            missing.append(prefix + "rows")
        elif rows.shape != (self.num_samples, *self.rows.shape[1:]):
            errors.append(f"{prefix}rows: {tuple(rows.shape)} does not fit a table of {self.num_samples} rows")
        else:
            self.replace(rows)


class EMA(nn.Module):
    """A copy of a network whose weights follow it with momentum, after each optimiser step.

    `decay` multiplies the OLD weights. It may be a function of the number of updates, counted from
    1. Buffers (batch-norm statistics, counters) are copied.

    >>> import torch
    >>> from surelabel.core import EMA
    >>> network = torch.nn.Linear(1, 1)
    >>> average = EMA(network, decay=0.9)
    >>> network.weight.data += 1  # a step of the optimiser
    >>> average.advance()
    >>> (network.weight - average.network.weight).detach()
    tensor([[0.9000]])
    """

    updates: Tensor

    def __init__(self, network: nn.Module, decay: float | Callable[[int], float]) -> None:
        super().__init__()
        self.decay = decay
        self._source = (network,)  # the tuple keeps torch from registering it a second time
        self.network = copy.deepcopy(network).requires_grad_(False)
        self.register_buffer("updates", torch.zeros((), dtype=torch.long))

    @property
    def source(self) -> nn.Module:
        """The network that this average follows."""
        return self._source[0]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the averaged network without gradient."""
        with torch.no_grad():
            return self.network(*args, **kwargs)

    @torch.no_grad()
    def advance(self) -> None:
        """Move the average one step towards its source."""
        self.updates += 1
        decay = self.decay(int(self.updates)) if callable(self.decay) else self.decay
        for average, weight in zip(self.network.parameters(), self.source.parameters(), strict=True):
            average.lerp_(weight, 1 - decay)
        for copied, buffer in zip(self.network.buffers(), self.source.buffers(), strict=True):
            copied.copy_(buffer)
