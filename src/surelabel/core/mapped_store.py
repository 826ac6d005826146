"""A dense table in a file, for exact values where memory is short."""

import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from surelabel.core.state import SampleStore
from surelabel.errors import RunError


class MappedStore(SampleStore):
    """A SampleStore whose rows lie in a file that the system maps into memory as it is needed.

    The file has no name: it ends with the process, however that ends, and nothing ever reads it
    again. What survives a crash is the copy of the table in the run's saved state, which a resumed
    run writes to a file of its own. So the file may be written at any time. Rows stay on the CPU.
    """

    def __init__(self, num_samples: int, *shape: int, folder: Path, fill: float = 0.0) -> None:
        nn.Module.__init__(self)
        self.num_samples, self._folder, self._shape = num_samples, folder, shape
        self._start, self._stop = 0, num_samples
        self.rows = self._map(num_samples)
        if fill:
            self.rows.fill_(fill)
        self.register_buffer("fixed", None, persistent=False)

    def _map(self, num_rows: int) -> Tensor:
        """Return zeros for so many rows and the padding, in a new file."""
        shape = (num_rows + 1, *self._shape)
        size = torch.Size(shape).numel() * torch.float32.itemsize
        try:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                file.truncate(size)
                if hasattr(os, "posix_fallocate"):  # reserve the space: a write to a full disk ends the process
                    os.posix_fallocate(file.fileno(), 0, size)
                mapped = mmap.mmap(file.fileno(), size)
        except OSError as error:
            gigabytes = f"{size / 2**30:.1f} GiB"
            raise RunError(f"train.store: memmap needs {gigabytes} in {self._folder}: {error.strerror}") from None
        return torch.frombuffer(mapped, dtype=torch.float32).view(shape)

    def read(self, index: Tensor) -> Tensor:
        """Return a copy of the rows at (B,) `index`, on its device."""
        return super().read(index.cpu()).to(index.device)

    def blend(self, index: Tensor, value: Tensor, momentum: float | Tensor, where: Tensor | None = None) -> None:
        """Set rows, `where` selected, to momentum x old + (1 - momentum) x value, detached."""
        if isinstance(momentum, Tensor):
            momentum = momentum.cpu()
        super().blend(index.cpu(), value.cpu(), momentum, None if where is None else where.cpu())

    def fix(self, fixed: Tensor) -> None:
        """Keep the rows where (N,) `fixed` is true as they are, for good."""
        super().fix(fixed.cpu())

    def distribute(self, shard: bool) -> None:
        """Keep only this rank's contiguous block of rows; a table is never gathered again."""
        if not shard or self.is_sharded:
            return
        before = self.rows
        self._start, self._stop = self._block()
        self.rows = self._map(self._stop - self._start)
        self.rows[:-1] = before[self._start : self._stop]

    def _apply(self, fn: Any, recurse: bool = True) -> "MappedStore":
        """Stay on the CPU when the method moves to a device."""
        del fn, recurse
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Give the table without a copy: it is written to the state at once."""
        if self.is_sharded:
            super()._save_to_state_dict(destination, prefix, keep_vars)
        else:
            destination[prefix + "rows"] = self.rows[:-1]
