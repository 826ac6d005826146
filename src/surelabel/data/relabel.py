"""Replace the labels of any source, and mark the rows whose label a person has confirmed.

Both are CSV files with id and label, which `label_file` reads. `data.labels` overrides the source's
labels for the rows it names, and can label a source that has no labels. If the source fixes the
order of its classes, whole numbers are positions in it, unless a class has such a name. A test row
is only relabelled if no training row has its id. `data.trusted` names the rows whose label is
right, and may give that label; rows that a person has removed are left out.

The cleaned.csv of an export also says who decided on each label (`decided_by`), and what it was
before (`given`). Labels that a person decided on are right. Where the model replaced a label, the
original one is kept beside it: a suggestion cannot testify for itself.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import torch

from surelabel.config import DataConfig
from surelabel.data.corpus import Corpus, Examples
from surelabel.data.label_file import LabelFile, read_label_file
from surelabel.data.merge import to_known
from surelabel.data.sources.checks import list_some
from surelabel.data.sources.interface import Parts, Rows
from surelabel.errors import DataError

_log = logging.getLogger("surelabel")


def relabel(parts: Parts, tests: Mapping[str, Rows], config: DataConfig) -> tuple[Parts, dict[str, Rows]]:
    """Replace labels by those of `data.labels`, if that is given; every row must then have one."""
    if config.labels is None:
        return parts, dict(tests)
    file = read_label_file(config.labels)
    _refuse_unknown_ids(file, [parts.train, *tests.values()], config)
    assert file.values is not None
    labels = _class_labels(file, file.values, parts.class_names, config)
    _mention_new_classes(file, labels, parts)
    train = _replace_labels(parts.train, file, labels, None, config)
    if {"given", "decided_by"} <= set(file.table.names):
        train = _keep_originals(train, file, file.values, parts.class_names, config)
    others = {name: _replace_labels(rows, file, labels, train, config, f" {name}") for name, rows in tests.items()}
    return replace(parts, train=train), others


def mark_trusted(corpus: Corpus, config: DataConfig, before: Corpus | None = None) -> Corpus:
    """Mark the rows of `data.trusted`, give them the labels of that file, and drop removed rows.

    If the file has no labels, those of `before` are confirmed: the labels before noise injection.
    """
    if config.trusted is None:
        return corpus
    file = read_label_file(config.trusted, needs_values=False, has_decisions=True)
    _refuse_unknown_ids(file, corpus.parts.values(), config)
    labels = None
    if file.values is not None:
        number = {name: position for position, name in enumerate(corpus.class_names)}
        may_be_numbers = not config.merge_classes
        names = _class_labels(file, file.values, corpus.class_names, config, may_be_numbers)
        labels = np.array([number[name] for name in names.tolist()], dtype=np.int64)
    source = before or corpus
    train = _mark(corpus.train, source.train, file, labels)
    held_out = corpus.validation
    if held_out is not None and source.validation is not None:
        held_out = _mark(held_out, source.validation, file, labels)
    return _drop_removed(replace(corpus, train=train, validation=held_out), file, config)


def _drop_removed(corpus: Corpus, file: LabelFile, config: DataConfig) -> Corpus:
    """Leave out the training and held-out rows that a person has removed."""
    if not len(file.removed):
        return corpus
    kept = [rows.subset(np.flatnonzero(~np.isin(rows.ids, file.removed))) for rows in corpus.labelled_parts]
    corpus = replace(corpus, train=kept[0], validation=kept[1] if len(kept) > 1 else None)
    _log.warning("%s: removes %d rows", file.path, len(file.removed))
    corpus.validate(config.source)
    return corpus


def _mark(rows: Examples, before: Examples, file: LabelFile, labels: np.ndarray | None) -> Examples:
    position = file.positions(rows.ids)
    is_trusted = position >= 0
    confirmed = before.label.numpy() if labels is None else _pick(labels, position)
    label = np.where(is_trusted, confirmed, rows.label.numpy())
    is_trusted |= False if rows.trusted is None else rows.trusted.numpy()
    return replace(rows, label=torch.from_numpy(label), trusted=torch.from_numpy(is_trusted))


def _replace_labels(
    rows: Rows, file: LabelFile, labels: np.ndarray, train: Rows | None, config: DataConfig, part: str = ""
) -> Rows:
    """Replace the labels of one part; `train` is None for the training rows themselves."""
    position = file.positions(rows.ids)
    if train is not None:
        position[np.isin(rows.ids, train.ids)] = -1
    names = np.where(position >= 0, _pick(labels, position), rows.names)
    unlabelled = np.flatnonzero(names == "")
    if len(unlabelled):
        raise DataError(
            f"{file.path}: {len(unlabelled)} of {len(names)}{part} rows in {config.source} have no label, "
            f"there or in this file: {list_some(rows.ids[unlabelled])}"
        )
    changed = int(((position >= 0) & (names != rows.names)).sum())
    named = f"names {(position >= 0).sum()} of {len(names)}{part} rows and changes {changed} labels"
    unnamed = rows.ids[position < 0] if train is None else rows.ids[:0]
    more = f"; the other {len(unnamed)} keep their own: {list_some(unnamed)}" if len(unnamed) else ""
    _log.warning("%s: %s%s", file.path, named, more)
    return replace(rows, names=names)


def _keep_originals(
    rows: Rows, file: LabelFile, values: np.ndarray, class_names: tuple[str, ...] | None, config: DataConfig
) -> Rows:
    """Return the rows with the labels before an export, and mark those that a person decided on."""
    by = file.table.cells("decided_by")
    is_told = np.isin(by, ("model", "person"))
    if not is_told.any():
        return rows
    given = np.where(is_told, file.table.labels("given"), values)
    file.table.refuse(given == "", "given is blank")
    position = file.positions(rows.ids)
    is_told = (position >= 0) & is_told[position]
    original = np.where(is_told, _class_labels(file, given, class_names, config)[position], rows.names)
    return replace(rows, original=original, trusted=is_told & (by[position] == "person"))


def _refuse_unknown_ids(file: LabelFile, parts: Iterable[Rows | Examples], config: DataConfig) -> None:
    """Raise if most ids of the file are in no part; warn of fewer: rows may have been removed."""
    known = [name for rows in parts for name in rows.ids.tolist()]
    unknown = np.flatnonzero(~np.isin(file.ids, known))
    if not len(unknown):
        return
    counted = f"{len(unknown)} of {len(file.ids)} ids are not in {config.source}: {list_some(file.ids[unknown])}"
    if config.unreadable == "skip":
        _log.warning("%s: %s, or were left out there", file.path, counted)
    elif 2 * len(unknown) <= len(file.ids):
        _log.warning("%s: %s; rows that were removed there are passed over", file.path, counted)
    else:
        raise DataError(f"{file.table.row(unknown[0])}: {counted}; ids there look like {known[0]!r}")


def _class_labels(
    file: LabelFile,
    values: np.ndarray,
    class_names: tuple[str, ...] | None,
    config: DataConfig,
    may_be_numbers: bool = True,
) -> np.ndarray:
    """Return labels (n,) of the file, as class names if those are fixed.

    After classes were merged, numbers are not positions among those that are left.
    """
    if class_names is None:
        return values
    labels = _numbers_to_names(values, class_names) if may_be_numbers else values
    labels = to_known(labels, class_names, config.merge_classes)
    file.table.refuse(
        ~np.isin(labels, class_names),
        lambda row: f"there is no class {str(labels[row])!r}; available: {list_some(class_names)}",
    )
    return labels


def _pick(labels: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Return the labels at `position`; those at -1 are arbitrary, even if the file is empty."""
    return labels[position] if len(labels) else np.zeros(len(position), dtype=labels.dtype)


def _numbers_to_names(labels: np.ndarray, class_names: tuple[str, ...]) -> np.ndarray:
    """Replace whole numbers by the classes at these positions, unless a class has such a name."""
    distinct = set(labels.tolist())
    if not all(name.isdecimal() for name in distinct) or distinct & set(class_names):
        return labels
    return np.array([class_names[int(name)] if int(name) < len(class_names) else name for name in labels.tolist()])


def _mention_new_classes(file: LabelFile, labels: np.ndarray, parts: Parts) -> None:
    known = set(parts.train.names.tolist()) - {""}
    new = sorted(set(labels.tolist()) - known)
    if known and new and parts.class_names is None:
        _log.warning("%s: has classes that the data do not have: %s", file.path, list_some(new))
