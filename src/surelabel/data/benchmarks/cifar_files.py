"""The files of CIFAR: images in any of three layouts, and human labels of the training images.

The layouts are the parquet files of the Hugging Face hub, the original Python batches (pickled
dictionaries in a folder or in the archive as downloaded), and class folders of PNGs.
"""

import io
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from surelabel.data.benchmarks.benchmark import Request, numbered_ids, to_class_names
from surelabel.data.benchmarks.dataset_directory import check_inside, check_md5
from surelabel.data.benchmarks.pickles import read_pickle, read_torch
from surelabel.data.images.load import ArrowBytes, Blobs, Encoded
from surelabel.data.inputs import Inputs
from surelabel.data.sources import folder
from surelabel.data.sources.tables.parquet_file import read_class_names
from surelabel.errors import DataError

HUB_FOLDERS = ("data", "plain_text")
"""Where copies of the hub keep parquet files, besides the root and a folder named after the set."""

_SHAPE = (3, 32, 32)
_PICTURE_COLUMNS = ("img", "image")
_ALIASES = {"cra": "crab", "computer_keyboard": "keyboard"}
"""Other spellings of class names in public copies; the first is that of the Hugging Face hub."""
_CLEAN_KEY = "clean_label"


@dataclass(frozen=True)
class HumanLabels:
    """A published file of human labels for the training images (Wei et al., 2022)."""

    file: str
    md5: str
    keys: Mapping[str, str]
    """Keys in the file, by the name of the annotation."""
    default: str


