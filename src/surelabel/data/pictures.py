"""Pictures as they are stored, of any size, until an encoder turns them into features."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from surelabel.data.duplicates import hash_rows
from surelabel.data.encodable import Encodable, Encoder
from surelabel.data.images.decode import decode_whole, num_cores
from surelabel.data.images.encode import Encoded
from surelabel.data.inputs import HASH_BYTES, Inputs, digest_inputs, select_rows


class Pictures(Encodable):
    """N pictures: encoded files or bytes, or pixels (N, C, H, W) uint8."""

    def __init__(self, stored: Encoded | Inputs, encoder: Encoder | None = None) -> None:
        super().__init__(len(stored), encoder)
        self.stored = stored

    def content(self, positions: np.ndarray) -> "Pictures":
        """Return the pictures at `positions`."""
        return self.subset(positions)

    def pixels(self, positions: np.ndarray, side: int) -> Tensor:
        """Return whole pictures at `positions` as (B, 3, h, w) uint8; grey becomes colour.

        Encoded ones are scaled to (side, side), by bicubic interpolation with antialiasing; pixels
        keep their size.
        """
        if isinstance(self.stored, Encoded):
            encoded = self.stored
            with ThreadPoolExecutor(num_cores()) as pool:
                whole = list(pool.map(lambda position: decode_whole(encoded, int(position), side), positions))
            return torch.from_numpy(np.stack(whole))
        x = self.stored[torch.from_numpy(np.asarray(positions, dtype=np.int64))]
        return in_colour(x)

    def subset(self, positions: np.ndarray) -> "Pictures":
        """Return the pictures at `positions`."""
        stored = self.stored
        some = stored.subset(positions) if isinstance(stored, Encoded) else select_rows(stored, positions)
        return Pictures(some, self.encoder)

    def with_encoder(self, encoder: Encoder) -> "Pictures":
        """Return the same pictures with the encoder that makes features of them."""
        return Pictures(self.stored, encoder)

    def hashes(self) -> list[bytes]:
        """Hash the bytes of each file, or the pixels and their shape."""
        if isinstance(self.stored, Encoded):
            return self.stored.hashes()
        shape = repr(tuple(self.stored.shape[1:])).encode()
        return [hashlib.blake2b(shape + row, digest_size=HASH_BYTES).digest() for row in hash_rows(self.stored)]

    def digest(self) -> str:
        """Hash all pictures."""
        return self.stored.digest() if isinstance(self.stored, Encoded) else digest_inputs(self.stored)


def in_colour(x: Tensor) -> Tensor:
    """Return images (B, C, H, W) as (B, 3, H, W): grey ones have three equal channels."""
    return x.expand(-1, 3, -1, -1) if x.shape[1] == 1 else x[:, :3]
