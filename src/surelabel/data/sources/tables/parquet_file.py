"""Parquet files to tables, read with pyarrow alone; class names come from the schema's metadata, where the hub puts them."""

import contextlib
import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from surelabel.data.sources.checks import refuse_not_utf8
from surelabel.data.sources.tables.columns import Roles
from surelabel.data.sources.tables.rows import Part
from surelabel.data.sources.tables.table import Table
from surelabel.errors import DataError

SUFFIX = ".parquet"


def read_parquet(paths: Sequence[Path], where: str, roles_of: Callable[[Table], Roles]) -> Part:
    """The rows of all files, with the columns that have a role; rows are counted from 0 in each file."""
    head = _head(paths[0])
    table = Table(head, where, paths[0].parent, class_names=class_names_in(head.schema))
    with _faults_named(paths[0]):  # cells are looked at
        roles = roles_of(table)
    tables = [_read(path, roles.used) for path in paths]
    ends = list(accumulate(table.num_rows for table in tables))
    whole = _joined(tables, where)
    called = partial(_row, paths, ends)
    return Part(Table(whole, where, table.folder, called, table.class_names), roles)


def class_names_in(schema: Any) -> dict[str, tuple[str, ...]]:
    """Columns that are ClassLabel in the hub's metadata, and their names."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        labels = {name: feature for name, feature in features.items() if feature.get("_type") == "ClassLabel"}
        return {name: tuple(map(str, feature["names"])) for name, feature in labels.items() if feature.get("names")}
    # Whatever else stands there is not for us.
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}


def _head(path: Path) -> pa.Table:
    """The first row, which tells types and what cells look like."""
    with _faults_named(path), pq.ParquetFile(path) as file:
        first = next(file.iter_batches(batch_size=1), None)
        schema = file.schema_arrow
        return (
            schema.empty_table()
            if first is None
            else pa.Table.from_batches([first]).replace_schema_metadata(schema.metadata)
        )


def _read(path: Path, columns: list[str]) -> pa.Table:
    with _faults_named(path):
        there = pq.read_schema(path).names
        for column in columns:
            if column not in there:
                raise DataError(
                    f"{path}: there is no column {column!r}, as other files have; there are {', '.join(there)}"
                )
        # read_table would import pyarrow's data sets, which takes longer than reading.
        with pq.ParquetFile(path) as file:
            table = file.read(columns)
        table.validate(full=True)  # text must be UTF-8
        return table


def _joined(tables: list[pa.Table], where: str) -> pa.Table:
    try:
        return pa.concat_tables([table.replace_schema_metadata(None) for table in tables], promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            f"{where}: the files have columns of different types ({' '.join(str(error).split())})"
        ) from None


@contextlib.contextmanager
def _faults_named(path: Path) -> Iterator[None]:
    refuse_not_utf8(path)
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not readable as a parquet table ({' '.join(str(error).split())})") from None


def _row(paths: Sequence[Path], ends: list[int], position: int) -> str:
    """What a person calls a row."""
    number = bisect_right(ends, position)
    return f"{paths[number]}, row {position - (ends[number - 1] if number else 0)}"
