"""CIFAR as the Hugging Face hub has it: parquet files with pictures as bytes and numbered classes."""

from pathlib import Path
from typing import Any

import numpy as np

from surelabel.data.benchmarks.cifar_sets import ALIASES, HUB_FOLDERS, Cifar, Stored, Wanted
from surelabel.data.benchmarks.layout import inside
from surelabel.data.images.load import ArrowBytes, Blobs
from surelabel.data.sources.tables.parquet_file import read_class_names
from surelabel.errors import DataError

_PICTURES = ("img", "image")


def found(wanted: Wanted) -> bool:
    """Whether the root or a folder in it holds parquet files of the training part."""
    return bool(_shards(wanted, "train"))


def stored(wanted: Wanted) -> Stored:
    """The rows in the order of the files."""
    shards = _shards(wanted, wanted.part)
    if not shards:
        raise wanted.cifar.layout.lacks(wanted.root, f"{wanted.part}.parquet")
    tables = {path: _table(path, wanted.root) for path in shards}
    columns = _columns(tables, wanted.cifar)
    blobs = _blobs(tables)
    ids = [f"{wanted.part}/{row:05d}" for row in range(len(blobs))]
    return Stored(Blobs(blobs, [f"{wanted.root}: {row}" for row in ids]), np.array(ids), columns)


def _shards(wanted: Wanted, part: str) -> list[Path]:
    """The files of a part, in the root or in a folder that the hub uses."""
    for folder in (".", *HUB_FOLDERS, wanted.cifar.hub):
        if (wanted.root / folder / f"{part}.parquet").is_file():
            return [wanted.root / folder / f"{part}.parquet"]
        files = sorted((wanted.root / folder).glob(f"{part}-*-of-*.parquet"))
        if files:
            return _complete(files, wanted)
    return []


def _complete(shards: list[Path], wanted: Wanted) -> list[Path]:
    """The shards, all of which must be there: half of a download looks like a whole data set."""
    total = shards[0].stem.rpartition("-of-")[2]
    if not total.isdecimal() or len(shards) != int(total):
        raise wanted.cifar.layout.lacks(wanted.root, f"some of the {total} files of which {shards[0].name} is one")
    return shards


def _table(path: Path, root: Path) -> Any:
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(inside(path, root)).read()
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: not readable as parquet ({' '.join(str(error).split())})") from None


def _blobs(tables: dict[Path, Any]) -> ArrowBytes:
    """The encoded pictures of all files."""
    import pyarrow

    chunks = [chunk for path, table in tables.items() for chunk in _pictures(table, path).chunks]
    return ArrowBytes(pyarrow.chunked_array(chunks))


def _pictures(table: Any, path: Path) -> Any:
    """The column of bytes, or of {bytes, path} as the hub writes it."""
    import pyarrow.compute
    import pyarrow.types

    name = next((name for name in _PICTURES if name in table.column_names), None)
    if name is None:
        raise DataError(f"{path}: no column {' or '.join(_PICTURES)}; there are {', '.join(table.column_names)}")
    column = table[name]
    if pyarrow.types.is_struct(column.type) and column.type.get_field_index("bytes") >= 0:
        column = pyarrow.compute.struct_field(column, "bytes")
    if column.type not in (pyarrow.binary(), pyarrow.large_binary()) or column.null_count:
        raise DataError(
            f"{path}: {name} holds {column.type} with {column.null_count} blanks; expected bytes of pictures"
        )
    return column


def _columns(tables: dict[Path, Any], cifar: Cifar) -> dict[str, np.ndarray]:
    """The set's own label columns, and others that hold nothing but its classes."""
    first = next(iter(tables.values()))
    if not _own(first, cifar):
        path, expected = next(iter(tables)), " or ".join(cifar.columns)
        raise DataError(f"{path}: no column {expected}; there are {', '.join(first.column_names)}")
    own = {name: _names(stored, cifar.columns[name], tables) for name, stored in _own(first, cifar).items()}
    others = [name for name in first.column_names if name not in (*_own(first, cifar).values(), *_PICTURES)]
    return {**own, **{name: names for name in others if (names := _names_or_none(name, tables, cifar)) is not None}}


def _own(table: Any, cifar: Cifar) -> dict[str, str]:
    """By our name, the table's own label columns; some copies of CIFAR-100 call the fine one `label`."""
    own = {name: name for name in cifar.columns if name in table.column_names}
    return own or ({cifar.column: "label"} if "label" in table.column_names else {})


def _names_or_none(column: str, tables: dict[Path, Any], cifar: Cifar) -> np.ndarray | None:
    try:
        return _names(column, cifar.columns[cifar.column], tables)
    except (DataError, KeyError):
        return None


def _names(column: str, classes: tuple[str, ...], tables: dict[Path, Any]) -> np.ndarray:
    """The class names in a column of all files; the numbers follow the order that the schema states, where it does."""
    parts = []
    for path, table in tables.items():
        order = _stated(table, column) or classes
        unknown = [name for name in order if name not in classes]
        if unknown:
            raise DataError(f"{path}: the classes of {column} are others than expected, such as {unknown[0]!r}")
        numbers = _whole_numbers(table[column], f"{path}: {column}")
        bad = np.flatnonzero((numbers < 0) | (numbers >= len(order)))
        if len(bad):
            raise DataError(f"{path}, row {bad[0]}: {column} is {numbers[bad[0]]}; there are 0..{len(order) - 1}")
        parts.append(np.array(order)[numbers])
    return np.concatenate(parts)


def _whole_numbers(column: Any, where: str) -> np.ndarray:
    import pyarrow.types

    if not pyarrow.types.is_integer(column.type) or column.null_count:
        raise DataError(f"{where} holds {column.type} with {column.null_count} blanks; expected class numbers")
    return column.to_numpy()


def _stated(table: Any, column: str) -> tuple[str, ...]:
    """The names of a column's classes in their order, as the hub's metadata have them, else nothing."""
    return tuple(map(_canonical, read_class_names(table.schema).get(column, ())))


def _canonical(name: object) -> str:
    plain = str(name).strip().replace(" ", "_")
    return ALIASES.get(plain, plain)
