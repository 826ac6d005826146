"""Noise that depends on the input: part-dependent label noise of Xia et al., NeurIPS 2020.

Each input n of class y has a flip rate q_n, drawn from the normal distribution with mean RATE and
standard deviation 0.1, truncated to [0, 1]. Each class c has a matrix W_c (S, K) of independent
standard normal entries. With a = x_n W_y and a_y = -inf, the new label is drawn from
p = q_n softmax(a), p_y = 1 - q_n.

The scale of x shapes the noise, so it is an option, and the manifest records it:
- `raw`, as in the official code, takes pixels as 0..255. The standard deviation of a is then the
  norm of x, in the thousands, and the softmax is nearly one-hot: each input is confused with
  essentially one class.
- `unit` takes pixels as 0..1; the softmax is still peaked.
- `length` divides x by its norm: a has standard deviation 1, and the new labels spread out.

Where we differ from the official code:
- q_n comes from a hash of the input and the seed, not from the position of the row. So p is a
  function of input and class, and two copies of an image have the same p wherever they are.
- A rate of 0 changes nothing; the truncated normal distribution would change 8 % of the labels.
- Sums are in float64, and W_c is drawn when class c is processed, so memory holds (S, K) numbers
  instead of (K, S, K).
"""

import hashlib
from collections.abc import Iterator, Sequence
from statistics import NormalDist

import numpy as np

from surelabel.errors import ConfigError, DataError
from surelabel.noise.clean_data import Inputs

SPREAD = 0.1
"""Standard deviation of the flip rates."""
BYTES_AT_ONCE = 2**26
"""Size of the inputs held in memory as float64."""


def draw_by_input(
    clean: np.ndarray, num_classes: int, rate: float, scale: str, inputs: Inputs, seed: int
) -> tuple[np.ndarray, np.ndarray, str]:
    """Return labels (N,), the flip rates (N,) they were drawn with, and a hash of the inputs."""
    # One random stream per class, so that its matrix does not depend on which other classes occur.
    *streams, last = map(_generator, np.random.SeedSequence(seed).spawn(num_classes + 1))
    uniform = last.random(len(clean))
    given, flip, digests = clean.copy(), np.zeros(len(clean)), [b""] * len(clean)
    for old in range(num_classes):
        weights = np.empty((0, num_classes))
        for rows, x in _read_in_chunks(np.flatnonzero(clean == old), inputs):
            flat = flatten(x, scale)
            weights = weights if len(weights) else streams[old].standard_normal((flat.shape[1], num_classes))
            hashes = hash_each(x)
            flip[rows] = flip_rates(hashes, rate, seed)
            given[rows] = _sample(probabilities(flat, weights, flip[rows], old), uniform[rows])
            for row, digest in zip(rows, hashes, strict=True):
                digests[row] = digest
    return given, flip, hashlib.sha256(b"".join(digests)).hexdigest()


def probabilities(flat: np.ndarray, weights: np.ndarray, flip: np.ndarray, old: int) -> np.ndarray:
    """Return p (B, K) of each new label, for inputs (B, S) of class `old` with flip rates (B,)."""
    with np.errstate(all="ignore"):
        scores = flat @ weights
    if not np.isfinite(scores).all():
        raise DataError(
            "instance noise: an input holds values that are NaN, infinite or too large; expected finite ones"
        )
    scores[:, old] = -np.inf
    others = np.exp(scores - scores.max(1, keepdims=True))
    p: np.ndarray = flip[:, None] * others / others.sum(1, keepdims=True)
    p[:, old] = 1 - flip
    p /= p.sum(1, keepdims=True)
    return p


def flatten(x: np.ndarray, scale: str) -> np.ndarray:
    """Return inputs as (B, S) float64, in the scale that is named."""
    flat: np.ndarray = x.reshape(len(x), -1).astype(np.float64)
    if scale == "unit":
        if x.dtype != np.uint8:
            raise ConfigError("noise.instance_scale: unit is for pixels 0..255; features take raw or length")
        flat /= 255
    if scale == "length":
        flat /= np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return flat


def flip_rates(digests: Sequence[bytes], rate: float, seed: int) -> np.ndarray:
    """Return the flip rates (B,) of inputs, whose hashes take the place of random numbers."""
    if rate == 0:
        return np.zeros(len(digests))
    normal, standard = NormalDist(rate, SPREAD), NormalDist()
    lowest, highest = normal.cdf(0), normal.cdf(1)
    # The inverse of the truncated distribution's cumulative function.
    level = lowest + np.array([_uniform(digest, seed) for digest in digests]) * (highest - lowest)
    level = np.clip(level, np.finfo(np.float64).tiny, 1 - 2**-53)  # undefined at 0 and 1
    return np.clip(rate + SPREAD * np.array([standard.inv_cdf(value) for value in level]), 0, 1)


def inputs_sha256(num_rows: int, inputs: Inputs) -> str:
    """Return the hash of the inputs that `draw_by_input` returns, without drawing labels."""
    hashes = [digest for _, x in _read_in_chunks(np.arange(num_rows), inputs) for digest in hash_each(x)]
    return hashlib.sha256(b"".join(hashes)).hexdigest()


def hash_each(x: np.ndarray) -> list[bytes]:
    """Return the SHA-256 of each input."""
    return [hashlib.sha256(row).digest() for row in np.ascontiguousarray(x)]


def _uniform(digest: bytes, seed: int) -> float:
    """Map a hash to a number in [0, 1), of 53 bits so that it never rounds to 1."""
    mixed = hashlib.sha256(digest + seed.to_bytes(8, "little")).digest()
    return (int.from_bytes(mixed[:8], "little") >> 11) / 2**53


def _sample(p: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Return a class (B,) for each row of p (B, K), from one uniform number each."""
    cumulated = np.cumsum(p, axis=1)
    # The last value is then exactly 1, so that a class of probability 0 is never drawn.
    cumulated /= cumulated[:, -1:]
    classes: np.ndarray = (cumulated <= uniform[:, None]).sum(1)
    return classes


def _read_in_chunks(rows: np.ndarray, inputs: Inputs) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield row numbers with their inputs, in chunks that fit in memory."""
    if len(rows):
        at_once = max(1, BYTES_AT_ONCE // (8 * max(1, inputs(rows[:1]).size)))
        for start in range(0, len(rows), at_once):
            chunk = rows[start : start + at_once]
            yield chunk, inputs(chunk)


def _generator(stream: np.random.SeedSequence) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(stream))
