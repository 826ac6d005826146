"""The images of a run as a folder of class folders, by links to the originals or by copies.

A name that is no safe file name is escaped as in a URL, so that two names never become one; a file name that is taken in its class gets a
number. Nothing of the originals is changed. Links are for other tools: surelabel itself reads no link that leads out of its folder, so that
a foreign folder cannot pull in other files; it trains on copies, or on the originals with --labels.
"""

import hashlib
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from surelabel.errors import ConfigError, DataError
from surelabel.exporting.selection import Cleaned

FOLDER = "images"
LONGEST = 200
"""Bytes of a name; file systems take 255, and a number may follow."""
_UNSAFE = re.compile(r'[%/\\:*?"<>|\x00-\x1f\x7f]|^\.|^[ ]|[ .]$')
"""Parts paths, has a meaning to a shell or to Windows, hides a file, or is lost at the end of a name."""

How = Literal["link", "copy"]


def check_images(cleaned: Cleaned, how: str, paths: Mapping[str, Path] | None) -> dict[str, Path]:
    """The file of every row, by id; an error before anything is written where one is missing."""
    if how not in ("link", "copy"):
        raise ConfigError(f"images: {how!r} is not allowed; expected link or copy")
    if paths is None:
        raise DataError("images: the run's data are not image files; they can only be exported as tables")
    found = {name: Path(paths[name]).resolve() for name in cleaned.columns["id"].tolist() if name in paths}
    missing = [name for name in cleaned.columns["id"].tolist() if name not in found or not found[name].is_file()]
    if missing:
        some = ", ".join(map(repr, missing[:3])) + (", ..." if len(missing) > 3 else "")
        raise DataError(f"images: there is no file for {len(missing)} of {len(cleaned)} rows: {some}")
    return found


def write_images(folder: Path, cleaned: Cleaned, how: str, files: Mapping[str, Path]) -> None:
    """OUT/images/CLASS/NAME for every row, in the class that it has after cleaning."""
    place = {name: folder / FOLDER / safe_name(name) for name in cleaned.class_names}
    for name in set(cleaned.columns["label"].tolist()):  # an empty class folder would be one that is broken
        place[name].mkdir(parents=True)
    taken: dict[str, set[str]] = {name: set() for name in place}
    for row_id, label in zip(cleaned.columns["id"].tolist(), cleaned.columns["label"].tolist(), strict=True):
        name = _unique(safe_name(files[row_id].name), taken[label])
        if how == "link":
            (place[label] / name).symlink_to(files[row_id])
        else:
            shutil.copyfile(files[row_id], place[label] / name)


def safe_name(text: str) -> str:
    """A file name that stands for `text` alone."""
    name = _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text) or "%"
    if len(name.encode()) <= LONGEST:
        return name
    suffix = re.search(r"\.[A-Za-z0-9]{1,8}$", name)
    end = hashlib.sha256(text.encode()).hexdigest()[:16] + (suffix[0] if suffix else "")
    return name.encode()[: LONGEST - len(end) - 1].decode(errors="ignore") + "-" + end


def _unique(name: str, taken: set[str]) -> str:
    """The name, or with a number; capitals make no other name, because some file systems see none."""
    stem, dot, suffix = name.rpartition(".")
    stem, suffix = (stem, dot + suffix) if stem else (name, "")
    number, found = 1, name
    while found.casefold() in taken:
        number += 1
        found = f"{stem}-{number}{suffix}"
    taken.add(found.casefold())
    return found
