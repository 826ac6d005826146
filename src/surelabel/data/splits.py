"""Make a corpus of named rows: order the classes, and split off test and validation rows."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from surelabel.class_names import VARIANTS, fold
from surelabel.config import DataConfig
from surelabel.core.stages import seed_of
from surelabel.data.corpus import Corpus, Examples
from surelabel.data.groups import check_groups, number_groups
from surelabel.data.sources.checks import list_some
from surelabel.data.sources.interface import Parts, Rows
from surelabel.errors import DataError

_MAX_NAMES_SHOWN = 20


def make_corpus(parts: Parts, tests: dict[str, Rows], config: DataConfig) -> Corpus:
    """Make the corpus that `config` asks for; without `tests`, `test_fraction` splits one off."""
    class_names = parts.class_names or sort_classes(_all_names(parts.train))
    crop = config.crop or parts.image_defaults.crop
    train = number_labels(parts.train, class_names, config.source, crop)
    if parts.train.group is not None:
        group = number_groups(parts.train.group)
        check_groups(group, train.label.numpy(), class_names, config.source)
        train = replace(train, group=torch.from_numpy(group))
    encoded = {
        name: number_labels(rows, class_names, f"{config.test or config.source}: the {name} set", crop)
        for name, rows in tests.items()
    }
    if not tests and config.test_fraction:
        train, encoded["test"] = _split(train, config.test_fraction, "test_fraction", config)
    validation = None
    if config.validation_fraction:
        train, validation = _split(
            train, config.validation_fraction, "validation_fraction", config, config.validation_fold
        )
    return Corpus(train, class_names, validation, encoded, parts.image_defaults, parts.feature_names)


def _all_names(rows: Rows) -> np.ndarray:
    return np.concatenate([names for names in (rows.names, rows.clean, rows.original) if names is not None])


def sort_classes(names: Iterable[str]) -> tuple[str, ...]:
    """Sort the distinct names; by value if all are whole numbers, so that 10 follows 9."""
    distinct = sorted(set(map(str, names)))
    return tuple(sorted(distinct, key=int)) if all(map(_is_whole_number, distinct)) else tuple(distinct)


def _is_whole_number(name: str) -> bool:
    """Return whether the name is a canonical integer; 007 is not, and sorts as text."""
    return name.removeprefix("-").isdecimal() and str(int(name)) == name


def split_stratified(
    label: np.ndarray, fraction: float, seed: int, group: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions that are kept and those that are split off, both sorted.

    Each class contributes its fraction, rounded up or down so that round(fraction N) rows are split
    off in total, but always keeps a row. Rows of a `group` (N,) stay together, -1 is alone; classes
    then contribute their fraction as far as groups allow.
    """
    rng = np.random.default_rng(seed)
    if group is not None and (group >= 0).any():
        is_taken = _split_groups(label, fraction, group, rng)
        return np.flatnonzero(~is_taken), np.flatnonzero(is_taken)
    _, group, counts = np.unique(label, return_inverse=True, return_counts=True)
    taken = _counts_to_take(counts, fraction, rng)
    # Rows in a random order within their class: the first ones of each class are taken.
    order = np.lexsort((rng.random(len(label)), group))
    place = np.arange(len(label)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_taken = place < np.repeat(taken, counts)
    return np.sort(order[~is_taken]), np.sort(order[is_taken])


def _split_groups(label: np.ndarray, fraction: float, group: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return which rows (N,) are split off: whole groups that bring classes closer, then others."""
    _, label, counts = np.unique(label, return_inverse=True, return_counts=True)
    together, alone = np.flatnonzero(group >= 0), rng.permutation(np.flatnonzero(group < 0))
    num_alone = np.bincount(label[alone], minlength=len(counts))
    missing, left, is_taken = (counts - num_alone) * fraction, counts.copy(), np.zeros(len(label), dtype=bool)
    _, number, sizes = np.unique(group[together], return_inverse=True, return_counts=True)
    rows = np.split(together[np.argsort(number, kind="stable")], np.cumsum(sizes)[:-1])
    for one in rng.permutation(len(sizes)).tolist():
        classes, count = np.unique(label[rows[one]], return_counts=True)
        if (left[classes] > count).all() and (count * (2 * missing[classes] - count)).sum() > 0:
            is_taken[rows[one]] = True
            missing[classes] -= count
            left[classes] -= count
    wanted = np.clip(np.rint(missing + num_alone * fraction), 0, left - 1).astype(np.int64)
    by_class = alone[np.argsort(label[alone], kind="stable")]
    place = np.arange(len(by_class)) - np.repeat(np.cumsum(num_alone) - num_alone, num_alone)
    is_taken[by_class[place < np.repeat(wanted, num_alone)]] = True
    return is_taken


def _counts_to_take(counts: np.ndarray, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """Round down for each class, then round up the largest remainders until the total is right."""
    exact = counts * fraction
    taken: np.ndarray = np.minimum(np.floor(exact).astype(np.int64), counts - 1)
    missing = max(1, round(float(fraction * counts.sum()))) - int(taken.sum())
    candidates = np.flatnonzero(taken < counts - 1)
    by_remainder = candidates[np.lexsort((rng.random(len(candidates)), taken[candidates] - exact[candidates]))]
    taken[by_remainder[: max(0, missing)]] += 1
    return taken


def _split(
    rows: Examples, fraction: float, option: str, config: DataConfig, fold: int = 0
) -> tuple[Examples, Examples]:
    """Return the rows that are kept and those of a fold; folds have no row in common."""
    if not len(rows):
        raise DataError(f"{config.source}: no training samples")
    label, every = rows.label.numpy(), np.arange(len(rows))
    group = None if rows.group is None else rows.group.numpy()
    left, split_off = every, every[:0]
    for number in range(fold + 1):
        seed = seed_of(option, config.split_seed, *([number] if number else []))
        share, together = min(1.0, fraction / (1 - number * fraction)), None if group is None else group[left]
        kept, taken = split_stratified(label[left], share, seed, together)
        left, split_off = left[kept], left[taken]
    if not len(split_off):
        reason = "each class has a single row" if group is None else "groups are too large"
        raise DataError(f"{config.source}: data.{option}={fraction} selects no rows: {reason}")
    return rows.subset(np.setdiff1d(every, split_off)), rows.subset(split_off)


def number_labels(rows: Rows, class_names: tuple[str, ...], where: str, crop: int | None = None) -> Examples:
    """Replace class names by class numbers."""
    label = _numbers(rows.names, class_names, where)
    clean, original = (
        None if names is None else _numbers(names, class_names, where) for names in (rows.clean, rows.original)
    )
    trusted = None if rows.trusted is None else torch.from_numpy(rows.trusted)
    numbered = Examples(rows.x, label, rows.ids, clean, trusted, crop=crop, positions=rows.positions)
    return replace(numbered, original=original, encoded=rows.encoded)


def _numbers(names: np.ndarray, class_names: tuple[str, ...], where: str) -> Tensor:
    number = {name: position for position, name in enumerate(class_names)}
    present, inverse = np.unique(names, return_inverse=True)
    for name in present:
        if str(name) not in number:
            known = list_some(class_names, _MAX_NAMES_SHOWN)
            twin = next((each for each in class_names if fold(each) == fold(str(name))), None)
            hint = "" if twin is None else f"; data.merge_classes={VARIANTS} makes it {twin!r}"
            raise DataError(
                f"{where} has the class {str(name)!r}, which the training rows do not have; available: {known}{hint}"
            )
    numbers = np.array([number[str(name)] for name in present], dtype=np.int64)
    return torch.from_numpy(numbers[inverse.reshape(-1)])
