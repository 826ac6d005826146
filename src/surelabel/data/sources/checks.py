"""Checks that several sources make: names of files must be UTF-8, and no class may be lost."""

import os
from pathlib import Path

import numpy as np

from surelabel.errors import DataError


def is_utf8(name: str) -> bool:
    """Return whether a file name is UTF-8; Python marks other bytes in it as lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def refuse_not_utf8(path: Path) -> None:
    """Raise if a path is not UTF-8, and show its odd bytes escaped: paths become ids and class names."""
    if not is_utf8(str(path)):
        shown = os.fsencode(path).decode(errors="backslashreplace")
        raise DataError(f"{shown}: a name that is not UTF-8; names of files and folders must be, so rename it")


def refuse_lost_classes(before: np.ndarray, after: np.ndarray, where: str) -> None:
    """Raise if a class name (n,) of `before` is not in `after`: training would silently have fewer classes."""
    lost = sorted(set(before.tolist()) - set(after.tolist()) - {""})
    if lost:
        more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
        count = int((before == lost[0]).sum())
        raise DataError(
            f"{where}: the class {lost[0]!r}{more} has no row left, all {count} were left out as unreadable; "
            "repair them or remove the class"
        )
