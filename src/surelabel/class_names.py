"""Class names that look alike.

Names are variants of one another if they differ only by case, spaces or accents: `Cat`, `cat` and
`CAT`, `hot dog` and `hotdog`, `café` and `cafe`. `data.merge_classes` merges them (data/merge.py).
"""

import shlex
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

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
        listed = [" and ".join(describe_count(name, counts) for name in group) for group in groups]
        yield (
            f"Class names differ only by case, spaces or accents: {_join(listed)}. "
            f"To make one class of each group: fit --merge-classes {VARIANTS} "
            f"(in Python merge_classes={VARIANTS!r})."
        )
    slips = find_slips(counts)
    if slips:
        listed = [f"{describe_count(rare, counts)} and {describe_count(usual, counts)}" for rare, usual in slips]
        pairs = [f"{rare}={usual}" for rare, usual in slips[:MOST_LISTED]]
        words = " ".join(f"--merge-classes {shlex.quote(pair)}" for pair in pairs)
        yield (
            f"Class names differ by one letter, and one of them is rare: {_join(listed)}. "
            f"If they mean the same: fit {words} (in Python merge_classes={pairs})."
        )


def _join(listed: list[str]) -> str:
    more = len(listed) - MOST_LISTED
    return "; ".join(listed[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def describe_count(name: str, counts: Mapping[str, int]) -> str:
    """Return a name in quotes, which show its spaces, and the number of its labels."""
    return f"{name!r} ({counts[name]:,} label{'s'[: counts[name] != 1]})"


def fold(name: str) -> str:
    """Return what the variants of a name have in common: without case, spaces and accents."""
    letters = (letter for letter in unicodedata.normalize("NFKD", name).casefold() if ord(letter) not in _ACCENTS)
    # Cf are characters that cannot be seen, such as spaces of no width.
    found = "".join(letter for letter in letters if not letter.isspace() and unicodedata.category(letter) != "Cf")
    return found or name


def find_variants(counts: Mapping[str, int]) -> list[list[str]]:
    """Return groups of names that are variants of one another, the most frequent first in each."""
    return [group for group in group_variants(counts).values() if len(group) > 1]


def group_variants(counts: Mapping[str, int]) -> dict[str, list[str]]:
    """Return the names by what they have in common with their variants."""
    groups = defaultdict(list)
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        groups[fold(name)].append(name)
    return groups


def find_slips(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return pairs of a rare class and a frequent one whose names differ by one letter."""
    groups = group_variants(counts)
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
