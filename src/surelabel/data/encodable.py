"""Inputs that an encoder turns into fixed features: cells of a table, or pictures of any size."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from surelabel.data.inputs import LazyInputs, Shape

UNENCODED: Shape = (0,)
"""The shape of a row of text, or of a table, that has no encoder yet."""
_ROWS_AT_ONCE = 4096


class Encoder(Protocol):
    """Turns cells, or pictures, into features."""

    @property
    def num_features(self) -> int:
        """The number of features, D."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the D features, if they have any."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads; none if it reads pictures."""

    @property
    def has_term_weights(self) -> bool:
        """Whether the features are weights of terms, or made of them."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of data with which a table is read for it."""

    @property
    def cache_key(self) -> str | None:
        """What identifies its features in the cache, besides the content; None if it is fast."""

    def encode(self, content: Any) -> np.ndarray:
        """Return the features (N, D) float32 of the content of rows."""

    def describe(self) -> dict[str, Any]:
        """Return what JSON can hold of it."""

    def tensors(self) -> Mapping[str, Tensor]:
        """Return the rest."""


class Encodable(LazyInputs):
    """N rows that are encoded when they are asked for."""

    def __init__(self, num_rows: int, encoder: Encoder | None) -> None:
        self.encoder = encoder
        width = UNENCODED if encoder is None else (encoder.num_features,)
        self.shape, self.dtype = (num_rows, *width), torch.float32

    @property
    def is_in_memory(self) -> bool:
        """The content is in memory, or is small on disk, if not as features."""
        return True

    @abstractmethod
    def content(self, positions: np.ndarray) -> Any:
        """Return what an encoder reads of the rows at `positions`."""

    @abstractmethod
    def hashes(self) -> list[bytes]:
        """Hash the content of each row, wherever it is stored."""

    @abstractmethod
    def with_encoder(self, encoder: Encoder) -> Self:
        """Return the same rows with the encoder that makes features of them."""

    def __getitem__(self, index: Tensor) -> Tensor:
        return torch.from_numpy(self.encode(index.cpu().numpy()))

    def encode(self, positions: np.ndarray) -> np.ndarray:
        """Return the features (B, D) of the rows at `positions`."""
        assert self.encoder is not None
        return self.encoder.encode(self.content(positions))

    def features(self) -> Tensor:
        """Encode all rows, some at a time."""
        out = np.empty(self.shape, dtype=np.float32)
        for start in range(0, len(self), _ROWS_AT_ONCE):
            rows = np.arange(start, min(start + _ROWS_AT_ONCE, len(self)))
            out[rows] = self.encode(rows)
        return torch.from_numpy(out)
