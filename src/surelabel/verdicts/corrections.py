"""Accepting suggestions: which labels change, how many of a class may, and which classes would be lost by it."""

import numpy as np

from surelabel.errors import ConfigError

LOST = 0.5
"""A class that would keep less than this share of its size is named."""


def check_share(name: str, value: float | None) -> None:
    """A share is in [0, 1]."""
    if value is not None and not 0 <= value <= 1:
        raise ConfigError(f"{name}={value}: expected a number from 0 to 1")


def accepted(
    given: np.ndarray,
    suggested: np.ndarray,
    p_wrong: np.ndarray,
    min_probability: float,
    max_share_per_class: float | None = None,
) -> np.ndarray:
    """(N,) mask of labels that change: the likeliest wrong ones first, at most this share of any given class."""
    wanted = (p_wrong >= min_probability) & (suggested != given)
    if max_share_per_class is None:
        return wanted
    taken = np.zeros_like(wanted)
    for label in np.unique(given[wanted]):
        size = int((given == label).sum())
        rows = np.flatnonzero(wanted & (given == label))
        taken[rows[np.argsort(-p_wrong[rows], kind="stable")][: int(max_share_per_class * size + 1e-9)]] = True
    return taken


def shrinking_classes(given: np.ndarray, after: np.ndarray) -> dict[str, tuple[int, int]]:
    """Classes that would lose most of their labels, with how many they have before and after: what comes in counts too."""
    names, sizes = np.unique(given, return_counts=True)
    left = {str(name): int((after == name).sum()) for name in names}
    return {
        str(name): (int(size), left[str(name)])
        for name, size in zip(names, sizes, strict=True)
        if left[str(name)] < LOST * size
    }
