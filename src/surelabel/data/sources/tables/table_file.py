"""Table files: .csv, .tsv and .parquet files with a row for each sample.

The input is a column of image paths, relative to the table, a column of images as bytes, or numeric
columns; another column holds the label. `columns` finds them, `rows` names and splits the rows.
Only this file is read; a test file in the same folder is mentioned, and can become `data.test`.
"""

import logging
import re
from functools import partial
from pathlib import Path

import numpy as np

from surelabel.config import DataConfig
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.sources.interface import Parts
from surelabel.data.sources.tables import csv_file, parquet_file
from surelabel.data.sources.tables.columns import find_roles
from surelabel.data.sources.tables.rows import TablePart, make_inputs, make_parts

KIND = "a .csv or .parquet table with images or numbers and labels"
BUNDLED: tuple[str, ...] = ()

_log = logging.getLogger("surelabel")


def accepts(source: str) -> bool:
    """Return whether the name ends like a table's."""
    return Path(source).suffix.lower() in (*csv_file.SUFFIXES, parquet_file.SUFFIX)


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """Read the rows of the splits train and test, or all rows if there is no column `split`."""
    parts = make_parts(read_table(config, needs_label=True, is_test=shape is not None), config, shape)
    if shape is None and not parts.tests and config.test is None:
        _mention_test_file(Path(config.source))
    return parts


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """Read all inputs of the table; a label column is not needed."""
    return make_inputs(read_table(config, needs_label=False), config, shape)


def read_table(config: DataConfig, needs_label: bool, is_test: bool = False) -> TablePart:
    """Read the table, and find out what its columns are for."""
    roles = partial(find_roles, config=config, needs_label=needs_label, is_test=is_test)
    if Path(config.source).suffix.lower() == parquet_file.SUFFIX:
        return parquet_file.read_parquet([Path(config.source)], config.source, roles)
    table = csv_file.read_csv(config.source)
    return TablePart(table, roles(table))


def _mention_test_file(path: Path) -> None:
    beside = path.with_name(re.sub(r"^train(?![a-z])", "test", path.name))
    if beside != path and beside.is_file():
        _log.warning("%s: %s beside it is not used; data.test (--test %s) takes it", path, beside.name, beside)
