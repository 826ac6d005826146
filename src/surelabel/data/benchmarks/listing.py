"""Lists of image files as data sets publish them, and the rows they name."""

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from surelabel.config import DataConfig
from surelabel.data.benchmarks.layout import Layout, inside
from surelabel.data.images.load import Files, load_images
from surelabel.data.inputs import Shape
from surelabel.data.sources.checks import refuse_lost_classes
from surelabel.data.sources.interface import Rows
from surelabel.errors import DataError

_MOST_SHOWN = 3

_log = logging.getLogger("surelabel")


@dataclass
class Listing:
    """Image files with the name of each one's class and an id."""

    paths: list[str] = field(default_factory=list)
    """Relative to the root."""
    names: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

    def add(self, path: str, name: str, row_id: str) -> None:
        """One more file."""
        self.paths.append(path)
        self.names.append(name)
        self.ids.append(row_id)

    def extend(self, other: "Listing") -> None:
        """The files of another listing after these."""
        self.paths += other.paths
        self.names += other.names
        self.ids += other.ids

    def __len__(self) -> int:
        return len(self.paths)


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line.strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not readable as a list in UTF-8 ({' '.join(str(error).split())})") from None


def labelled_lines(path: Path, num_classes: int) -> Iterator[tuple[str, int]]:
    """The files and class numbers of lines like `images/2/26/3761,9053.jpg 4`; names may hold commas and spaces."""
    for number, line in lines_of(path):
        key, _, label = line.replace("\t", " ").rpartition(" ")
        if not key or not label.isdecimal() or int(label) >= num_classes:
            raise DataError(f"{path}, line {number}: expected a file and a class of 0..{num_classes - 1}, got {line!r}")
        yield key.strip(), int(label)


def listed_rows(
    listing: Listing, root: Path, layout: Layout, config: DataConfig, shape: Shape, is_clean: bool = False
) -> Rows:
    """A row for each file that is there and can be read; `is_clean` says that the labels are true ones."""
    if not len(listing):
        raise DataError(f"{layout.name}: {root}: the lists name no images of the classes asked for")
    folders = _Folders(root)
    is_there = np.array([folders.holds(path) for path in listing.paths])
    if not is_there.all():
        _tell_missing(
            [listing.paths[position] for position in np.flatnonzero(~is_there)], listing, root, layout, config
        )
    there = np.flatnonzero(is_there)
    files = Files([Path(f"{root}/{listing.paths[position]}") for position in there])
    x, readable = load_images(files, config, shape, layout.name)
    names, kept = np.array(listing.names), there[readable]
    refuse_lost_classes(names, names[kept], layout.name)
    return Rows(x, names[kept], np.array(listing.ids)[kept], clean=names[kept] if is_clean else None)


def _tell_missing(missing: list[str], listing: Listing, root: Path, layout: Layout, config: DataConfig) -> None:
    """An error, or with `unreadable` "skip" a line in the log, unless everything is missing."""
    shown = f"{len(missing)} of {len(listing)} listed images (such as {', '.join(missing[:_MOST_SHOWN])})"
    if len(missing) == len(listing):
        raise layout.lacks(root, shown)
    if config.unreadable == "refuse":
        raise layout.lacks(root, f"{shown}; data.unreadable=skip goes on without them")
    _log.warning("%s: %s lacks %s; going on without them", layout.name, root, shown)


class _Folders:
    """The files in folders, each of which is listed once: asking for a million files one by one takes minutes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files: dict[str, dict[str, bool]] = {}

    def holds(self, path: str) -> bool:
        """Whether the file exists; it may not lie outside of the root."""
        folder, _, name = path.rpartition("/")
        if folder not in self._files:
            self._files[folder] = self._read(folder)
        is_link = self._files[folder].get(name)
        if is_link:
            inside(self.root / path, self.root)
        return is_link is not None

    def _read(self, folder: str) -> dict[str, bool]:
        """By name, whether it is a link."""
        place = inside(self.root / folder, self.root)
        if not place.is_dir():
            return {}
        with os.scandir(place) as entries:
            return {entry.name: entry.is_symlink() for entry in entries}
