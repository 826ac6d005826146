"""The manifest: a record of injected noise, with hashes that reveal a change of labels or data."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from surelabel.config import Part, one_line
from surelabel.errors import DataError

DENSE_CLASSES = 1000
"""The most classes for which a manifest has the whole matrix of clean and given classes."""


class Manifest(Part):
    """What noise was injected, by which convention, and the outcome."""

    kind: str
    """As in the configuration."""
    convention: str
    """How rows and new labels were chosen."""
    mode: str | None
    """exact or bernoulli; None for labels from a file."""
    seed: int | None
    """Seed of the draw; None for labels from a file without one."""
    nominal_rate: float
    """The configured rate; for a matrix, the fraction of wrong labels that it implies here."""
    expected_rate: float
    """The fraction of labels that the convention makes wrong on average.

    Symmetric noise that includes the true class, for example, has r (1 - 1/K).
    """
    realised_rate: float
    """The fraction of labels that are wrong."""
    realised_matrix: tuple[tuple[float, ...], ...] | None = None
    """(K, K) fractions: rows are clean classes, columns given ones; zeros for an empty class.

    None for more than DENSE_CLASSES classes.
    """
    realised_counts: tuple[tuple[int, int, int], ...] | None = None
    """In place of the matrix: clean class, given class and number of rows, for pairs that occur."""
    num_changed: int
    """The number of labels that are wrong."""
    num_samples: int
    """N."""
    class_names: tuple[str, ...]
    """In the order of the class numbers."""
    class_map: dict[str, str] | None = None
    """Clean name to given name, for kinds that send all wrong labels of a class to one other."""
    labels_sha256: str
    """Hash of the noisy labels as little-endian int64."""
    clean_sha256: str
    """Hash of the clean labels, likewise."""
    ids_sha256: str | None = None
    """Hash of the rows' ids in their order, joined by zero bytes."""
    inputs_sha256: str | None = None
    """Hash of the inputs, row by row; only for noise that depends on them."""

    def to_dict(self) -> dict[str, object]:
        """Return the fields for JSON; `Manifest.model_validate` reads them back."""
        unused = {name for name in ("realised_matrix", "realised_counts") if getattr(self, name) is None}
        return self.model_dump(mode="json", exclude=unused)

    def describe(self) -> str:
        """Describe the noise in one line."""
        differs = abs(self.expected_rate - self.nominal_rate) >= 0.0005  # rates are shown with one decimal
        text = (
            f"{self.kind} noise, {self.nominal_rate:.1%} nominal"
            f"{f', {self.expected_rate:.1%} expected' if differs else ''} ({self.convention}): "
            f"{self.num_changed} of {self.num_samples} labels are wrong ({self.realised_rate:.1%})"
        )
        return text.replace("%", " %") + ("" if self.seed is None else f", seed {self.seed}")


def summarise(clean: np.ndarray, given: np.ndarray, num_classes: int) -> dict[str, Any]:
    """Return the fields of the manifest that describe the outcome."""
    num_changed = int((given != clean).sum())
    return {
        "realised_rate": num_changed / max(1, len(clean)),
        **_count_pairs(clean, given, num_classes),
        "num_changed": num_changed,
        "num_samples": len(clean),
        "labels_sha256": labels_sha256(given),
        "clean_sha256": labels_sha256(clean),
    }


def _count_pairs(clean: np.ndarray, given: np.ndarray, num_classes: int) -> dict[str, Any]:
    """Return the fractions of all pairs of classes, or with many classes the pairs that occur."""
    pairs, counts = np.unique(clean * num_classes + given, return_counts=True)
    if num_classes > DENSE_CLASSES:
        found = zip((pairs // num_classes).tolist(), (pairs % num_classes).tolist(), counts.tolist(), strict=True)
        return {"realised_matrix": None, "realised_counts": tuple(found)}
    matrix = np.zeros((num_classes, num_classes), dtype=np.int64)
    matrix.reshape(-1)[pairs] = counts
    return {"realised_matrix": (matrix / np.maximum(matrix.sum(1), 1)[:, None]).tolist(), "realised_counts": None}


def restate(manifest: Manifest, clean: np.ndarray, given: np.ndarray, remark: str) -> Manifest:
    """Return the manifest after some labels were set by hand, with a remark that explains it."""
    changed = summarise(clean, given, len(manifest.class_names)) | {"convention": f"{manifest.convention}; {remark}"}
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
    """Raise DataError, naming each difference, unless labels, seed and data match the manifest.

    What is None is not compared.
    """
    found = {
        "num_samples": len(labels),
        "labels_sha256": labels_sha256(labels),
        "seed": seed,
        "class_names": None if class_names is None else tuple(class_names),
        "clean_sha256": None if clean is None else labels_sha256(clean),
        "ids_sha256": None if ids is None else ids_sha256(ids),
        "inputs_sha256": inputs_sha256,
    }
    differences = _describe(found, manifest)
    if differences:
        raise DataError(f"{where} and the noise manifest do not belong together: {differences}")


def describe_differences(found: Manifest, expected: Manifest) -> str:
    """Return how labels, seed and data of two manifests differ; "" if they agree."""
    return _describe(found.model_dump(), expected)


_MEANINGS = {
    "labels_sha256": "the labels",
    "seed": "the seed",
    "num_samples": "the data (number of rows)",
    "class_names": "the data (class names)",
    "clean_sha256": "the data (clean labels)",
    "ids_sha256": "the data (ids or their order)",
    "inputs_sha256": "the data (inputs)",
}
"""What differs, in the words of a message, if a field does."""
_SHOWN = ("seed", "num_samples")
"""Fields whose values are worth showing; the others are hashes or long."""


def _describe(found: Mapping[str, Any], expected: Manifest) -> str:
    """Describe how the fields differ that are known on both sides."""
    differences = []
    for name, meaning in _MEANINGS.items():
        here, there = found[name], getattr(expected, name)
        if here is not None and there is not None and here != there:
            differences.append(f"{meaning}: {here}, expected {there}" if name in _SHOWN else f"{meaning} differ")
    return "; ".join(differences)


def read_manifest(path: Path) -> Manifest:
    """Read a manifest from a JSON file."""
    try:
        return Manifest.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise DataError(f"{path}: not a noise manifest: {one_line(error)}") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not readable as a noise manifest: {' '.join(str(error).split())}") from None


def labels_sha256(labels: np.ndarray) -> str:
    """Hash class numbers, independently of their integer type."""
    return hashlib.sha256(np.ascontiguousarray(labels, dtype="<i8").tobytes()).hexdigest()


def ids_sha256(ids: Sequence[str] | np.ndarray) -> str:
    """Hash ids in their order."""
    return hashlib.sha256("\0".join(map(str, ids)).encode()).hexdigest()
