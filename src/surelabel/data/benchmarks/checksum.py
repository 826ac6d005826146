"""Whether a file is the published one."""

import hashlib
from pathlib import Path

from surelabel.errors import DataError


def check_md5(path: Path, expected: str) -> None:
    """An error where the file has another md5 sum; against damage and mix-ups, not against forgery."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != expected:
        raise DataError(
            f"{path}: not the published file: its md5 sum is {found}, expected {expected}; fetch it again, "
            "or set data.options.verify=false to read it as it is"
        )
