"""Lists of image files, as many data sets publish them, and the rows they name."""

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.data.benchmarks.benchmark import Request
from surelabel.data.benchmarks.dataset_directory import check_inside
from surelabel.data.images.load import Files, load_images
from surelabel.data.sources.checks import refuse_lost_classes
from surelabel.data.sources.interface import Rows
from surelabel.errors import DataError

_MAX_SHOWN = 3

_log = logging.getLogger("surelabel")


@dataclass
class ImageList:
    """Image files with their class names and ids."""

    paths: list[str] = field(default_factory=list)
    """Relative to the root."""
    names: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

    def add(self, path: str, name: str, row_id: str) -> None:
        """Append a file."""
        self.paths.append(path)
        self.names.append(name)
        self.ids.append(row_id)

    def extend(self, other: "ImageList") -> None:
        """Append the files of another list."""
        self.paths += other.paths
        self.names += other.names
        self.ids += other.ids

    def __len__(self) -> int:
        return len(self.paths)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers from 1."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line.strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not readable as a list in UTF-8 ({' '.join(str(error).split())})") from None


def read_labelled_lines(path: Path, num_classes: int) -> Iterator[tuple[str, int]]:
    """Yield the file and class number of lines such as `images/2/26/3761,9053.jpg 4`.

    File names may contain commas and spaces.
    """
    for number, line in read_lines(path):
        key, _, label = line.replace("\t", " ").rpartition(" ")
        if not key or not label.isdecimal() or int(label) >= num_classes:
            raise DataError(f"{path}, line {number}: expected a file and a class of 0..{num_classes - 1}, got {line!r}")
        yield key.strip(), int(label)


def read_listed_images(images: ImageList, request: Request[Any], is_clean: bool = False) -> Rows:
    """Read the listed files that exist and are readable; `is_clean` marks the labels as true."""
    name, root = request.directory.name, request.root
    if not len(images):
        raise DataError(f"{name}: {root}: the lists contain no images of the requested classes")
    folders = _Folders(root)
    exists = np.array([folders.contains(path) for path in images.paths])
    if not exists.all():
        _report_missing([images.paths[position] for position in np.flatnonzero(~exists)], len(images), request)
    existing = np.flatnonzero(exists)
    files = Files([Path(f"{root}/{images.paths[position]}") for position in existing])
    x, readable, encoded = load_images(files, request.config, request.shape, name)
    names, kept = np.array(images.names), existing[readable]
    refuse_lost_classes(names, names[kept], name)
    return Rows(
        x, names[kept], np.array(images.ids)[kept], names[kept] if is_clean else None, positions=kept, encoded=encoded
    )


def _report_missing(missing: list[str], count: int, request: Request[Any]) -> None:
    """Raise an error, or log a warning if `unreadable` is "skip" and not everything is missing."""
    shown = f"{len(missing)} of {count} listed images (such as {', '.join(missing[:_MAX_SHOWN])})"
    if len(missing) == count:
        raise request.directory.missing(request.root, shown)
    if request.config.unreadable == "refuse":
        raise request.directory.missing(request.root, f"{shown}; data.unreadable=skip leaves them out")
    _log.warning("%s: %s lacks %s; they are left out", request.directory.name, request.root, shown)


class _Folders:
    """The files in folders, each listed once: a million single checks would take minutes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._is_link: dict[str, dict[str, bool]] = {}

    def contains(self, path: str) -> bool:
        """Return whether the file exists; it must not lie outside the root."""
        folder, _, name = path.rpartition("/")
        if folder not in self._is_link:
            self._is_link[folder] = self._list_folder(folder)
        is_link = self._is_link[folder].get(name)
        if is_link:
            check_inside(self.root / path, self.root)
        return is_link is not None

    def _list_folder(self, folder: str) -> dict[str, bool]:
        """Return the names in a folder, and whether each is a link."""
        place = check_inside(self.root / folder, self.root)
        if not place.is_dir():
            return {}
        with os.scandir(place) as entries:
            return {entry.name: entry.is_symlink() for entry in entries}
