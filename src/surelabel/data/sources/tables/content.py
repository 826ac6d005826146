"""Judge by its first cells what a column of a table holds: numbers, categories, text or dates."""

import re
from typing import Literal

import pyarrow as pa

from surelabel.data.sources.tables.features import is_missing, is_numeric, is_text
from surelabel.data.sources.tables.table import Table

Content = Literal["numbers", "categories", "text", "dates", "names", "nothing"]
"""names are short text that nearly every row has its own of; nothing is a constant, or no text."""

JUDGED_ROWS = 1000
MOST_CATEGORIES = 100
LEAST_WORDS = 4
"""Words of a cell of text, on average."""
LEAST_CHARACTERS = 10
"""Characters of a cell of text, on average, in a script that may have no spaces."""

_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})([T ].*)?")


def judge_content(table: Table, name: str) -> Content:
    """Return what a column holds, by the cells of the first rows."""
    kind = table[name].type
    if pa.types.is_temporal(kind):
        return "dates"
    if is_numeric(table, name):
        return "numbers"
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not is_text(values):
        return "nothing"
    return _judge_text([cell.strip() for cell in table[name].slice(0, JUDGED_ROWS).to_pylist() if not is_missing(cell)])


def _judge_text(cells: list[str]) -> Content:
    """Judge text by the cells that are not missing."""
    distinct = len(set(cells))
    if distinct < 2:
        return "nothing"
    if 2 * sum(_DATE.fullmatch(cell) is not None for cell in cells) >= len(cells):
        return "dates"
    if 2 * distinct > len(cells) and _reads_like_text(cells):
        return "text"
    most = min(MOST_CATEGORIES, max(len(cells) // 2, 2 if len(cells) > 2 else 0))
    return "categories" if distinct <= most else "names"


def _reads_like_text(cells: list[str]) -> bool:
    characters = sum(map(len, cells))
    if sum(len(cell.split()) for cell in cells) >= LEAST_WORDS * len(cells):
        return True
    foreign = sum(not character.isascii() for cell in cells for character in cell)
    return characters >= LEAST_CHARACTERS * len(cells) and 2 * foreign > characters
