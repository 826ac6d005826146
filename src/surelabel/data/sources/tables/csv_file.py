"""CSV files to tables of text: UTF-8, with a header, and rows numbered as in a spreadsheet, where the header is row 1.

Commas part the cells, or tabs or semicolons where the header has none. Lines without anything in them are passed over.
"""

import csv
import io
import re
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from surelabel.data.sources.tables.table import Table
from surelabel.errors import DataError

SUFFIXES = (".csv", ".tsv")

_DELIMITERS = ",\t;"


class _Text(NamedTuple):
    """A file's bytes and what parts its cells."""

    source: str
    content: bytes
    delimiter: str

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Numbered lines that have anything in them; a cell may hold line breaks."""
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
    text = _opened(source)
    header = _header(text)
    table = _quick_table(text, header)
    if table is None:
        table = _careful_table(text, header, allow_short_rows)
    columns = [column.strip() for column in header]
    return Table(table.rename_columns(columns), source, Path(source).parent, partial(_row, text), is_typed=False)


def _opened(source: str) -> _Text:
    try:
        content = Path(source).read_bytes()
    except FileNotFoundError:
        raise DataError(f"{source}: no such file") from None
    except OSError as error:
        raise DataError(f"{source}: not readable ({error.strerror})") from None
    first = content.lstrip().partition(b"\n")[0].decode("utf-8", errors="replace")
    return _Text(source, content, next((sign for sign in _DELIMITERS if sign in first), ","))


def _header(text: _Text) -> list[str]:
    header = next((cells for _, cells in text.records()), None)
    if header is None:
        raise DataError(f"{text.source}: an empty table; expected a header with the names of the columns")
    names = [cell.strip() for cell in header]
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"{text.source}: {names.count(name)} columns are called {name!r}; names must differ")
    return header


def _quick_table(text: _Text, header: list[str]) -> pa.Table | None:
    """By arrow; None where a line has too few or too many cells, or where its laxer ways with quotes could matter."""
    has_quotes = b'"' in text.content
    if has_quotes and not _has_plain_quotes(text):
        return None
    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(text.content),
            parse_options=pyarrow.csv.ParseOptions(delimiter=text.delimiter, newlines_in_values=has_quotes),
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


def _has_plain_quotes(text: _Text) -> bool:
    """Whether all quotes come in pairs and at the ends of cells, or doubled."""
    inside = rb'[^"\r\n%b]' % text.delimiter.encode()
    # Begun with the quote, for which the rest of the file is skipped quickly.
    lone = b'"(?<=%b")%b' % (inside, inside)
    return text.content.count(b'"') % 2 == 0 and re.search(lone, text.content) is None


def _has_line_breaks(table: pa.Table) -> bool:
    """A cell with a line break may be meant, or may be two rows and a stray quote."""
    return any(pc.any(pc.match_substring(column, "\n")).as_py() for column in table.columns)


def _careful_table(text: _Text, header: list[str], allow_short_rows: bool) -> pa.Table:
    rows = []
    lines = text.records()
    next(lines)
    for number, cells in lines:
        if len(cells) < len(header) and not allow_short_rows:
            raise DataError(f"{text.source}, row {number}: {len(cells)} cells; expected {len(header)} as in the header")
        if len(cells) > len(header):
            counts = f"{len(cells)} cells for {len(header)} columns"
            raise DataError(f"{text.source}, row {number}: {counts}; a cell with a {_sign(text)} needs quotes")
        rows.append(cells + [""] * (len(header) - len(cells)))
    columns = zip(*rows, strict=True) if rows else [()] * len(header)
    return pa.table([pa.array(column, pa.string()) for column in columns], names=header)


def _sign(text: _Text) -> str:
    return {",": "comma", ";": "semicolon", "\t": "tab"}[text.delimiter]


def _row(text: _Text, position: int) -> str:
    """What a person calls a row; asked for only when something is wrong."""
    number, _ = next(islice(text.records(), position + 1, None))
    return f"{text.source}, row {number}"
