"""Read CSV files as tables of text.

Files are UTF-8 and have a header. Cells are separated by commas; by tabs or semicolons if the
header has no comma. Empty lines are skipped. Errors number rows as a spreadsheet does: the header
is row 1.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from surelabel.data.sources.checks import fitting_in_memory
from surelabel.data.sources.tables.table import Table
from surelabel.errors import DataError
from surelabel.files import refuse_special_file

SUFFIXES = (".csv", ".tsv")

_DELIMITERS = {",": "comma", "\t": "tab", ";": "semicolon"}


class _Content(NamedTuple):
    """The bytes of a file and the sign between its cells."""

    source: str
    content: bytes
    delimiter: str

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield each row that is not empty, with its number; a cell may hold line breaks."""
        # utf-8-sig, because spreadsheets put a byte order mark before the first column's name.
        file = io.TextIOWrapper(io.BytesIO(self.content), encoding="utf-8-sig", newline="")
        reader = csv.reader(file, strict=True, delimiter=self.delimiter)
        try:
            yield from ((number, cells) for number, cells in enumerate(reader, 1) if any(cells))
        except (UnicodeDecodeError, csv.Error) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{self.source}: not readable as a CSV table in UTF-8 ({reason})") from None


def read_csv(source: str, allow_short_rows: bool = True) -> Table:
    """Read all columns as text; the cells that a short row lacks are blank."""
    with fitting_in_memory(source):
        file = _open(source)
        header = _read_header(file)
        table = _read_with_arrow(file, header)
        if table is None:
            table = _read_row_by_row(file, header, allow_short_rows)
    columns = [column.strip() for column in header]
    return Table(table.rename_columns(columns), source, Path(source).parent, partial(_name_row, file), is_typed=False)


def _open(source: str) -> _Content:
    refuse_special_file(Path(source))
    try:
        content = Path(source).read_bytes()
    except FileNotFoundError:
        raise DataError(f"{source}: no such file") from None
    except OSError as error:
        raise DataError(f"{source}: not readable ({error.strerror})") from None
    first = content.lstrip().partition(b"\n")[0].decode("utf-8", errors="replace")
    return _Content(source, content, next((sign for sign in _DELIMITERS if sign in first), ","))


def _read_header(file: _Content) -> list[str]:
    header = next((cells for _, cells in file.rows()), None)
    if header is None:
        raise DataError(f"{file.source}: an empty table; expected a header with the names of the columns")
    names = [cell.strip() for cell in header]
    for name, count in Counter(names).items():
        if count > 1:
            raise DataError(f"{file.source}: {count} columns are called {name!r}; names must differ")
    return header


def _read_with_arrow(file: _Content, header: list[str]) -> pa.Table | None:
    """Read the fast way; None if rows differ in length, or if arrow's lax quoting could matter."""
    has_quotes = b'"' in file.content
    if has_quotes and not _has_regular_quotes(file):
        return None
    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(file.content),
            parse_options=pyarrow.csv.ParseOptions(delimiter=file.delimiter, newlines_in_values=has_quotes),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:
        return None
    if table.column_names != header or (has_quotes and _has_line_breaks(table)):
        return None
    is_empty = _empty_rows(table)
    return table.filter(pa.array(~is_empty)) if is_empty.any() else table


def _empty_rows(table: pa.Table) -> np.ndarray:
    is_empty = np.ones(table.num_rows, dtype=bool)
    for column in table.columns:
        is_empty &= pc.equal(column, "").to_numpy()
        if not is_empty.any():
            break
    return is_empty


def _has_regular_quotes(file: _Content) -> bool:
    """Return whether all quotes come in pairs, and at the ends of cells or doubled."""
    inside = rb'[^"\r\n%b]' % file.delimiter.encode()
    # The pattern begins with the quote, so that the search skips quickly to the next one.
    lone = b'"(?<=%b")%b' % (inside, inside)
    return file.content.count(b'"') % 2 == 0 and re.search(lone, file.content) is None


def _has_line_breaks(table: pa.Table) -> bool:
    """Return whether a cell has a line break, which may be intended, or the end of a row."""
    return any(pc.any(pc.match_substring(column, "\n")).as_py() for column in table.columns)


def _read_row_by_row(file: _Content, header: list[str], allow_short_rows: bool) -> pa.Table:
    rows = []
    for number, cells in islice(file.rows(), 1, None):
        where, counts = f"{file.source}, row {number}", f"{len(cells)} cells for {len(header)} columns"
        if len(cells) > len(header):
            raise DataError(f"{where}: {counts}; a cell with a {_DELIMITERS[file.delimiter]} needs quotes")
        if len(cells) < len(header) and not allow_short_rows:
            raise DataError(f"{where}: {counts}; every row must be complete")
        rows.append(cells + [""] * (len(header) - len(cells)))
    columns = zip(*rows, strict=True) if rows else [()] * len(header)
    return pa.table([pa.array(column, pa.string()) for column in columns], names=header)


def _name_row(file: _Content, position: int) -> str:
    """Return what to call a row; the file is read again, because this is only needed for errors."""
    number, _ = next(islice(file.rows(), position + 1, None))
    return f"{file.source}, row {number}"
