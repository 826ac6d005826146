"""Tell whether new rows are like those that a run knows, and by how much a verdict may be off.

A number of each new row is compared with the same number of reference rows. If the rows are alike,
both are draws from one distribution. The largest distance between the two distribution functions,
in the direction that speaks of drift, is a lower bound of the fraction of new rows that are unlike
the reference. What chance alone explains is subtracted (Kolmogorov and Smirnov), so that rows of
the same kind have none, and no limit has to be chosen. The rows at the far end are taken to be the
unlike ones: nothing is known about their labels.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Drift:
    """One comparison of new rows with those of the run."""

    name: str
    """probability or distance."""
    share: float
    """At least this fraction of the new rows is unlike the reference; 0 if chance explains all."""
    new: float
    """Mean over the new rows."""
    reference: float
    """Mean over the reference rows."""
    is_unlike: NDArray[np.bool_]
    """(M,) the rows that are most unlike the reference, as many as `share` says."""

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison for JSON."""
        return {"name": self.name, "share": self.share, "new": self.new, "reference": self.reference}


def measure_drift(name: str, new: Array, reference: Array, tail: float) -> Drift:
    """Compare (M,) values of new rows with (N,) of others; drift means that new ones are smaller.

    `tail` is the probability of finding drift among rows of the same kind.
    """
    values = np.sort(np.concatenate([new, reference]))
    above = [np.searchsorted(np.sort(part), values, side="right") / len(part) for part in (new, reference)]
    distance = float(np.max(above[0] - above[1]))
    chance = np.sqrt(-np.log(tail) / 2 * (1 / len(new) + 1 / len(reference)))
    share = max(0.0, distance - float(chance))
    is_unlike = np.zeros(len(new), dtype=bool)
    is_unlike[np.argsort(new, kind="stable")[: round(share * len(new))]] = True
    return Drift(name, share, float(np.mean(new)), float(np.mean(reference)), is_unlike)
