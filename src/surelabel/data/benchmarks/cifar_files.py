"""The original Python batches of CIFAR: pickled dictionaries in a folder or in the archive as it was downloaded."""

import io
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from surelabel.data.benchmarks.checksum import check_md5
from surelabel.data.benchmarks.cifar_sets import Cifar, Stored, Wanted
from surelabel.data.benchmarks.dataset_directory import inside
from surelabel.data.benchmarks.pickles import read_pickle
from surelabel.errors import DataError

_SHAPE = (3, 32, 32)


def found(wanted: Wanted) -> bool:
    """Whether the root holds the folder or the archive, or is the folder."""
    return _folder(wanted) is not None or (wanted.root / wanted.cifar.archive).is_file()


def stored(wanted: Wanted) -> Stored:
    """The rows in their original order, which is the one that label files follow."""
    folder = _folder(wanted)
    batches = _from_archive(wanted) if folder is None else _from_folder(folder, wanted)
    pictures = np.concatenate([_pictures(batch, where) for where, batch in batches.items()])
    columns = {name: _names(name, batches, wanted.cifar) for name in wanted.cifar.columns}
    ids = np.array([f"{wanted.part}/{row:05d}" for row in range(len(pictures))])
    return Stored(torch.from_numpy(pictures), ids, columns)


def _folder(wanted: Wanted) -> Path | None:
    """The folder that holds all batches of both parts."""
    root, cifar = wanted.root, wanted.cifar
    files = [name for part in cifar.batches.values() for name in part]
    for folder in (root / cifar.folder, root):
        if all((folder / name).is_file() for name in files):
            return folder
    if (root / cifar.folder).is_dir() and not (root / cifar.archive).is_file():
        cifar.layout.require(root, root / cifar.folder, files)
    return None


def _from_folder(folder: Path, wanted: Wanted) -> dict[str, dict[str, Any]]:
    """By path, the content of each file."""
    batches = {}
    for name, md5 in wanted.cifar.batches[wanted.part].items():
        path = inside(folder / name, wanted.root)
        if wanted.verify:
            check_md5(path, md5)
        with path.open("rb") as file:
            batches[str(path)] = read_pickle(file, str(path))
    return batches


def _from_archive(wanted: Wanted) -> dict[str, dict[str, Any]]:
    """The same out of the archive, of which nothing is written to disk."""
    path, folder = inside(wanted.root / wanted.cifar.archive, wanted.root), wanted.cifar.folder
    if wanted.verify:
        check_md5(path, wanted.cifar.archive_md5)
    contents = _unpacked(path, [f"{folder}/{name}" for name in wanted.cifar.batches[wanted.part]])
    return {
        f"{path}: {name}": read_pickle(io.BytesIO(content), f"{path}: {name}") for name, content in contents.items()
    }


def _unpacked(path: Path, names: list[str]) -> dict[str, bytes]:
    """The contents of files in an archive, in the order of `names`."""
    contents = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.name in names and (file := archive.extractfile(member)) is not None:
                    contents[member.name] = file.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error, KeyError) as error:
        raise DataError(f"{path}: not readable as an archive ({' '.join(str(error).split())})") from None
    for name in names:
        if name not in contents:
            raise DataError(f"{path}: there is no {name} in it")
    return {name: contents[name] for name in names}


def _pictures(batch: dict[str, Any], where: str) -> np.ndarray:
    data = batch.get("data")
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (np.prod(_SHAPE),):
        raise DataError(f"{where}: expected `data`, uint8 (N, 3072), found {_described(data)}")
    return data.reshape(-1, *_SHAPE)


def _names(column: str, batches: dict[str, dict[str, Any]], cifar: Cifar) -> np.ndarray:
    classes, key = np.array(cifar.columns[column]), cifar.batch_keys[column]
    return np.concatenate([classes[_labels(batch, key, len(classes), where)] for where, batch in batches.items()])


def _labels(batch: dict[str, Any], key: str, num_classes: int, where: str) -> np.ndarray:
    labels, num_rows = np.asarray(batch.get(key, [])), len(batch["data"])
    if labels.shape != (num_rows,) or labels.dtype.kind not in "iu":
        raise DataError(f"{where}: expected `{key}`, {num_rows} whole numbers, found {_described(batch.get(key))}")
    bad = np.flatnonzero((labels < 0) | (labels >= num_classes))
    if len(bad):
        raise DataError(f"{where}: `{key}` of row {bad[0]} is {labels[bad[0]]}; there are 0..{num_classes - 1}")
    return labels


def _described(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    return f"{len(value)} values" if isinstance(value, list) else "nothing of the kind"
