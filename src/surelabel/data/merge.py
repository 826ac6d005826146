"""Merge classes whose names mean the same.

`data.merge_classes` lists what to merge: the word variants makes one class of all names that differ
only by case, spaces or accents, under their most frequent spelling, and OLD=NEW gives the rows of
one class to another. Merging comes after `data.labels` and before anything is trained, so
that a run, its audit, its decisions and its export know the merged names only.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from surelabel.class_names import VARIANTS, describe_count, fold, group_variants
from surelabel.data.sources.checks import list_some
from surelabel.data.sources.interface import Parts, Rows
from surelabel.errors import DataError

_log = logging.getLogger("surelabel")


def merge_classes(
    parts: Parts, tests: Mapping[str, Rows], rules: Sequence[str], before: Parts
) -> tuple[Parts, dict[str, Rows]]:
    """Merge classes as `data.merge_classes` says; `before` has the labels of the source."""
    if not rules:
        return parts, dict(tests)
    counts = Counter(dict.fromkeys(_all_names([before.train, parts.train, *tests.values()], parts.class_names), 0))
    counts.update(parts.train.names.tolist())
    counts.pop("", None)
    pairs = _read_pairs(rules, counts)
    kept = _kept(counts, pairs, rules, parts.class_names)
    merged = {name: new for name in sorted(counts) if (new := _new_name(name, kept, pairs, rules)) != name}
    if merged:
        listed = [f"{describe_count(name, counts)} into {new!r}" for name, new in merged.items()]
        _log.warning("data.merge_classes merges %s", list_some(listed))
    rename = {name: _rename(rows, merged) for name, rows in {"": parts.train, **tests}.items()}
    class_names = None if parts.class_names is None else tuple(n for n in parts.class_names if n not in merged)
    return replace(parts, train=rename.pop(""), class_names=class_names), rename


def to_known(names: np.ndarray, class_names: Sequence[str], rules: Sequence[str]) -> np.ndarray:
    """Return labels (N,) from elsewhere; those that the rules merge get the name of their class."""
    if not rules:
        return names
    known, pairs = set(class_names), _read_pairs(rules, None)
    kept = {fold(name): name for name in class_names}
    distinct = set(names.tolist()) - known - {""}
    return _replace_names(names, {name: _new_name(name, kept, pairs, rules) for name in distinct})


def _all_names(parts: Iterable[Rows], class_names: tuple[str, ...] | None) -> Iterator[str]:
    columns = (column for rows in parts for column in (rows.names, rows.clean, rows.original) if column is not None)
    yield from chain(class_names or (), *(set(column.tolist()) for column in columns))


def _read_pairs(rules: Sequence[str], known: Mapping[str, int] | None) -> dict[str, str]:
    """Return OLD by NEW; if the classes are `known`, both must be among them."""
    pairs: dict[str, str] = {}
    for rule in rules:
        if rule == VARIANTS:
            continue
        # A name may hold a = itself: the sign between two known names counts.
        cuts = [(rule[:at].strip(), rule[at + 1 :].strip()) for at, sign in enumerate(rule) if sign == "="]
        old, new = next((cut for cut in cuts if known is not None and set(cut) <= known.keys()), cuts[0])
        for name in (old, new):
            if known is not None and name not in known:
                raise DataError(
                    f"data.merge_classes: {rule}: there is no class {name!r}; available: {list_some(sorted(known), 20)}"
                )
        if old == new or pairs.setdefault(old, new) != new:
            raise DataError(f"data.merge_classes: {rule}: {old!r} must be merged into one other class")
    for old, new in pairs.items():
        if new in pairs:
            raise DataError(f"data.merge_classes: {old}={new}: {new!r} is merged itself; expected {old}={pairs[new]}")
    return pairs


def _kept(
    counts: Mapping[str, int], pairs: Mapping[str, str], rules: Sequence[str], fixed: tuple[str, ...] | None
) -> dict[str, str]:
    """Return the spelling that stays of each group of variants; none if they are not merged."""
    if VARIANTS not in rules:
        return {}
    targets, classes = set(pairs.values()), set(fixed or counts)
    groups = group_variants({name: count for name, count in counts.items() if name not in pairs})
    return {
        key: max(names, key=lambda name: (name in classes, name in targets, counts[name]))
        for key, names in groups.items()
    }


def _new_name(name: str, kept: Mapping[str, str], pairs: Mapping[str, str], rules: Sequence[str]) -> str:
    if VARIANTS not in rules:
        return pairs.get(name, name)
    new = {fold(old): new for old, new in pairs.items()}.get(fold(name), name)
    return kept.get(fold(new), new)


def _rename(rows: Rows, new: Mapping[str, str]) -> Rows:
    clean, original = (None if part is None else _replace_names(part, new) for part in (rows.clean, rows.original))
    return replace(rows, names=_replace_names(rows.names, new), clean=clean, original=original)


def _replace_names(names: np.ndarray, new: Mapping[str, str]) -> np.ndarray:
    distinct, place = np.unique(names, return_inverse=True)
    renamed: np.ndarray = np.array([new.get(name, name) for name in distinct.tolist()], dtype=np.str_)[
        place.reshape(-1)
    ]
    return renamed
