"""Per-sample losses for methods written outside the package; they are defined in core/losses.py."""

from surelabel.core.losses import (
    cross_entropy,
    generalised_cross_entropy,
    mean_absolute_error,
    reverse_cross_entropy,
)

__all__ = ["cross_entropy", "generalised_cross_entropy", "mean_absolute_error", "reverse_cross_entropy"]
