"""Noise that depends on the input: part-dependent label noise of Xia et al., NeurIPS 2020.

Each input n of class y has a flip rate q_n from the normal distribution of mean RATE and deviation 0.1, cut to [0, 1]. Each class c
has a matrix W_c (S, K) of independent standard normal entries. With a = x_n W_y and a_y = -inf, the new label is drawn from
p = q_n softmax(a), p_y = 1 - q_n.

The scale of x decides what comes of it, so it is an option and the manifest records it. `raw`, as the official code, takes pixels as 0..255:
a has the deviation of the length of x, thousands, and the softmax is nearly one-hot, so each input has essentially one class that it is
confused with. `unit`, pixels in 0..1, is still spiky. `length` divides x by its length: a has deviation 1, and the new labels spread.

Otherwise than in the official code:
- q_n comes from a hash of the input and the seed, not from the row's turn, so that p is a function of input and class: the same image
  twice has the same p, wherever it stands.
- A rate of 0 changes nothing; the cut normal distribution would change 8 %.
- Sums are in float64, and W_c is made when class c is worked on: (S, K) numbers in memory instead of (K, S, K).
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist

import numpy as np

from surelabel.errors import ConfigError, DataError

Inputs = Callable[[np.ndarray], np.ndarray]
"""Row numbers (B,), rising, to inputs (B, ...): bytes for images, floats for features."""

SPREAD = 0.1
"""Deviation of the flip rates."""
BYTES_AT_ONCE = 2**26
"""Of inputs as float64."""


def instance(
    clean: np.ndarray, num_classes: int, rate: float, scale: str, inputs: Inputs, seed: int
) -> tuple[np.ndarray, np.ndarray, str]:
    """Labels (N,), the flip rates (N,) they were drawn with, and a hash of the inputs."""
    # Streams of their own, so that a class's matrix does not depend on which other classes there are rows of.
    *streams, last = map(_generator, np.random.SeedSequence(seed).spawn(num_classes + 1))
    uniform = last.random(len(clean))
    given, flip, digests = clean.copy(), np.zeros(len(clean)), [b""] * len(clean)
    for old in range(num_classes):
        weights = np.empty((0, num_classes))
        for rows, x in _portions(np.flatnonzero(clean == old), inputs):
            flat = scaled(x, scale)
            weights = weights if len(weights) else streams[old].standard_normal((flat.shape[1], num_classes))
            found = digests_of(x)
            flip[rows] = flip_rates(found, rate, seed)
            given[rows] = _drawn(probabilities(flat, weights, flip[rows], old), uniform[rows])
            for row, digest in zip(rows, found, strict=True):
                digests[row] = digest
    return given, flip, hashlib.sha256(b"".join(digests)).hexdigest()


def probabilities(flat: np.ndarray, weights: np.ndarray, flip: np.ndarray, old: int) -> np.ndarray:
    """(B, K): of each new label, for inputs (B, S) of class `old` with flip rates (B,)."""
    with np.errstate(all="ignore"):
        scores = flat @ weights
    if not np.isfinite(scores).all():
        raise DataError(
            "instance noise: an input holds values that are NaN, infinite or too large; expected finite ones"
        )
    scores[:, old] = -np.inf
    others = np.exp(scores - scores.max(1, keepdims=True))
    result = flip[:, None] * others / others.sum(1, keepdims=True)
    result[:, old] = 1 - flip
    return result / result.sum(1, keepdims=True)


def scaled(x: np.ndarray, scale: str) -> np.ndarray:
    """(B, S) float64."""
    flat = x.reshape(len(x), -1).astype(np.float64)
    if scale == "unit":
        if x.dtype != np.uint8:
            raise ConfigError("noise.instance_scale: unit is for pixels 0..255; features take raw or length")
        return flat / 255
    if scale == "length":
        return flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return flat


def flip_rates(digests: Sequence[bytes], rate: float, seed: int) -> np.ndarray:
    """(B,): the flip rates of inputs with these hashes, by the inverse of the cut normal distribution."""
    if rate == 0:
        return np.zeros(len(digests))
    normal, standard = NormalDist(rate, SPREAD), NormalDist()
    lowest, highest = normal.cdf(0), normal.cdf(1)
    level = lowest + np.array([_share(digest, seed) for digest in digests]) * (highest - lowest)
    level = np.clip(level, np.finfo(np.float64).tiny, 1 - 2**-53)  # the inverse is not defined at 0 and 1
    return np.clip(rate + SPREAD * np.array([standard.inv_cdf(value) for value in level]), 0, 1)


def inputs_sha256(num_rows: int, inputs: Inputs) -> str:
    """The hash that `instance` gives, without drawing."""
    found = [digest for _, x in _portions(np.arange(num_rows), inputs) for digest in digests_of(x)]
    return hashlib.sha256(b"".join(found)).hexdigest()


def digests_of(x: np.ndarray) -> list[bytes]:
    """A hash of each input."""
    return [hashlib.sha256(row).digest() for row in np.ascontiguousarray(x)]


def _share(digest: bytes, seed: int) -> float:
    """A number in [0, 1) that stands for a draw; of 53 bits, so that it never rounds to 1."""
    mixed = hashlib.sha256(digest + seed.to_bytes(8, "little")).digest()
    return (int.from_bytes(mixed[:8], "little") >> 11) / 2**53


def _drawn(rows: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """A class for each row of probabilities."""
    cumulated = np.cumsum(rows, axis=1)
    # As in draws.independent: the last value is exactly 1, and a class of probability 0 is never drawn.
    cumulated /= cumulated[:, -1:]
    return (cumulated <= uniform[:, None]).sum(1)


def _portions(rows: np.ndarray, inputs: Inputs) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Row numbers and their inputs, as many at once as memory should hold."""
    if len(rows):
        at_once = max(1, BYTES_AT_ONCE // (8 * max(1, inputs(rows[:1]).size)))
        for start in range(0, len(rows), at_once):
            portion = rows[start : start + at_once]
            yield portion, inputs(portion)


def _generator(stream: np.random.SeedSequence) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(stream))
