"""Find rows with equal inputs: among the training rows, and between them and a test set."""

import hashlib
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import torch

from surelabel.data.corpus import Examples
from surelabel.data.inputs import Inputs

_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class DuplicateGroup:
    """Rows that share one input."""

    ids: tuple[str, ...]
    labels: tuple[int, ...]
    """Their given labels, in the order of the ids."""

    @property
    def disagree(self) -> bool:
        """Whether at least one of the labels must be wrong."""
        return len(set(self.labels)) > 1


def hash_rows(x: Inputs) -> list[bytes]:
    """Return a hash of each input; with 128 bits, even billions of rows hardly ever collide."""
    found: list[bytes] = []
    for start in range(0, len(x), _ROWS_AT_ONCE):
        rows = x[torch.arange(start, min(start + _ROWS_AT_ONCE, len(x)))].contiguous().numpy()
        found += [hashlib.blake2b(row, digest_size=16).digest() for row in rows]
    return found


def find_duplicates(rows: Examples, hashes: list[bytes]) -> list[DuplicateGroup]:
    """Group the rows with equal hashes, in the order of their first row."""
    groups: dict[bytes, list[int]] = defaultdict(list)
    for position, digest in enumerate(hashes):
        groups[digest].append(position)
    labels = rows.label.tolist()
    return [
        DuplicateGroup(tuple(str(rows.ids[p]) for p in group), tuple(labels[p] for p in group))
        for group in groups.values()
        if len(group) > 1
    ]


def find_leaked_rows(hashes: list[bytes], test_hashes: list[bytes]) -> np.ndarray:
    """Return the positions of the test rows whose input is also trained on."""
    known = set(hashes)
    return np.flatnonzero([digest in known for digest in test_hashes])
