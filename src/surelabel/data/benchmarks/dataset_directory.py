"""The directory of a named data set: where to look for it, and which files it must hold."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from surelabel.config import DataConfig
from surelabel.data.sources.checks import download_stores, resolve_inside
from surelabel.errors import DataError

VARIABLE = "SURELABEL_DATA"
"""Environment variable that names the folder with one folder per data set."""


@dataclass(frozen=True)
class DatasetDirectory:
    """The directory of a named data set, as its authors publish it."""

    name: str
    layout: str
    """The expected files, on one line."""
    download: str
    """Where to get the data."""
    fallback_names: tuple[str, ...] = ()
    """Names of other data sets whose folder serves too."""
    fallback_places: tuple[str, ...] = ()
    """Other folders to look in, such as that of a Linux package."""

    def find(self, config: DataConfig) -> Path:
        """Return `config.root`, or the first of the usual places that exists."""
        places = [Path(config.root).expanduser()] if config.root is not None else self._usual_places()
        for place in places:
            if place.is_dir():
                return place
        tried = ", ".join(map(str, places))
        hint = "" if config.root is not None else f" (data.root names a folder; ${VARIABLE} one for all sets)"
        raise DataError(f"{self.name}: no such folder: {tried}{hint}; {self._help()}")

    def missing(self, root: Path, what: str) -> DataError:
        """Return the error for a root in which something is missing."""
        return DataError(f"{self.name}: {root} lacks {what}; {self._help()}")

    def require(self, root: Path, folder: Path, files: Sequence[str]) -> None:
        """Check that `folder`, the root or a folder in it, holds all files."""
        absent = [name for name in files if not (folder / name).exists()]
        if absent:
            raise self.missing(root, ", ".join(str((folder / name).relative_to(root)) for name in absent))
        for name in files:
            check_inside(folder / name, root)

    def _usual_places(self) -> list[Path]:
        homes = [Path(os.environ[VARIABLE]).expanduser()] if os.environ.get(VARIABLE) else []
        named = [home / name for name in (self.name, *self.fallback_names) for home in (*homes, Path("data"))]
        return named + [Path(place) for place in self.fallback_places]

    def _help(self) -> str:
        return f"expected {self.layout}; to be had from {self.download}"


def check_inside(path: Path, root: Path) -> Path:
    """Return the path after checking that neither links nor ".." lead out of the root.

    A download of the Hugging Face hub is a folder of links into the store beside it; these may be
    followed.
    """
    resolve_inside(path, root, download_stores(root))
    return path


def check_md5(path: Path, expected: str) -> None:
    """Check that a file is the published one; this detects damage and mix-ups, not forgery."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != expected:
        raise DataError(
            f"{path}: not the published file: its md5 sum is {found}, expected {expected}; download it again, "
            "or set data.options.verify=false to read it as it is"
        )