@dataclass(frozen=True)
class CifarFiles:
    """The published files of CIFAR-10 or CIFAR-100, and their label columns."""

    columns: Mapping[str, tuple[str, ...]]
    """Classes of each label column, in order; the first column is the usual one."""
    batch_keys: Mapping[str, str]
    """Keys of the label columns in the original batches."""
    hub: str
    """Name on the Hugging Face hub."""
    folder: str
    archive: str
    archive_md5: str
    batches: Mapping[str, Mapping[str, str]]
    """The original files of train and test in order, with their md5 sums."""

    @property
    def column(self) -> str:
        """The usual label column, which holds the true labels."""
        return next(iter(self.columns))

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the usual label column."""
        return self.columns[self.column]


@dataclass(frozen=True)
class StoredPart:
    """The training or test part as stored: images, perhaps still encoded, and all label columns."""

    images: Encoded | Inputs
    ids: np.ndarray
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    """Class names (N,) by column."""


def read_stored(part: str, files: CifarFiles, request: Request[Any]) -> StoredPart:
    """Read train or test in the first layout that the root has."""
    if _find_shards("train", files, request):
        return _read_shards(part, files, request)
    if _find_batches(files, request) is not None or (request.root / files.archive).is_file():
        return _read_batches(part, files, request)
    if (request.root / "train").is_dir():
        return _read_class_folders(part, files, request)
    raise request.directory.missing(request.root, "the images")


def _find_shards(part: str, files: CifarFiles, request: Request[Any]) -> list[Path]:
    """Return the parquet files of a part, in the root or in a folder that the hub uses."""
    for name in (".", *HUB_FOLDERS, files.hub):
        if (request.root / name / f"{part}.parquet").is_file():
            return [request.root / name / f"{part}.parquet"]
        shards = sorted((request.root / name).glob(f"{part}-*-of-*.parquet"))
        if shards:
            _check_complete(shards, request)
            return shards
    return []


def _check_complete(shards: list[Path], request: Request[Any]) -> None:
    """Check that all shards are there: half of a download looks like a whole data set."""
    total = shards[0].stem.rpartition("-of-")[2]
    if not total.isdecimal() or len(shards) != int(total):
        raise request.directory.missing(request.root, f"some of the {total} files of which {shards[0].name} is one")


def _read_shards(part: str, files: CifarFiles, request: Request[Any]) -> StoredPart:
    import pyarrow

    shards = _find_shards(part, files, request)
    if not shards:
        raise request.directory.missing(request.root, f"{part}.parquet")
    tables = {path: _read_table(path, request.root) for path in shards}
    columns = _read_columns(tables, files)
    chunks = [chunk for path, table in tables.items() for chunk in _picture_column(table, path).chunks]
    blobs = ArrowBytes(pyarrow.chunked_array(chunks))
    ids = numbered_ids(part, len(blobs))
    return StoredPart(Blobs(blobs, [f"{request.root}: {row_id}" for row_id in ids]), ids, columns)


def _read_table(path: Path, root: Path) -> Any:
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(check_inside(path, root)).read()
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: not readable as parquet ({' '.join(str(error).split())})") from None


def _picture_column(table: Any, path: Path) -> Any:
    """Return the column of bytes, or of {bytes, path} as the hub writes it."""
    import pyarrow.compute
    import pyarrow.types

    name = next((name for name in _PICTURE_COLUMNS if name in table.column_names), None)
    if name is None:
        raise DataError(
            f"{path}: no column {' or '.join(_PICTURE_COLUMNS)}; available: {', '.join(table.column_names)}"
        )
    column = table[name]
    if pyarrow.types.is_struct(column.type) and column.type.get_field_index("bytes") >= 0:
        column = pyarrow.compute.struct_field(column, "bytes")
    if column.type not in (pyarrow.binary(), pyarrow.large_binary()) or column.null_count:
        raise DataError(
            f"{path}: {name} holds {column.type} with {column.null_count} blanks; expected bytes of pictures"
        )
    return column


def _read_columns(tables: dict[Path, Any], files: CifarFiles) -> dict[str, np.ndarray]:
    """Read the published label columns, and others that contain only the usual classes."""
    path, first = next(iter(tables.items()))
    published = {name: name for name in files.columns if name in first.column_names}
    if not published and "label" in first.column_names:
        published = {files.column: "label"}  # what some copies of CIFAR-100 call the fine labels
    if not published:
        raise DataError(f"{path}: no column {' or '.join(files.columns)}; available: {', '.join(first.column_names)}")
    columns = {name: _read_column(stored, files.columns[name], tables) for name, stored in published.items()}
    for name in first.column_names:
        if name not in (*published.values(), *_PICTURE_COLUMNS):
            try:
                columns[name] = _read_column(name, files.classes, tables)
            except (DataError, KeyError):
                continue  # not a column of labels
    return columns


def _read_column(name: str, classes: tuple[str, ...], tables: dict[Path, Any]) -> np.ndarray:
    """Read the class names of a column; the schema may state another order of the classes."""
    parts = []
    for path, table in tables.items():
        stated = read_class_names(table.schema, str(path)).get(name, ())
        order = tuple(_canonical_name(stated_name) for stated_name in stated) or classes
        unknown = [class_name for class_name in order if class_name not in classes]
        if unknown:
            raise DataError(f"{path}: unexpected classes in {name}, such as {unknown[0]!r}")
        parts.append(to_class_names(_read_integers(table[name], f"{path}: {name}"), order, f"{path}: {name}"))
    return np.concatenate(parts)


def _read_integers(column: Any, where: str) -> np.ndarray:
    import pyarrow.types

    if not pyarrow.types.is_integer(column.type) or column.null_count:
        raise DataError(f"{where} holds {column.type} with {column.null_count} blanks; expected class numbers")
    return np.asarray(column.to_numpy())


def _canonical_name(name: str) -> str:
    plain = name.strip().replace(" ", "_")
    return _ALIASES.get(plain, plain)


def _find_batches(files: CifarFiles, request: Request[Any]) -> Path | None:
    """Return the folder that holds the original batches of both parts."""
    root, names = request.root, [name for part in files.batches.values() for name in part]
    for place in (root / files.folder, root):
        if all((place / name).is_file() for name in names):
            return place
    if (root / files.folder).is_dir() and not (root / files.archive).is_file():
        request.directory.require(root, root / files.folder, names)
    return None


def _read_batches(part: str, files: CifarFiles, request: Request[Any]) -> StoredPart:
    """Read the original batches in their order, which label files follow."""
    place = _find_batches(files, request)
    batches = (
        _unpickle_archive(part, files, request) if place is None else _unpickle_folder(place, part, files, request)
    )
    pixels = np.concatenate([_read_pixels(batch, where) for where, batch in batches.items()])
    columns = {
        name: np.concatenate([_read_batch_labels(b, files.batch_keys[name], classes, w) for w, b in batches.items()])
        for name, classes in files.columns.items()
    }
    return StoredPart(torch.from_numpy(pixels), numbered_ids(part, len(pixels)), columns)


def _unpickle_folder(place: Path, part: str, files: CifarFiles, request: Request[Any]) -> dict[str, dict[str, Any]]:
    """Read the content of each file, by path."""
    batches = {}
    for name, md5 in files.batches[part].items():
        path = check_inside(place / name, request.root)
        if request.options.verify:
            check_md5(path, md5)
        with path.open("rb") as file:
            batches[str(path)] = read_pickle(file, str(path))
    return batches


def _unpickle_archive(part: str, files: CifarFiles, request: Request[Any]) -> dict[str, dict[str, Any]]:
    """Read the content of each file in the archive, without unpacking it to disk."""
    path = check_inside(request.root / files.archive, request.root)
    if request.options.verify:
        check_md5(path, files.archive_md5)
    contents = _unpack(path, [f"{files.folder}/{name}" for name in files.batches[part]])
    places = {f"{path}: {name}": content for name, content in contents.items()}
    return {where: read_pickle(io.BytesIO(content), where) for where, content in places.items()}


def _unpack(path: Path, names: list[str]) -> dict[str, bytes]:
    """Read files of an archive, in the order of `names`."""
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
            raise DataError(f"{path}: does not contain {name}")
    return {name: contents[name] for name in names}


def _read_pixels(batch: dict[str, Any], where: str) -> np.ndarray:
    data = batch.get("data")
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (np.prod(_SHAPE),):
        raise DataError(f"{where}: expected `data`, uint8 (N, 3072), found {_describe(data)}")
    return data.reshape(-1, *_SHAPE)


def _read_batch_labels(batch: dict[str, Any], key: str, classes: tuple[str, ...], where: str) -> np.ndarray:
    labels, num_rows = np.asarray(batch.get(key, [])), len(batch["data"])
    if labels.shape != (num_rows,) or labels.dtype.kind not in "iu":
        raise DataError(f"{where}: expected `{key}`, {num_rows} whole numbers, found {_describe(batch.get(key))}")
    return to_class_names(labels, classes, f"{where}: `{key}`")


def _describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    return f"{len(value)} values" if isinstance(value, list) else "nothing of the kind"


def _read_class_folders(part: str, files: CifarFiles, request: Request[Any]) -> StoredPart:
    """Read ROOT/PART/CLASS/*.png in the sorted order of the paths, which are the ids."""
    place = request.root / part
    if not place.is_dir():
        raise request.directory.missing(request.root, f"{part}/")
    rows = folder.read(request.config.model_copy(update={"source": str(place)}), request.shape).train
    names = np.array([_ALIASES.get(name, name) for name in rows.names.tolist()])
    unknown = sorted(set(names.tolist()) - set(files.classes))
    if unknown:
        name = request.directory.name
        raise DataError(f"{place / unknown[0]}: not a class of {name} ({len(unknown)} such folders)")
    return StoredPart(rows.x, np.array([f"{part}/{row_id}" for row_id in rows.ids]), {files.column: names})


def read_human_labels(path: Path, key: str, true_names: np.ndarray, classes: tuple[str, ...]) -> np.ndarray:
    """Read the class names that people gave to the training images.

    Label files follow the order of the original batches. Copies of CIFAR in another order, such as
    CIFAR-100 on the Hugging Face hub, would get the labels of other images, so the true labels in
    the file must equal those of the data row by row.
    """
    content = read_torch(path)
    _check_order(_read_annotation(content, _CLEAN_KEY, classes, path), true_names, path)
    return _read_annotation(content, key, classes, path)


def _read_annotation(content: dict[str, Any], key: str, classes: tuple[str, ...], path: Path) -> np.ndarray:
    if key not in content:
        raise DataError(f"{path}: does not contain {key}; available: {', '.join(content)}")
    labels = np.asarray(content[key])
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(f"{path}: {key} is {labels.dtype} {labels.shape}; expected whole numbers (N,)")
    return to_class_names(labels, classes, f"{path}: {key}")


def _check_order(stated: np.ndarray, true_names: np.ndarray, path: Path) -> None:
    if len(stated) != len(true_names):
        raise DataError(f"{path}: labels for {len(stated)} images, but the data have {len(true_names)}")
    other = np.flatnonzero(stated != true_names)
    if len(other):
        first = f"row {other[0]} is {true_names[other[0]]} there and {stated[other[0]]} here"
        raise DataError(
            f"{path}: {_CLEAN_KEY} differs from the data's true labels in {len(other)} of {len(stated)} rows, "
            f"the first: {first}; the order differs: label files follow the original Python batches "
            "(CIFAR-100 on the hub has another order)"
        )
