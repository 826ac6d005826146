"""What the command line shows: text, tables, progress, or one JSON value. Further processes of a run show nothing."""

import contextlib
import itertools
import json
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from surelabel.processes import is_further_process
from surelabel.progress import Bars, Plain, Silent

PIPE_WIDTH = 160
"""Columns of a table that goes into a file or a pipe, where nobody's window is too narrow."""
BLOCKS = "▁▂▃▄▅▆▇█"


def say(text: str = "") -> None:
    """A line on stdout."""
    if not is_further_process():
        typer.echo(text)


def say_prose(text: str) -> None:
    """Sentences on stdout: broken between words on a terminal, left whole elsewhere."""
    terminal = Console(highlight=False, markup=False)
    if terminal.is_terminal and not is_further_process():
        terminal.print(text)
    else:
        say(text)


def tell(text: str) -> None:
    """A line on stderr."""
    if not is_further_process():
        typer.echo(text, err=True)


def say_json(content: Any) -> None:
    """One JSON value, on one line of stdout, so that `tail -n 1` finds it; what is not a number becomes null."""
    say(json.dumps(plain(content), ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """`value` with NumPy's scalars as Python's, NaN as None and paths as text."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)


def is_terminal() -> bool:
    """Whether somebody looks at stdout as it is written, and it can draw."""
    screen = Console()
    return screen.is_interactive and screen.encoding.startswith("utf")


def say_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], wrap: bool = False) -> None:
    """A table on stdout: numbers to the right; cells that are too wide are cut, or wrapped where that is asked for."""
    if is_further_process():
        return
    cells = [[plain(value) for value in row] for row in rows]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for position, column in enumerate(columns):
        values = [row[position] for row in cells]
        is_number = bool(values) and all(isinstance(value, int | float | None) for value in values)
        table.add_column(
            column,
            justify="right" if is_number else "left",
            overflow="fold" if wrap else "ellipsis",
            no_wrap=not wrap or position == 0,
            min_width=len(column),
        )
    for row in cells:
        # As Text, because a class may be called [red].
        table.add_row(*(Text(cell(value)) for value in row))
    terminal = Console(highlight=False)
    if terminal.is_terminal:
        terminal.print(table)
        return
    page = Console(highlight=False, width=PIPE_WIDTH)
    with page.capture() as text:
        page.print(table)
    say("\n".join(line.rstrip() for line in text.get().splitlines()))


def cell(value: Any) -> str:
    """A plain value as a table shows it."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    # Names of files come from elsewhere and must not move the cursor.
    return "".join(letter if letter.isprintable() else "?" for letter in str(value))


def sparkline(shares: Sequence[float], width: int = 40) -> str:
    """Values in [0, 1] as a row of blocks, the mean of neighbours where there are more than `width`."""
    count = min(width, len(shares))
    bounds = [round(part * len(shares) / count) for part in range(count + 1)] if count else [0]
    parts = [shares[begin:end] for begin, end in itertools.pairwise(bounds)]
    means = [sum(part) / len(part) for part in parts]
    return "".join(BLOCKS[min(len(BLOCKS) - 1, int(mean * len(BLOCKS)))] for mean in means)


@contextlib.contextmanager
def progress(title: str = "") -> Iterator[Bars | Plain | Silent]:
    """Bars on a terminal, lines elsewhere, nothing in further processes; on stderr, so that stdout can be piped."""
    terminal = Console(stderr=True)
    if is_further_process():
        yield Silent()
    elif terminal.is_interactive and not terminal.is_dumb_terminal:
        with Bars(terminal, title) as bars:
            yield bars
    else:
        yield Plain(tell, title=title)


class Notes(logging.Handler):
    """Passes on what the library logs, as a note on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        tell(f"note: {record.getMessage()}")
