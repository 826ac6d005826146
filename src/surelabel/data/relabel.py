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
from surelabel.data.label_file import LabelFile, read_label_file
from surelabel.data.sources.interface import Parts, Rows
from surelabel.errors import DataError

_log = logging.getLogger("surelabel")

_MOST_SHOWN = 5


def relabelled(parts: Parts, tests: Mapping[str, Rows], config: DataConfig) -> tuple[Parts, dict[str, Rows]]:
    """The parts with the labels of `data.labels`, if that is given; every row must then have one."""
    if config.labels is None:
        return parts, dict(tests)
    file = read_label_file(config.labels)
    _refuse_unknown_ids(file, [parts.train, *tests.values()], config)
    labels = _class_labels(file, parts.class_names)
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
    file = read_label_file(config.trusted, needs_values=False)
    everywhere = [corpus.train, corpus.validation, *corpus.tests.values()]
    _refuse_unknown_ids(file, [rows for rows in everywhere if rows is not None], config)
    labels = None
    if file.values is not None:
        number = {name: position for position, name in enumerate(corpus.class_names)}
        labels = np.array([number[name] for name in _class_labels(file, corpus.class_names).tolist()], dtype=np.int64)
    source = before or corpus
    train = _marked(corpus.train, source.train, file, labels)
    held_out = corpus.validation
    if held_out is not None and source.validation is not None:
        held_out = _marked(held_out, source.validation, file, labels)
    return replace(corpus, train=train, validation=held_out)


def _marked(rows: Examples, before: Examples, file: LabelFile, labels: np.ndarray | None) -> Examples:
    place = file.positions(rows.ids)
    is_trusted = place >= 0
    said = before.label.numpy() if labels is None else _picked(labels, place)
    label = np.where(is_trusted, said, rows.label.numpy())
    return replace(rows, label=torch.from_numpy(label), trusted=torch.from_numpy(is_trusted))


def _replaced(
    rows: Rows, file: LabelFile, labels: np.ndarray, first: Rows | None, config: DataConfig, part: str = ""
) -> Rows:
    place = file.positions(rows.ids)
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


def _refuse_unknown_ids(file: LabelFile, parts: Iterable[Rows | Examples], config: DataConfig) -> None:
    """Raise if most ids of the file are in no part; warn of fewer, whose rows were removed or skipped."""
    known = [name for rows in parts for name in rows.ids.tolist()]
    unknown = np.flatnonzero(~np.isin(file.ids, known))
    if not len(unknown):
        return
    counted = f"{len(unknown)} of {len(file.ids)} ids are not in {config.source}: {_few(file.ids[unknown])}"
    if config.unreadable == "skip":
        _log.warning("%s: %s, or were left out there", file.path, counted)
    elif 2 * len(unknown) <= len(file.ids):
        _log.warning("%s: %s; rows that were removed there are passed over", file.path, counted)
    else:
        raise DataError(f"{file.table.row(unknown[0])}: {counted}; its own are like {known[0]!r}")


def _class_labels(file: LabelFile, class_names: tuple[str, ...] | None) -> np.ndarray:
    """Return the labels (n,) str of the file, as names of classes where those are fixed."""
    assert file.values is not None
    if class_names is None:
        return file.values
    labels = _counted(file.values, class_names)
    file.table.refuse(
        ~np.isin(labels, class_names),
        lambda row: f"there is no class {str(labels[row])!r}; there are {_few(class_names)}",
    )
    return labels


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
