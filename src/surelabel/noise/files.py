"""Labels from files and to files: .npy, .csv with id and label, or a run directory, with the manifest that stands beside.

labels.npy   labels.json      class numbers or class names by position; the manifest
labels.csv   labels.json      id, label: matched by id
RUN/labels.parquet, data.json, noise.json     what a run was given
"""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surelabel import files
from surelabel.errors import ConfigError, DataError, SurelabelError
from surelabel.noise.manifest import Manifest, read_manifest, verify

SUFFIXES = (".npy", ".csv")


@dataclass(frozen=True)
class LabelFile:
    """What a file says, in its own order and its own class numbers."""

    where: str
    labels: np.ndarray
    """(N,) int64."""
    class_names: tuple[str, ...]
    """In the order of its class numbers."""
    ids: np.ndarray | None
    """(N,) str; None for labels by position."""
    manifest: Manifest | None


def read_labels(path: Path, class_names: Sequence[str]) -> LabelFile:
    """The labels at `path`; numbers without a manifest are those of `class_names`."""
    if path.is_dir():
        return _read_run(path)
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"noise.path: {path} is not an .npy, a .csv with id and label, or a run directory")
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    manifest = read_manifest(beside(path)) if beside(path).exists() else None
    names = tuple(class_names) if manifest is None else manifest.class_names
    ids, values = (None, _read_npy(path)) if path.suffix == ".npy" else _read_csv(path)
    return LabelFile(str(path), _numbers(values, names, path), names, ids, manifest)


def save(
    path: str | Path, labels: np.ndarray, manifest: Manifest, ids: Sequence[str] | np.ndarray | None = None
) -> tuple[Path, Path]:
    """Write labels and their manifest beside each other: class numbers as .npy, or with ids, class names as .csv."""
    path = writable(path)
    verify(labels, manifest, ids=ids)
    if path.suffix == ".npy":
        files.replace_stream(path, lambda file: np.save(file, np.asarray(labels, dtype=np.int64), allow_pickle=False))
    elif ids is None:
        raise ConfigError(f"{path}: a .csv needs the rows' ids; without them write an .npy")
    else:
        lines = _csv_lines(ids, [manifest.class_names[label] for label in labels])
        files.replace_text(path, lines)
    files.replace_text(beside(path), json.dumps(manifest.to_dict(), indent=2) + "\n")
    return path, beside(path)


def writable(path: str | Path) -> Path:
    """The path, or an error where labels cannot be written to it."""
    path = Path(path)
    if path.suffix not in SUFFIXES or path.is_dir():
        raise ConfigError(f"{path}: not a file that labels can be written to; expected FILE.npy or FILE.csv")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no folder {path.parent}; expected one that exists")
    if beside(path).exists():
        _refuse_other_json(beside(path))
    return path


def _refuse_other_json(path: Path) -> None:
    """Raise if the manifest's place is taken by a file that is not a manifest."""
    try:
        read_manifest(path)
    except SurelabelError:
        raise ConfigError(
            f"{path}: the manifest would replace this file, which is not one; choose another name"
        ) from None


def beside(path: Path) -> Path:
    """Where the manifest of a file of labels stands."""
    return path.with_suffix(".json")


def _read_run(path: Path) -> LabelFile:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = tuple(map(str, json.loads((path / "data.json").read_text(encoding="utf-8"))["class_names"]))
        table = pq.read_table(path / "labels.parquet", columns=["id", "given"])
        labels, ids = table["given"].to_numpy(), table["id"].to_numpy(zero_copy_only=False).astype(np.str_)
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        fault = " ".join(str(error).split())
        raise DataError(f"{path}: not readable as a run directory with labels.parquet and data.json: {fault}") from None
    manifest = read_manifest(path / "noise.json") if (path / "noise.json").exists() else None
    return LabelFile(str(path), _numbers(labels, names, path), names, ids, manifest)


def _read_npy(path: Path) -> np.ndarray:
    try:
        values = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: not readable as an .npy of labels: {' '.join(str(error).split())}") from None
    if values.ndim != 1 or values.dtype.kind not in "iuU":
        raise DataError(
            f"{path}: holds {values.dtype} of shape {values.shape}; expected class numbers or class names of shape (N,)"
        )
    return values


def _read_csv(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read ids and labels as they were written, with the spaces around them."""
    # Imported here: reading tables takes pyarrow, which is slow to import.
    from surelabel.data.label_file import read_label_file

    file = read_label_file(path, strip=False)
    assert file.values is not None
    return file.ids, file.values


def _numbers(values: np.ndarray, class_names: Sequence[str], path: Path) -> np.ndarray:
    """Class numbers of names or numbers; text is names first, and numbers only if some of it is no name."""
    number = {name: position for position, name in enumerate(class_names)}
    if values.dtype.kind == "U":
        distinct, inverse = np.unique(values, return_inverse=True)
        strange = [str(name) for name in distinct if str(name) not in number]
        if not strange:
            return np.array([number[str(name)] for name in distinct], dtype=np.int64)[inverse.reshape(-1)]
        if not all(str(name).isdecimal() for name in distinct):
            raise _not_a_class(values, strange[0], class_names, path)
        values = values.astype(np.int64)
    for position in np.flatnonzero((values < 0) | (values >= len(class_names)))[:1]:
        raise _not_a_class(values, values[position], class_names, path)
    return values.astype(np.int64)


def _not_a_class(values: np.ndarray, value: Any, class_names: Sequence[str], path: Path) -> DataError:
    position = int(np.flatnonzero(values == value)[0])
    names = ", ".join(class_names[:12]) + (", ..." if len(class_names) > 12 else "")
    shown = repr(value) if isinstance(value, str) else value
    return DataError(
        f"{path}: label {position} (counted from 0) is {shown}; expected a class name ({names}) or 0..{len(class_names) - 1}"
    )


def _csv_lines(ids: Sequence[str] | np.ndarray, labels: list[str]) -> str:
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("id", "label"), *zip(map(str, ids), labels, strict=True)])
    return text.getvalue()
