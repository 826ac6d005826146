"""Accepting suggestions: which labels change, how many of a class may, and which classes would be lost by it."""

from collections.abc import Iterable, Mapping

import numpy as np

from surelabel.errors import ConfigError

MOST = 0.5
"""A class that would lose more than this share of its labels is named."""
MOST_NAMED = 3
"""Such classes that get a sentence of their own; more share one."""
MOST_LISTED = 5
"""Classes that a sentence names; the rest are counted."""


def check_share(name: str, value: float | None) -> None:
    """A share is in [0, 1]."""
    if value is not None and not 0 <= value <= 1:
        raise ConfigError(f"{name}={value}: expected a number from 0 to 1")


def capped(wanted: np.ndarray, given: np.ndarray, p_wrong: np.ndarray, class_cap: float | None) -> np.ndarray:
    """(N,) bool: of the wanted changes, the likeliest wrong labels, up to this share of any given class."""
    if class_cap is None:
        return wanted
    taken = np.zeros(len(wanted), dtype=bool)
    for name in set(given[wanted].tolist()):
        rows = np.flatnonzero(wanted & (given == name))
        most = int(class_cap * (given == name).sum() + 1e-9)  # 0.29 x 100 rows are 29, not 28
        taken[rows[np.argsort(-p_wrong[rows], kind="stable")][:most]] = True
    return taken


def losing_classes(given: np.ndarray, changes: np.ndarray, class_names: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Classes most of whose labels change, with how many do and how many there are."""
    counts = {str(name): (int((changes & (given == name)).sum()), int((given == name).sum())) for name in class_names}
    return {name: (lost, size) for name, (lost, size) in counts.items() if lost > MOST * size}


def losing_counts(losing: Mapping[str, tuple[int, int]]) -> dict[str, dict[str, int]]:
    """The same for files that others read."""
    return {name: {"labels": size, "changed": lost} for name, (lost, size) in losing.items()}


def listed(losing: Mapping[str, tuple[int, int]]) -> str:
    """'owl' 3 of 4, 'fox' 5 of 6: the first of many classes, and how many more there are."""
    named = [f"{name!r} {lost:,} of {size:,}" for name, (lost, size) in losing.items()][:MOST_LISTED]
    more = len(losing) - len(named)
    return ", ".join(named) + (f" and {more:,} more" if more else "")
