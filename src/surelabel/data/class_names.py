"""Class names that look alike, and which of them to merge.

Names are variants of one another if they differ only by case, spaces or accents: `Cat`, `cat` and
`CAT`, `hot dog` and `hotdog`, `café` and `cafe`. `data.merge_classes` lists what to merge: the word
variants makes one class of all variants, under their most frequent spelling, and OLD=NEW gives the
rows of one class to another. Merging comes after `data.labels` and before anything is trained, so
that a run, its audit, its decisions and its export know the merged names only.
"""

import logging
import shlex
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from surelabel.data.sources.checks import list_some
from surelabel.data.sources.interface import Parts, Rows
from surelabel.errors import DataError

_log = logging.getLogger("surelabel")

VARIANTS = "variants"
"""The word in `data.merge_classes` that merges all variants."""
RARE = 0.1
"""A class with less than this fraction of the labels of another may be a slip of the pen."""
LEAST_LETTERS = 5
"""Shorter names that differ by one letter are often two words, such as cat and car."""
MOST_LISTED = 5
"""Groups of names that a warning lists; the others are counted."""
_ACCENTS = range(0x300, 0x370)
"""Combining accents; the marks of other scripts are vowels and tones, which make other words."""


def describe_alike(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield a sentence on variants and one on slips of the pen among classes with these counts."""
    groups = find_variants(counts)
    if groups:
        listed = [" and ".join(_counted(name, counts) for name in group) for group in groups]
        yield (
            f"Class names differ only by case, spaces or accents: {list_some(listed, MOST_LISTED, '; ')}. "
            f"To make one class of each group: fit --merge-classes {VARIANTS} "
            f"(in Python merge_classes={VARIANTS!r})."
        )
    slips = find_slips(counts)
    if slips:
        listed = [f"{_counted(rare, counts)} and {_counted(usual, counts)}" for rare, usual in slips]
        pairs = [f"{rare}={usual}" for rare, usual in slips[:MOST_LISTED]]
        words = " ".join(f"--merge-classes {shlex.quote(pair)}" for pair in pairs)
        yield (
            f"Class names differ by one letter, and one of them is rare: {list_some(listed, MOST_LISTED, '; ')}. "
            f"If they mean the same: fit {words} (in Python merge_classes={pairs})."
        )


def _counted(name: str, counts: Mapping[str, int]) -> str:
    return f"{name!r} ({counts[name]:,} label{'s'[: counts[name] != 1]})"


def fold(name: str) -> str:
    """Return what the variants of a name have in common: without case, spaces and accents."""
    letters = (letter for letter in unicodedata.normalize("NFKD", name).casefold() if ord(letter) not in _ACCENTS)
    # Cf are characters that cannot be seen, such as spaces of no width.
    found = "".join(letter for letter in letters if not letter.isspace() and unicodedata.category(letter) != "Cf")
    return found or name


def find_variants(counts: Mapping[str, int]) -> list[list[str]]:
    """Return groups of names that are variants of one another, the most frequent first in each."""
    return [group for group in _group(counts).values() if len(group) > 1]


def _group(counts: Mapping[str, int]) -> dict[str, list[str]]:
    groups = defaultdict(list)
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        groups[fold(name)].append(name)
    return groups


def find_slips(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return pairs of a rare class and a frequent one whose names differ by one letter."""
    groups = _group(counts)
    sizes = {key: sum(counts[name] for name in names) for key, names in groups.items()}
    long = [key for key in groups if sum(map(str.isalpha, key)) >= LEAST_LETTERS]
    pairs = sorted({tuple(sorted(pair, key=lambda key: (sizes[key], key))) for pair in _one_letter_apart(long)})
    return [(groups[rare][0], groups[usual][0]) for rare, usual in pairs if sizes[rare] < RARE * sizes[usual]]


def _one_letter_apart(keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs in which a letter was inserted or replaced; a digit makes another name."""
    known, without = set(keys), defaultdict[tuple[int, str], list[str]](list)
    for key in keys:
        for at, letter in enumerate(key):
            if letter.isdigit():
                continue
            shorter = key[:at] + key[at + 1 :]
            if shorter in known:
                yield key, shorter
            for other in without[at, shorter]:
                yield key, other
            without[at, shorter].append(key)


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
        listed = [f"{_counted(name, counts)} into {new!r}" for name, new in merged.items()]
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
    columns = (column for rows in parts for column in (rows.names, rows.clean) if column is not None)
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
    groups = _group({name: count for name, count in counts.items() if name not in pairs})
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
    clean = None if rows.clean is None else _replace_names(rows.clean, new)
    return replace(rows, names=_replace_names(rows.names, new), clean=clean)


def _replace_names(names: np.ndarray, new: Mapping[str, str]) -> np.ndarray:
    distinct, place = np.unique(names, return_inverse=True)
    renamed: np.ndarray = np.array([new.get(name, name) for name in distinct.tolist()], dtype=np.str_)[
        place.reshape(-1)
    ]
    return renamed
