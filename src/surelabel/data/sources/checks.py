"""Names of files, which become ids and classes and are kept as UTF-8."""

import os
from pathlib import Path

from surelabel.errors import DataError


def is_utf8(name: str) -> bool:
    """Whether a name that the system gave is UTF-8; other bytes stand in it as lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def refuse_not_utf8(path: Path) -> None:
    """An error for a path that is not UTF-8, with its odd bytes escaped."""
    if not is_utf8(str(path)):
        shown = os.fsencode(path).decode(errors="backslashreplace")
        raise DataError(f"{shown}: a name that is not UTF-8; names of files and folders must be, so rename it")
