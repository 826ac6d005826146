"""Read parquet files as tables.

Class names come from the schema's metadata, where the Hugging Face hub stores them.
"""

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

from surelabel.data.sources.checks import fitting_in_memory, refuse_not_utf8
from surelabel.data.sources.labels import name_classes
from surelabel.data.sources.tables.columns import Roles, holds_bytes
from surelabel.data.sources.tables.content import JUDGED_ROWS
from surelabel.data.sources.tables.rows import TablePart
from surelabel.data.sources.tables.table import Table
from surelabel.errors import DataError
from surelabel.files import refuse_special_file

SUFFIX = ".parquet"


def read_parquet(paths: Sequence[Path], where: str, find_roles: Callable[[Table], Roles]) -> TablePart:
    """Read all rows of the files, but only the columns that have a role.

    Errors count the rows of each file from 0.
    """
    head = _read_head(paths[0])
    table = Table(head, where, paths[0].parent, class_names=read_class_names(head.schema, where))
    with _readable(paths[0]):  # find_roles looks at cells, which may be damaged
        roles = find_roles(table)
    tables = [_read(path, roles.used) for path in paths]
    ends = list(accumulate(table.num_rows for table in tables))
    whole = _concatenate(tables, where)
    name_row = partial(_name_row, paths, ends)
    return TablePart(Table(whole, where, table.folder, name_row, table.class_names), roles)


def read_class_names(schema: Any, where: str) -> dict[str, tuple[str, ...]]:
    """Return the class names of the columns that the hub's metadata declare as ClassLabel."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        labels = {name: feature for name, feature in features.items() if feature.get("_type") == "ClassLabel"}
        names = {name: list(feature["names"]) for name, feature in labels.items() if feature.get("names")}
    # Any other metadata are not ours to read.
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}
    return {name: name_classes(classes, f"{where}: {name}") for name, classes in names.items()}


def _read_head(path: Path) -> pa.Table:
    """Read the first rows, which show what cells look like; of images only the types."""
    with _readable(path), pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        columns = [field.name for field in schema if not holds_bytes(field.type)]
        first = next(file.iter_batches(batch_size=JUDGED_ROWS, columns=columns), None) if columns else None
        size = 0 if first is None else len(first)
        arrays = [
            pa.nulls(size, field.type) if first is None or field.name not in columns else first.column(field.name)
            for field in schema
        ]
        return pa.Table.from_arrays(arrays, schema=schema)


def _read(path: Path, columns: list[str]) -> pa.Table:
    with _readable(path):
        names = pq.read_schema(path).names
        for column in columns:
            if column not in names:
                raise DataError(
                    f"{path}: there is no column {column!r}, as other files have; available: {', '.join(names)}"
                )
        # read_table would import pyarrow.dataset, which takes longer than reading.
        with pq.ParquetFile(path) as file:
            table = file.read(columns)
        table.validate(full=True)  # text must be UTF-8
        return table


def _concatenate(tables: list[pa.Table], where: str) -> pa.Table:
    try:
        return pa.concat_tables([table.replace_schema_metadata(None) for table in tables], promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            f"{where}: the files have columns of different types ({' '.join(str(error).split())})"
        ) from None


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn the errors of reading a file into one line that names it."""
    refuse_not_utf8(path)
    refuse_special_file(path)
    try:
        with fitting_in_memory(path):
            yield
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not readable as a parquet table ({' '.join(str(error).split())})") from None


def _name_row(paths: Sequence[Path], ends: list[int], position: int) -> str:
    """Return what to call a row: its file, and its number in that file."""
    number = bisect_right(ends, position)
    return f"{paths[number]}, row {position - (ends[number - 1] if number else 0)}"
