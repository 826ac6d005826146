"""A data set in memory: labelled rows, and the parts they are split into."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from surelabel.data.encodable import Encoder
from surelabel.data.images.encode import Encoded
from surelabel.data.inputs import Inputs, Shape, digest_inputs, select_rows
from surelabel.data.sources.interface import ImageDefaults
from surelabel.errors import DataError


@dataclass(frozen=True)
class Examples:
    """N inputs with their given labels, and the clean ones if known, which no method sees."""

    x: Inputs
    """(N, C, H, W) uint8 images, or (N, D) float32 features."""
    label: Tensor
    """(N,) int64: the given label, which may be wrong."""
    ids: np.ndarray
    """(N,) str: what the user calls each row; unique and stable."""
    clean: Tensor | None = None
    """(N,) int64: the true label, if known."""
    trusted: Tensor | None = None
    """(N,) bool: the rows whose given label a person has confirmed; None means none."""
    group: Tensor | None = None
    """(N,) int64: rows with the same number are left out together, -1 alone; None means all are."""
    crop: int | None = None
    """Side of the window of an image that networks see; None is the whole image."""
    positions: np.ndarray | None = None
    """(N,) positions of the rows in the user's data; None if these are all its rows."""
    original: Tensor | None = None
    """(N,) int64: the label before an export replaced it; None if no export did."""
    encoded: Encoded | None = None
    """The images as they are stored; None if `x` has all there is."""
    features: Inputs | None = None
    """(N, M) float32: features of a pretrained network, if there is one."""

    def __len__(self) -> int:
        return len(self.label)

    @property
    def is_image(self) -> bool:
        """Whether the inputs are images rather than feature vectors."""
        return len(self.x.shape) == 4

    @property
    def input_shape(self) -> Shape:
        """The shape of one input as networks see it."""
        channels, *sides = self.x.shape[1:]
        return (channels, self.crop, self.crop) if self.crop and sides else tuple(self.x.shape[1:])

    @property
    def original_positions(self) -> np.ndarray:
        """The positions (N,) of the rows in the user's data, counted from 0."""
        return np.arange(len(self)) if self.positions is None else self.positions

    def subset(self, positions: np.ndarray) -> "Examples":
        """Return the rows at `positions`, in that order."""
        index = torch.from_numpy(np.asarray(positions, dtype=np.int64))
        known = (self.clean, self.trusted, self.group, self.original)
        clean, trusted, group, original = (None if part is None else part[index] for part in known)
        return Examples(
            select_rows(self.x, positions),
            self.label[index],
            self.ids[positions],
            clean=clean,
            trusted=trusted,
            group=group,
            crop=self.crop,
            positions=self.original_positions[positions],
            original=original,
            encoded=None if self.encoded is None else self.encoded.subset(positions),
            features=None if self.features is None else select_rows(self.features, positions),
        )

    @property
    def stored(self) -> Encoded | Inputs:
        """The images as they are stored, or all there is of the inputs."""
        return self.x if self.encoded is None else self.encoded

    def as_given(self) -> "Examples":
        """Return the rows with the labels that people gave, instead of suggestions of a run."""
        if self.original is None:
            return self
        label = self.original if self.trusted is None else torch.where(self.trusted, self.label, self.original)
        return replace(self, label=label, original=None)


