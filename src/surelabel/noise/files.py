"""Labels in files: reading them, matching them to the rows of the data, and writing them.

    labels.npy, labels.json                       class numbers or names by position; the manifest
    labels.csv, labels.json                       columns id and label; the manifest
    RUN/labels.parquet, data.json, noise.json     the labels that a run was trained on

Labels are matched to the data by id if both have ids, otherwise by position.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surelabel import files
from surelabel.errors import ConfigError, DataError, RunError
from surelabel.noise.clean_data import CleanData
from surelabel.noise.instance import inputs_sha256
from surelabel.noise.manifest import Manifest, read_manifest, verify
from surelabel.runs.run_dir import RunDir

SUFFIXES = (".npy", ".csv")


@dataclass(frozen=True)
class StoredLabels:
    """The labels in a file, in the file's order and class numbers."""

    where: str
    labels: np.ndarray
    """(N,) int64."""
    class_names: tuple[str, ...]
    """In the order of the file's class numbers."""
    ids: np.ndarray | None
    """(N,) str; None if the labels are matched by position."""
    manifest: Manifest | None


def read_labels(path: Path, class_names: Sequence[str]) -> StoredLabels:
    """Read the labels at `path`; without a manifest, class numbers are those of `class_names`."""
    if path.is_dir():
        return _read_run(path)
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"noise.path: {path} is not an .npy, a .csv with id and label, or a run directory")
    files.refuse_special_file(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    manifest = read_manifest(manifest_path(path)) if manifest_path(path).exists() else None
    names = tuple(class_names) if manifest is None else manifest.class_names
    ids, values = (None, _read_npy(path)) if path.suffix == ".npy" else _read_csv(path)
    return StoredLabels(str(path), _to_numbers(values, names, path), names, ids, manifest)


def save(
    path: str | Path, labels: np.ndarray, manifest: Manifest, ids: Sequence[str] | np.ndarray | None = None
) -> tuple[Path, Path]:
    """Write class numbers (.npy) or ids and class names (.csv), with the manifest beside them."""
    path = check_writable(path)
    verify(labels, manifest, ids=ids)
    if path.suffix == ".npy":
        files.replace_stream(path, lambda file: np.save(file, np.asarray(labels, dtype=np.int64), allow_pickle=False))
    elif ids is None:
        raise ConfigError(f"{path}: a .csv needs the rows' ids; without them write an .npy")
    else:
        names = (manifest.class_names[label] for label in labels)
        files.replace_csv(path, ("id", "label"), zip(map(str, ids), names, strict=True), as_they_are=("label",))
    files.replace_text(manifest_path(path), json.dumps(manifest.to_dict(), indent=2) + "\n")
    return path, manifest_path(path)


def check_writable(path: str | Path) -> Path:
    """Return the path; raise ConfigError if labels cannot be written to it."""
    path = Path(path)
    if path.suffix not in SUFFIXES or path.is_dir():
        raise ConfigError(f"{path}: not a file that labels can be written to; expected FILE.npy or FILE.csv")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no folder {path.parent}; expected one that exists")
    return path


def manifest_path(path: Path) -> Path:
    """Return the path of the manifest that belongs to a file of labels."""
    return path.with_suffix(".json")


def _read_run(path: Path) -> StoredLabels:
    run = RunDir(path)
    try:
        names, table = tuple(map(str, run.data()["class_names"])), run.labels()
        labels, ids = table["given"].to_numpy(), table["id"].to_numpy(zero_copy_only=False).astype(np.str_)
    except (RunError, ValueError, KeyError, TypeError) as error:
        fault = " ".join(str(error).split())
        raise DataError(f"{path}: not readable as a run directory with labels.parquet and data.json: {fault}") from None
    manifest = read_manifest(run.checked("noise.json")) if (path / "noise.json").exists() else None
    return StoredLabels(str(path), _to_numbers(labels, names, path), names, ids, manifest)


def _read_npy(path: Path) -> np.ndarray:
    try:
        values: np.ndarray = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: not readable as an .npy of labels: {' '.join(str(error).split())}") from None
    if values.ndim != 1 or values.dtype.kind not in "iuU":
        raise DataError(
            f"{path}: holds {values.dtype} of shape {values.shape}; expected class numbers or class names of shape (N,)"
        )
    return values


def _read_csv(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read labels, and ids as they were written, with the spaces around them."""
    # Imported here: reading tables takes pyarrow, which is slow to import.
    from surelabel.data.label_file import read_label_file

    file = read_label_file(path, strip=False)
    assert file.values is not None
    return file.ids, file.values


def _to_numbers(values: np.ndarray, class_names: Sequence[str], path: Path) -> np.ndarray:
    """Return the class numbers of class names or numbers.

    Text is taken as numbers only if some of it is not a class name: a class may be called "7".
    """
    number = {name: position for position, name in enumerate(class_names)}
    if values.dtype.kind == "U":
        distinct, inverse = np.unique(values, return_inverse=True)
        unknown = [str(name) for name in distinct if str(name) not in number]
        if not unknown:
            return np.array([number[str(name)] for name in distinct], dtype=np.int64)[inverse.reshape(-1)]
        if not all(str(name).isdecimal() for name in distinct):
            raise _not_a_class(values, unknown[0], class_names, path)
        values = np.array([int(name) for name in values.tolist()], dtype=object)  # of any size
    for position in np.flatnonzero((values < 0) | (values >= len(class_names)))[:1]:
        raise _not_a_class(values, values[position], class_names, path)
    return values.astype(np.int64)


def _not_a_class(values: np.ndarray, value: Any, class_names: Sequence[str], path: Path) -> DataError:
    position = int(np.flatnonzero(values == value)[0])
    names = ", ".join(class_names[:12]) + (", ..." if len(class_names) > 12 else "")
    shown = repr(value) if isinstance(value, str) else value
    expected = f"a class name ({names}) or 0..{len(class_names) - 1}"
    return DataError(f"{path}: label {position} (counted from 0) is {shown}; expected {expected}")


def match_rows(file: StoredLabels, data: CleanData, seed: int | None) -> tuple[np.ndarray, str | None]:
    """Return the file's label of each row of the data, and the hash of the inputs.

    Labels are (N,) int64 class numbers of the data. They are checked against the file's manifest;
    the hash is None unless the manifest has one.
    """
    order = _order(file, data)
    digest = None
    if file.manifest is not None:
        if file.manifest.inputs_sha256 is not None and data.inputs is not None:
            digest = inputs_sha256(len(order), data.inputs)
        _check_manifest(file, file.manifest, order, data, seed, digest)
    return _translate(file.labels, file.class_names, data.class_names, file.where)[order], digest


def _order(file: StoredLabels, data: CleanData) -> np.ndarray:
    """Return the position (N,) in the file of each row of the data."""
    num_rows = len(data.clean)
    if file.ids is None or data.ids is None:
        if len(file.labels) != num_rows:
            raise DataError(f"{file.where}: {len(file.labels)} labels for {num_rows} rows; expected one for each")
        return np.arange(num_rows)
    position = {str(one): number for number, one in enumerate(file.ids)}
    missing = [str(one) for one in data.ids if str(one) not in position]
    if missing:
        fault = f"no label for {len(missing)} of {num_rows} rows, the first is the id {missing[0]!r}"
        raise DataError(f"{file.where}: {fault}; expected one for each")
    return np.array([position[str(one)] for one in data.ids], dtype=np.int64)


def _check_manifest(
    file: StoredLabels, manifest: Manifest, order: np.ndarray, data: CleanData, seed: int | None, digest: str | None
) -> None:
    """Check the data against the manifest, in the order and class numbers of the file.

    The hashes in the manifest were made in that order and with those numbers.
    """
    if len(order) != len(file.labels):
        raise DataError(
            f"{file.where}: its noise was drawn for {len(file.labels)} rows, the data have {len(order)}; "
            "with a manifest the rows must be the same"
        )
    rows = np.argsort(order)
    same_classes = set(data.class_names) == set(file.class_names)
    names = file.class_names if same_classes else data.class_names
    verify(
        file.labels,
        manifest,
        clean=_translate(data.clean, data.class_names, names, file.where)[rows],
        seed=seed,
        ids=None if data.ids is None else data.ids[rows],
        class_names=names,
        # The inputs were hashed in the order of the data: comparable only if the file has the same.
        inputs_sha256=digest if np.array_equal(rows, np.arange(len(rows))) else None,
        where=file.where,
    )


def _translate(numbers: np.ndarray, old: Sequence[str], new: Sequence[str], where: str) -> np.ndarray:
    """Translate class numbers of the names `old` into those of the names `new`."""
    position = {name: number for number, name in enumerate(new)}
    for number in np.unique(numbers):
        if old[number] not in position:
            raise DataError(f"{where}: has the class {old[number]!r}, which the data do not have")
    translated: np.ndarray = np.array([position.get(name, -1) for name in old], dtype=np.int64)[numbers]
    return translated
