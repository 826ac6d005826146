"""What may be left out, and what must not vanish with it."""

import numpy as np

from surelabel.errors import DataError


def refuse_lost_classes(before: np.ndarray, after: np.ndarray, where: str) -> None:
    """An error for a class (n,) str of which nothing is left, since training would silently be about fewer classes."""
    lost = sorted(set(before.tolist()) - set(after.tolist()) - {""})
    if lost:
        more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
        count = int((before == lost[0]).sum())
        raise DataError(
            f"{where}: the class {lost[0]!r}{more} has no row left, all {count} were left out as unreadable; "
            "repair them or remove the class"
        )
