"""Tables: .csv (.tsv) and .parquet files with a row for each sample.

The input is a column of image paths, relative to the table, a column of images as bytes, or numeric columns; another column
holds the label. columns.py tells how they are found, rows.py how rows are named and divided. A file is read alone:
where a test file lies beside it, that is said, and `data.test` or the whole folder takes it.
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
from surelabel.data.sources.tables.columns import roles_of
from surelabel.data.sources.tables.rows import Part, inputs_of, parts_of

KIND = "a .csv or .parquet table with images or numbers and labels"
BUNDLED: tuple[str, ...] = ()

_log = logging.getLogger("surelabel")


def accepts(source: str) -> bool:
    """By the name."""
    return Path(source).suffix.lower() in (*csv_file.SUFFIXES, parquet_file.SUFFIX)


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """The rows of split train, or all without that column, and those of split test."""
    parts = parts_of(opened(config, needs_label=True, is_test=shape is not None), config, shape)
    if shape is None and not parts.tests and config.test is None:
        _mention_neighbour(Path(config.source))
    return parts


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """All inputs of the table; a label column is not needed."""
    return inputs_of(opened(config, needs_label=False), config, shape)


def opened(config: DataConfig, needs_label: bool, is_test: bool = False) -> Part:
    """The table and what its columns are there for."""
    roles = partial(roles_of, config=config, needs_label=needs_label, is_test=is_test)
    if Path(config.source).suffix.lower() == parquet_file.SUFFIX:
        return parquet_file.read_parquet([Path(config.source)], config.source, roles)
    table = csv_file.read_csv(config.source)
    return Part(table, roles(table))


def _mention_neighbour(path: Path) -> None:
    beside = path.with_name(re.sub(r"^train(?![a-z])", "test", path.name))
    if beside != path and beside.is_file():
        _log.warning("%s: %s beside it is not used; data.test (--test %s) takes it", path, beside.name, beside)
