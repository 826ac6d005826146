"""Where a named data set lies, the options it takes, and what to say when files are missing."""

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from surelabel.config import DataConfig, Part, one_line
from surelabel.errors import ConfigError, DataError

VARIABLE = "SURELABEL_DATA"
"""Environment variable: the folder that holds a folder for each named data set."""

_Options = TypeVar("_Options", bound=Part)


@dataclass(frozen=True)
class Layout:
    """What the folder of a named data set looks like."""

    name: str
    tree: str
    """The expected files, on one line."""
    obtain: str
    """Where the data are to be had."""
    also: tuple[str, ...] = ()
    """Names of other sets whose folder serves too."""
    places: tuple[str, ...] = ()
    """Further folders to look in, such as a Linux distribution's."""

    def root(self, config: DataConfig) -> Path:
        """The data set's folder: `config.root`, or the first that exists of the usual places."""
        places = [Path(config.root).expanduser()] if config.root is not None else self._usual_places()
        for place in places:
            if place.is_dir():
                return place
        looked = ", ".join(map(str, places))
        hint = "" if config.root is not None else f" (data.root names a folder; ${VARIABLE} one for all sets)"
        raise DataError(f"{self.name}: no such folder: {looked}{hint}; {self._help()}")

    def lacks(self, root: Path, missing: str) -> DataError:
        """The error for a folder that is not complete."""
        return DataError(f"{self.name}: {root} lacks {missing}; {self._help()}")

    def require(self, root: Path, folder: Path, files: Sequence[str]) -> None:
        """An error that lists those of `files` that are not in `folder`, which may be a part of the root."""
        missing = [name for name in files if not (folder / name).exists()]
        if missing:
            raise self.lacks(root, ", ".join(str((folder / name).relative_to(root)) for name in missing))
        for name in files:
            inside(folder / name, root)

    def _usual_places(self) -> list[Path]:
        homes = [Path(os.environ[VARIABLE]).expanduser()] if os.environ.get(VARIABLE) else []
        named = [home / name for name in (self.name, *self.also) for home in (*homes, Path("data"))]
        return named + [Path(place) for place in self.places]

    def _help(self) -> str:
        return f"expected {self.tree}; to be had from {self.obtain}"


def options_of(config: DataConfig, model: type[_Options]) -> _Options:
    """The data set's options in their types, or an error that names the option and what is allowed."""
    known = list(model.model_fields)
    for option in config.options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            exist = f"{hint}there are {', '.join(known)}" if known else "it has none"
            raise ConfigError(f"data.options.{option}: {config.source} has no such option; {exist}")
    try:
        return model.model_validate(config.options)
    except ValidationError as error:
        raise ConfigError(one_line(error, prefix="data.options.")) from None


def inside(path: Path, root: Path) -> Path:
    """The path itself, whose real place must lie in the root: neither links nor ".." may lead out of it.

    A download of the Hugging Face hub is a folder of links into the store beside it, which may be followed.
    """
    base = root.resolve()
    stores = [folder.parent / "blobs" for folder in (base, *base.parents) if folder.name == "snapshots"]
    if not any(path.resolve().is_relative_to(place) for place in (base, *stores)):
        raise DataError(f"{path}: leads out of {root}; copy the files, or give the folder they are in")
    return path