@dataclass(frozen=True)
class Corpus:
    """A data set: training rows, validation rows with their given labels, and test sets."""

    train: Examples
    class_names: tuple[str, ...]
    validation: Examples | None = None
    tests: dict[str, Examples] = field(default_factory=dict)
    image_defaults: ImageDefaults = field(default_factory=ImageDefaults)
    feature_names: tuple[str, ...] | None = None
    """Of inputs that are not images, if the source names them."""
    has_term_weights: bool = False
    """Whether features are made of the weights of terms: they share one scale, and a linear network
    suits them."""
    pretrained: Encoder | None = None
    """What makes the `features` of all rows."""

    @property
    def num_classes(self) -> int:
        """K."""
        return len(self.class_names)

    @property
    def labelled_parts(self) -> list[Examples]:
        """The parts whose labels a run judges: the training rows and any held-out rows."""
        return [part for part in (self.train, self.validation) if part is not None]

    @property
    def parts(self) -> dict[str, Examples]:
        """All rows by the name of their part."""
        named = {"train": self.train, "validation": self.validation, **self.tests}
        return {name: rows for name, rows in named.items() if rows is not None}

    def validate(self, source: str) -> None:
        """Raise if the data cannot be trained on, and name the reason."""
        if len(self.train) < 2:
            raise DataError(f"{source}: {len(self.train)} training sample(s); at least 2 are needed")
        if (self.train.label == self.train.label[0]).all():
            single = self.class_names[int(self.train.label[0])]
            raise DataError(f"{source}: a single class ({single}); at least 2 are needed")
        if len(set(self.train.ids)) != len(self.train.ids):
            names, counts = np.unique(self.train.ids, return_counts=True)
            twice = str(names[counts > 1][0])
            raise DataError(f"{source}: the id {twice!r} belongs to {counts[counts > 1][0]} rows; ids must be unique")
        for name, rows in self.parts.items():
            if not len(rows):
                raise DataError(f"{source}: the {name} set has no rows; expected at least 1, or no {name} set")
            refuse_not_finite(rows.x, rows.ids, source, f" {name}")

    def fingerprint(self, digests: Mapping[str, str] | None = None) -> str:
        """Hash the rows that a run judges, by which it recognises them, from `digests` if known."""
        inputs = digests or replace(self, tests={}).digests()
        digest = hashlib.sha256("\n".join(self.class_names).encode())
        for part, rows in replace(self, tests={}).parts.items():
            digest.update("\n".join((part, *map(str, rows.ids))).encode())
            digest.update(rows.label.numpy().tobytes())
            digest.update(inputs[f"inputs of the {_WORDS[part]} rows"].encode())
        return digest.hexdigest()

    def digests(self) -> dict[str, str]:
        """Hash everything that training reads of the data, by its name in messages."""
        found = {"class names": hashlib.sha256("\n".join(self.class_names).encode()).hexdigest()}
        if self.pretrained is not None:
            found["pretrained network (model.features)"] = str(self.pretrained.cache_key)
        for part, rows in self.parts.items():
            name, trusted = f"{_WORDS.get(part, part)} rows", rows.trusted
            found[f"ids of the {name}"] = hashlib.sha256("\n".join(map(str, rows.ids)).encode()).hexdigest()
            found[f"inputs of the {name}"] = digest_inputs(rows.x)
            found[f"labels of the {name}"] = _hash_numbers(rows.label)
            found[f"true labels of the {name}"] = _hash_numbers(rows.clean)
            if rows.group is not None:
                found[f"groups (data.group) of the {name}"] = _hash_numbers(rows.group)
            found[f"original labels of the {name}"] = _hash_numbers(rows.original)
            is_any = trusted is not None and bool(trusted.any())
            found[f"confirmed rows (data.trusted) among the {name}"] = _hash_numbers(trusted if is_any else None)
        return found


_WORDS = {"train": "training", "validation": "held-out"}
"""What messages call the parts; test sets have their own names."""


def _hash_numbers(numbers: Tensor | None) -> str:
    return "" if numbers is None else hashlib.sha256(numbers.numpy().tobytes()).hexdigest()


def refuse_not_finite(x: Inputs, ids: np.ndarray, source: str, part: str = "") -> None:
    """Raise if features in memory are NaN or infinite; others are noticed during training."""
    bad = np.flatnonzero(~finite_rows(x))
    if len(bad):
        where = f"the first is row {bad[0]} (id {ids[bad[0]]})"
        hint = "; data.unreadable=skip leaves such rows out" if part else ""  # predict has no such option
        raise DataError(f"{source}: {len(bad)}{part} row(s) hold NaN or infinite values, {where}{hint}")


def finite_rows(x: Inputs) -> np.ndarray:
    """Return which rows (N,) are finite; inputs that are not in memory are taken to be."""
    if isinstance(x, Tensor) and x.is_floating_point():
        return np.asarray(torch.isfinite(x).flatten(1).all(1))
    return np.ones(len(x), dtype=bool)
