"""Export the images of a run as a folder of class folders, as links or as copies.

Unsafe characters in names are escaped as in a URL, so that different names stay different; a file
name that is taken in its class gets a number. The originals are not changed. Links are for other
tools: surelabel does not read links that lead out of a data folder, so that a folder from elsewhere
cannot pull in other files. It trains on copies, or on the originals with --labels.
"""

import hashlib
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from surelabel.errors import ConfigError, DataError
from surelabel.exporting.selection import Cleaned

FOLDER = "images"
MAX_NAME_BYTES = 200
"""File systems allow 255, and a number may be added."""
_UNSAFE = re.compile(r'[%/\\:*?"<>|\x00-\x1f\x7f]|^\.|^[ ]|[ .]$')
"""Characters that separate paths, are special to shells or Windows, hide a file, or get lost."""


def check_images(cleaned: Cleaned, how: str, paths: Mapping[str, Path] | None) -> dict[str, Path]:
    """Return the file of every row by id; raise if one is missing, before anything is written."""
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
    """Write OUT/images/CLASS/NAME for every row, under its class after cleaning."""
    place = {name: folder / FOLDER / safe_name(name) for name in cleaned.class_names}
    for name in set(cleaned.columns["label"].tolist()):  # readers refuse an empty class folder
        place[name].mkdir(parents=True)
    taken: dict[str, set[str]] = {name: set() for name in place}
    for row_id, label in zip(cleaned.columns["id"].tolist(), cleaned.columns["label"].tolist(), strict=True):
        name = _unique(safe_name(files[row_id].name), taken[label])
        if how == "link":
            (place[label] / name).symlink_to(files[row_id])
        else:
            shutil.copyfile(files[row_id], place[label] / name)


def safe_name(text: str) -> str:
    """Return a safe file name for `text` that no other text gets."""
    name = _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text) or "%"
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    suffix = re.search(r"\.[A-Za-z0-9]{1,8}$", name)
    end = hashlib.sha256(text.encode()).hexdigest()[:16] + (suffix[0] if suffix else "")
    return name.encode()[: MAX_NAME_BYTES - len(end) - 1].decode(errors="ignore") + "-" + end


def _unique(name: str, taken: set[str]) -> str:
    """Add a number to the name if it is taken; some file systems ignore case, so this does too."""
    stem, dot, suffix = name.rpartition(".")
    stem, suffix = (stem, dot + suffix) if stem else (name, "")
    number, found = 1, name
    while found.casefold() in taken:
        number += 1
        found = f"{stem}-{number}{suffix}"
    taken.add(found.casefold())
    return found
