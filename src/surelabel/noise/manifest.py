"""The record of injected noise, and whether labels, seed and data are still those that it describes."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from surelabel.config import Part, one_line
from surelabel.errors import DataError


class Manifest(Part):
    """What was injected, by which convention, and what came of it."""

    kind: str
    """As in the configuration."""
    convention: str
    """How rows and new labels were chosen."""
    mode: str | None = None
    """exact or bernoulli; None for labels from a file."""
    seed: int | None
    """Of the draw; None for labels from a file that does not tell it."""
    nominal_rate: float
    """As asked for; for a matrix, the wrong share that it implies on these labels."""
    expected_rate: float | None = None
    """Share of labels that the convention makes wrong in the mean: symmetric noise with the true class included gives r (1 - 1/K)."""
    realised_rate: float
    """Share of labels that are wrong now."""
    realised_matrix: tuple[tuple[float, ...], ...]
    """(K, K): row = clean class, column = given class, fractions; zeros for a class without samples."""
    num_changed: int
    """Labels that are wrong now."""
    num_samples: int
    """N."""
    class_names: tuple[str, ...]
    """In the order of the class numbers."""
    class_map: dict[str, str] | None = None
    """Where labels of a class go, for kinds that send them all to one other class."""
    labels_sha256: str
    """Of the resulting labels as little-endian int64."""
    clean_sha256: str
    """Of the clean labels, likewise."""
    ids_sha256: str | None = None
    """Of the rows' ids in their order, joined by zero bytes."""
    inputs_sha256: str | None = None
    """Of the inputs, row by row; only where the noise depends on them."""

    def to_dict(self) -> dict[str, object]:
        """For JSON; `Manifest.model_validate` reads it back."""
        return self.model_dump(mode="json")

    def describe(self) -> str:
        """One line for the screen."""
        expected = self.nominal_rate if self.expected_rate is None else self.expected_rate
        differs = abs(expected - self.nominal_rate) >= 0.0005  # what a tenth of a percent shows
        text = (
            f"{self.kind} noise, {self.nominal_rate:.1%} nominal{f', {expected:.1%} expected' if differs else ''} "
            f"({self.convention}): {self.num_changed} of {self.num_samples} labels are wrong ({self.realised_rate:.1%})"
        )
        return text.replace("%", " %") + ("" if self.seed is None else f", seed {self.seed}")


def outcome(clean: np.ndarray, given: np.ndarray, num_classes: int) -> dict[str, Any]:
    """The fields that say what came of it."""
    counts = np.bincount(clean * num_classes + given, minlength=num_classes**2).reshape(num_classes, num_classes)
    num_changed = int((given != clean).sum())
    return {
        "realised_rate": num_changed / max(1, len(clean)),
        "realised_matrix": (counts / np.maximum(counts.sum(1), 1)[:, None]).tolist(),
        "num_changed": num_changed,
        "num_samples": len(clean),
        "labels_sha256": labels_sha256(given),
        "clean_sha256": labels_sha256(clean),
    }


def restate(manifest: Manifest, clean: np.ndarray, given: np.ndarray, remark: str) -> Manifest:
    """The manifest after some labels were set by hand, with a remark that says so."""
    changed = {**outcome(clean, given, len(manifest.class_names)), "convention": f"{manifest.convention}; {remark}"}
    return Manifest.model_validate({**manifest.model_dump(), **changed})


def verify(
    labels: np.ndarray,
    manifest: Manifest,
    *,
    clean: np.ndarray | None = None,
    seed: int | None = None,
    ids: Sequence[str] | np.ndarray | None = None,
    class_names: Sequence[str] | None = None,
    inputs_sha256: str | None = None,
    where: str = "labels",
) -> None:
    """Nothing, or an error that says which of labels, seed and data are not those that the manifest describes."""
    found = {
        "num_samples": len(labels),
        "labels_sha256": labels_sha256(labels),
        "seed": seed,
        "class_names": None if class_names is None else tuple(class_names),
        "clean_sha256": None if clean is None else labels_sha256(clean),
        "ids_sha256": None if ids is None else ids_sha256(ids),
        "inputs_sha256": inputs_sha256,
    }
    faults = _faults(found, manifest)
    if faults:
        raise DataError(f"{where} and the noise manifest do not belong together: {faults}")


def describe_differences(found: Manifest, expected: Manifest) -> str:
    """In which of labels, seed and data two manifests differ, in words; nothing where they agree."""
    return _faults(found.model_dump(), expected)


_MEANINGS = {
    "labels_sha256": "the labels",
    "seed": "the seed",
    "num_samples": "the data (number of rows)",
    "class_names": "the data (class names)",
    "clean_sha256": "the data (clean labels)",
    "ids_sha256": "the data (ids or their order)",
    "inputs_sha256": "the data (inputs)",
}
"""What it means that a field differs."""
_SHOWN = ("seed", "num_samples")
"""Whose values tell a reader something."""


def _faults(found: Mapping[str, Any], expected: Manifest) -> str:
    """What differs of that which both sides know."""
    faults = []
    for name, meaning in _MEANINGS.items():
        here, there = found[name], getattr(expected, name)
        if here is not None and there is not None and here != there:
            faults.append(f"{meaning}: {here}, expected {there}" if name in _SHOWN else f"{meaning} differ")
    return "; ".join(faults)


def read_manifest(path: Path) -> Manifest:
    """The manifest in a JSON file."""
    try:
        return Manifest.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise DataError(f"{path}: not a noise manifest: {one_line(error)}") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not readable as a noise manifest: {' '.join(str(error).split())}") from None


def labels_sha256(labels: np.ndarray) -> str:
    """Of class numbers, whatever the type they are kept in."""
    return hashlib.sha256(np.ascontiguousarray(labels, dtype="<i8").tobytes()).hexdigest()


def ids_sha256(ids: Sequence[str] | np.ndarray) -> str:
    """Of the ids in their order."""
    return hashlib.sha256("\0".join(map(str, ids)).encode()).hexdigest()
