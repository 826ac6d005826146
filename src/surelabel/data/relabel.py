"""Labels of your own over any source, and rows whose label a person has confirmed: tables with id and label.

`data.labels` replaces the source's labels for the rows that it names, or gives a source labels that has none. Where the source
fixes the order of its classes, whole numbers count them, unless classes are called so. Rows to train on come first:
a test row gets a label only where no training row has its id. `data.trusted` names rows whose label is right, and may say it.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import torch

from surelabel.config import DataConfig
from surelabel.data.corpus import Corpus, Examples
from surelabel.data.sources.interface import Parts, Rows
from surelabel.data.sources.tables.csv_file import read_csv
from surelabel.errors import DataError

_log = logging.getLogger("surelabel")

_MOST_SHOWN = 5


class LabelFile:
    """Ids, and labels or blanks where the file has no such column."""

    def __init__(self, path: str, needs_label: bool) -> None:
        self.path = path
        self.sheet = read_csv(path)
        self.ids = self._cells("id")
        has_label = needs_label or self._find("label") is not None
        self.labels = self._cells("label") if has_label else None
        self.place = {name: row for row, name in reversed(list(enumerate(self.ids.tolist())))}
        self.sheet.refuse(
            np.array([self.place[name] != row for row, name in enumerate(self.ids.tolist())], dtype=bool),
            lambda row: f"the id {str(self.ids[row])!r} has a row before",
        )

    def named(self, class_names: tuple[str, ...] | None) -> np.ndarray:
        """(n,) str: the labels, as names of classes where those are fixed."""
        assert self.labels is not None
        if class_names is None:
            return self.labels
        labels = _counted(self.labels, class_names)
        self.sheet.refuse(
            ~np.isin(labels, class_names),
            lambda row: f"there is no class {str(labels[row])!r}; there are {_few(class_names)}",
        )
        return labels

    def refuse_unknown(self, parts: Iterable[Rows | Examples], config: DataConfig) -> None:
        """An error for ids that nowhere exist, if they are most; else they are rows that were removed or skipped, and are listed."""
        known = [name for rows in parts for name in rows.ids.tolist()]
        unknown = np.flatnonzero(~np.isin(self.ids, known))
        if not len(unknown):
            return
        counted = f"{len(unknown)} of {len(self.ids)} ids are not in {config.source}: {_few(self.ids[unknown])}"
        if config.unreadable == "skip":
            _log.warning("%s: %s, or were left out there", self.path, counted)
            return
        if 2 * len(unknown) <= len(self.ids):
            _log.warning("%s: %s; rows that were removed there are passed over", self.path, counted)
            return
        raise DataError(f"{self.sheet.row(unknown[0])}: {counted}; its own are like {known[0]!r}")

    def _find(self, usual: str) -> str | None:
        return next((name for name in self.sheet.names if name.lower() == usual), None)

    def _cells(self, usual: str) -> np.ndarray:
        column = self._find(usual)
        if column is None:
            raise self.sheet.error(f"there is no column {usual!r}; there are {', '.join(self.sheet.names)}")
        cells = self.sheet.cells(column)
        self.sheet.refuse(cells == "", f"{column} is blank")
        return cells


def relabelled(parts: Parts, tests: Mapping[str, Rows], config: DataConfig) -> tuple[Parts, dict[str, Rows]]:
    """The parts with the labels of `data.labels`, if that is given; every row must then have one."""
    if config.labels is None:
        return parts, dict(tests)
    file = LabelFile(config.labels, needs_label=True)
    file.refuse_unknown([parts.train, *tests.values()], config)
    labels = file.named(parts.class_names)
    _mention_new_classes(file, labels, parts)
    train = _replaced(parts.train, file, labels, None, config)
    others = {name: _replaced(rows, file, labels, train, config, f" {name}") for name, rows in tests.items()}
    return replace(parts, train=train), others


def mark_trusted(corpus: Corpus, config: DataConfig, before: Corpus | None = None) -> Corpus:
    """The corpus in which the rows of `data.trusted` are marked, and labelled as that file says.

    Where the file has no labels, `before` has those that were confirmed: the ones before noise was injected.
    """
    if config.trusted is None:
        return corpus
    file = LabelFile(config.trusted, needs_label=False)
    everywhere = [corpus.train, corpus.validation, *corpus.tests.values()]
    file.refuse_unknown([rows for rows in everywhere if rows is not None], config)
    labels = None
    if file.labels is not None:
        number = {name: position for position, name in enumerate(corpus.class_names)}
        labels = np.array([number[name] for name in file.named(corpus.class_names).tolist()], dtype=np.int64)
    source = before or corpus
    train = _marked(corpus.train, source.train, file, labels)
    held_out = corpus.validation
    if held_out is not None and source.validation is not None:
        held_out = _marked(held_out, source.validation, file, labels)
    return replace(corpus, train=train, validation=held_out)


def _marked(rows: Examples, before: Examples, file: LabelFile, labels: np.ndarray | None) -> Examples:
    place = _places(rows.ids, file)
    is_trusted = place >= 0
    said = before.label.numpy() if labels is None else _picked(labels, place)
    label = np.where(is_trusted, said, rows.label.numpy())
    return replace(rows, label=torch.from_numpy(label), trusted=torch.from_numpy(is_trusted))


def _replaced(
    rows: Rows, file: LabelFile, labels: np.ndarray, first: Rows | None, config: DataConfig, part: str = ""
) -> Rows:
    place = _places(rows.ids, file)
    if first is not None:
        place[np.isin(rows.ids, first.ids)] = -1
    names = np.where(place >= 0, _picked(labels, place), rows.names)
    unlabelled = np.flatnonzero(names == "")
    if len(unlabelled):
        raise DataError(
            f"{file.path}: {len(unlabelled)} of {len(names)}{part} rows in {config.source} have no label, neither there "
            f"nor here: {_few(rows.ids[unlabelled])}"
        )
    changed = int(((place >= 0) & (names != rows.names)).sum())
    named = f"names {(place >= 0).sum()} of {len(names)}{part} rows and changes {changed} labels"
    added = rows.ids[place < 0] if first is None else rows.ids[:0]
    more = f"; the other {len(added)} keep their own: {_few(added)}" if len(added) else ""
    _log.warning("%s: %s%s", file.path, named, more)
    return replace(rows, names=names)


def _places(ids: np.ndarray, file: LabelFile) -> np.ndarray:
    """(N,) the row of the file for each id, -1 where there is none."""
    return np.array([file.place.get(name, -1) for name in ids.tolist()], dtype=np.int64)


def _picked(labels: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The labels at `place`; anything where that is -1, also from a file without rows."""
    return labels[place] if len(labels) else np.zeros(len(place), dtype=labels.dtype)


def _counted(labels: np.ndarray, class_names: tuple[str, ...]) -> np.ndarray:
    """Whole numbers become the classes that they count, if no class is called so."""
    distinct = set(labels.tolist())
    if not all(name.isdecimal() for name in distinct) or distinct & set(class_names):
        return labels
    return np.array([class_names[int(name)] if int(name) < len(class_names) else name for name in labels.tolist()])


def _mention_new_classes(file: LabelFile, labels: np.ndarray, parts: Parts) -> None:
    known = set(parts.train.names.tolist()) - {""}
    new = sorted(set(labels.tolist()) - known)
    if known and new and parts.class_names is None:
        _log.warning("%s: has classes that the data have not: %s", file.path, _few(new))


def _few(names: object) -> str:
    listed = [str(name) for name in np.asarray(names).tolist()]
    more = f" and {len(listed) - _MOST_SHOWN} more" if len(listed) > _MOST_SHOWN else ""
    return ", ".join(listed[:_MOST_SHOWN]) + more
