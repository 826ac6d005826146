"""Per-sample losses for methods outside the package; core/losses.py defines them."""

from surelabel.core.losses import (
    cross_entropy,
    generalised_cross_entropy,
    mean_absolute_error,
    reverse_cross_entropy,
)

__all__ = ["cross_entropy", "generalised_cross_entropy", "mean_absolute_error", "reverse_cross_entropy"]
