"""CSV tables: a row for each image, with its path relative to the table and its label.

Columns beside those two: `id` names the rows, else the path as written does; `split` says train or test. Row numbers in
errors are those of a spreadsheet: the header is row 1.
"""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surelabel.config import DataConfig
from surelabel.data.images import Files, load_images
from surelabel.data.inputs import Inputs, Shape
from surelabel.data.rows import Parts, Rows
from surelabel.errors import DataError

KIND = "a .csv table with paths and labels"
BUNDLED: tuple[str, ...] = ()

_SPLITS = ("train", "test")


@dataclass(frozen=True)
class _Record:
    """A line of the table with the number that a person gives it."""

    number: int
    cells: dict[str, str]

    def __getitem__(self, column: str) -> str:
        return self.cells[column]


_Complaint = Callable[[_Record], str | None]
"""What is wrong with a row, or None."""


def accepts(source: str) -> bool:
    """By the name."""
    return Path(source).suffix.lower() == ".csv"


def read(config: DataConfig, shape: Shape | None = None) -> Parts:
    """The rows of split train, or all without that column, and those of split test."""
    records = _records(config, (_path_column(config), _label_column(config)))
    _refuse(records, config, _blank(_label_column(config)))
    if not records or "split" not in records[0].cells:
        return Parts(_rows(records, config, shape))
    _refuse(records, config, _unknown_split)
    part = {name: [row for row in records if row["split"].lower() == name] for name in _SPLITS}
    train = _rows(part["train"], config, shape)
    if not part["test"]:
        return Parts(train)
    return Parts(train, {"test": _rows(part["test"], config, shape or tuple(train.x.shape[1:]))})


def read_inputs(config: DataConfig, shape: Shape) -> tuple[Inputs, np.ndarray]:
    """All images of the table; a label column is not needed."""
    records = _records(config, (_path_column(config),))
    if not records:
        raise DataError(f"{config.source}: no rows below the header")
    x, kept = _loaded(records, config, shape)
    return x, _ids(records, config)[kept]


def _rows(records: list[_Record], config: DataConfig, shape: Shape | None) -> Rows:
    names = np.array([row[_label_column(config)] for row in records], dtype=np.str_)
    x, kept = _loaded(records, config, shape)
    return Rows(x, names[kept], _ids(records, config)[kept])


def _loaded(records: list[_Record], config: DataConfig, shape: Shape | None) -> tuple[Inputs, np.ndarray]:
    return load_images(Files([_path(row, config) for row in records]), config, shape, config.source)


def _path_column(config: DataConfig) -> str:
    return config.path_column or "path"


def _label_column(config: DataConfig) -> str:
    return config.label_column or "label"


def _path(row: _Record, config: DataConfig) -> Path:
    return Path(config.source).parent / row[_path_column(config)]


def _ids(records: list[_Record], config: DataConfig) -> np.ndarray:
    column = "id" if records and "id" in records[0].cells else _path_column(config)
    return np.array([row[column] for row in records], dtype=np.str_)


def _records(config: DataConfig, needed: tuple[str, ...]) -> list[_Record]:
    """The lines below the header, with the needed cells filled and the images in place."""
    header, lines = _lines(config.source)
    for column in needed:
        if column not in header:
            raise DataError(
                f"{config.source}: there is no column {column!r}; there are {', '.join(header)} "
                "(data.path_column and data.label_column name the two)"
            )
    records = [_record(number, cells, header, config.source) for number, cells in lines]
    for column in sorted({_path_column(config), "id"} & set(header)):
        _refuse(records, config, _blank(column))
    _refuse(records, config, lambda row: None if _path(row, config).is_file() else f"no image {_path(row, config)}")
    return records


def _lines(source: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header and the numbered lines; empty lines count and are passed over."""
    try:
        # utf-8-sig, because spreadsheets put a byte order mark before the first column's name.
        with Path(source).open(encoding="utf-8-sig", newline="") as file:
            lines = [(number, cells) for number, cells in enumerate(csv.reader(file, strict=True), 1) if any(cells)]
    except FileNotFoundError:
        raise DataError(f"{source}: no such file") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{source}: not readable as a CSV table in UTF-8 ({' '.join(str(error).split())})") from None
    if not lines:
        raise DataError(f"{source}: an empty table; expected a header with a path and a label column")
    header = [cell.strip() for cell in lines[0][1]]
    for column in header:
        if header.count(column) > 1:
            raise DataError(f"{source}: {header.count(column)} columns are called {column!r}; names must differ")
    return header, lines[1:]


def _record(number: int, cells: list[str], header: list[str], source: str) -> _Record:
    if len(cells) > len(header):
        counts = f"{len(cells)} cells for {len(header)} columns"
        raise DataError(f"{source}, row {number}: {counts}; a cell with a comma needs quotes")
    filled = cells + [""] * (len(header) - len(cells))
    return _Record(number, {column: cell.strip() for column, cell in zip(header, filled, strict=True)})


def _blank(column: str) -> _Complaint:
    return lambda row: None if row[column] else f"{column} is blank"


def _unknown_split(row: _Record) -> str | None:
    return (
        None if row["split"].lower() in _SPLITS else f"split is {row['split']!r}; allowed are {' and '.join(_SPLITS)}"
    )


def _refuse(records: list[_Record], config: DataConfig, complaint: _Complaint) -> None:
    """An error for the first bad row that says how many more there are."""
    bad = [row for row in records if complaint(row)]
    if bad:
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        raise DataError(f"{config.source}, row {bad[0].number}: {complaint(bad[0])}{more}")
