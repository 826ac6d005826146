"""Print text, tables, progress or JSON; of a run's processes, only rank 0 prints anything.

Typer and Rich are imported on first use, so that importing the library stays cheap.
"""

import contextlib
import copy
import errno
import io
import itertools
import json
import logging
import math
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from surelabel.launcher import has_nonzero_rank

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from rich.console import Console
    from rich.table import Table

PIPE_WIDTH = 160
"""Width of a table written to a file or a pipe."""
GAP = "  "
"""Between columns of a table, and before all but the first line of a record."""
SHORTEST = 6
"""Characters that a column of a table has at least, to be readable."""
BLOCKS = "▁▂▃▄▅▆▇█"


def _console(**options: Any) -> "Console":
    from rich.console import Console

    return Console(**options)


class _Output(io.FileIO):
    """Standard output or error; drops what a reader who left would miss, and raises others once."""

    is_lost = False

    def write(self, data: "ReadableBuffer") -> int:
        """Write, or drop what cannot be written any more."""
        try:
            if not self.is_lost:
                return super().write(data)
        except OSError as error:
            self.is_lost = True
            if error.errno != errno.EPIPE:
                name = "standard output" if self.fileno() == 1 else "standard error"
                raise OSError(error.errno, error.strerror, name) from error
        return memoryview(data).nbytes


def protect_outputs() -> None:
    """Let commands end as they would with a reader, whatever stdout and stderr are."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed; the next file that is opened would get its number, and what is printed
            os.open(os.devnull, os.O_RDWR)
    for number, name in ((1, "stdout"), (2, "stderr")):
        before = getattr(sys, name)
        options = {"encoding": before.encoding, "errors": before.errors} if before else {"encoding": "utf-8"}
        raw = _Output(number, "w", closefd=False)
        is_live = number == 2 or raw.isatty()
        setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(raw), line_buffering=is_live, **options))


def say(text: str = "") -> None:
    """Print a line on stdout."""
    if not has_nonzero_rank():
        import typer

        typer.echo(printable(text))


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that control a terminal or the direction of text, and bytes that are not UTF-8."""


def printable(text: str, keep: str = "\n\t") -> str:
    r"""Return a text that is safe to show: names in data must not control the terminal.

    Such characters become \u001b or \udcff, as in JSON, except those to keep.
    """
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else f"\\u{ord(found[0]):04x}", text)


def say_prose(text: str) -> None:
    """Print sentences on stdout, wrapped at words on a terminal and left whole elsewhere.

    Line breaks at both ends are the caller's; those inside come with names, and are shown.
    """
    sentences = text.strip("\n")
    text = text.replace(sentences, printable(sentences, keep=""))
    terminal = _console(highlight=False, markup=False)
    if terminal.is_terminal and not has_nonzero_rank():
        terminal.print(text)
    else:
        say(text)


def tell(text: str) -> None:
    """Print a line on stderr; nothing is said, and nothing stops, if its terminal is gone."""
    if not has_nonzero_rank():
        import typer

        with contextlib.suppress(OSError):
            typer.echo(printable(text), err=True)


def say_json(content: Any) -> None:
    """Print a JSON value on one line of stdout, where `tail -n 1` finds it; NaN becomes null."""
    say(json.dumps(plain(content), ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """Return `value` as JSON can hold it: NumPy scalars as Python's, NaN as None, paths as text."""
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
    """Return whether stdout is an interactive terminal that can show block characters."""
    terminal = _console()
    return terminal.is_interactive and terminal.encoding.startswith("utf")


def say_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], wrap: bool = False) -> None:
    """Print a table on stdout, numbers aligned right.

    A terminal that is too narrow shows it wrapped, or as one line per cell; elsewhere cells that
    are too wide are cut, or wrapped with `wrap`.
    """
    if has_nonzero_rank():
        return
    cells = [[plain(value) for value in row] for row in rows]
    terminal = _console(highlight=False)
    if not terminal.is_terminal:
        page = _console(highlight=False, width=PIPE_WIDTH)
        with page.capture() as text:
            page.print(_make_table(columns, cells, wrap))
        say("\n".join(line.rstrip() for line in text.get().splitlines()))
    elif _least_width(columns, cells) > terminal.width:
        _print_records(terminal, columns, cells)
    else:
        terminal.print(_make_table(columns, cells, wrap=True))


def _least_width(columns: Sequence[str], cells: Sequence[Sequence[Any]]) -> int:
    """Return the least width of a table: its first column whole, the others as their names."""
    first = max((len(_cell_text(row[0])) for row in cells), default=0)
    others = sum(max(len(column), SHORTEST) + len(GAP) for column in columns[1:])
    return max(len(columns[0]), first) + others


def _print_records(terminal: "Console", columns: Sequence[str], cells: Sequence[Sequence[Any]]) -> None:
    for row in cells:
        for position, (column, value) in enumerate(zip(columns, row, strict=True)):
            text = f"{_cell_text(column)}: {_cell_text(value)}" if column else _cell_text(value)
            terminal.print(text if position == 0 else f"{GAP}{text}", markup=False)


def _make_table(columns: Sequence[str], cells: Sequence[Sequence[Any]], wrap: bool) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), header_style="bold")
    for position, column in enumerate(columns):
        values = [row[position] for row in cells]
        is_number = bool(values) and all(isinstance(value, int | float | None) for value in values)
        table.add_column(
            Text(_cell_text(column)),
            justify="right" if is_number else "left",
            overflow="fold" if wrap else "ellipsis",
            no_wrap=not wrap or position == 0,
            min_width=len(column),
        )
    for row in cells:
        # Text is not parsed as markup: a class may be called [red].
        table.add_row(*(Text(_cell_text(value)) for value in row))
    return table


def _cell_text(value: Any) -> str:
    """Format a value for a table."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    return printable(str(value), keep="")


def sparkline(fractions: Sequence[float], width: int = 40) -> str:
    """Draw values in [0, 1] as a row of at most `width` blocks, averaging neighbours."""
    count = min(width, len(fractions))
    bounds = [round(part * len(fractions) / count) for part in range(count + 1)] if count else [0]
    parts = [fractions[begin:end] for begin, end in itertools.pairwise(bounds)]
    means = [sum(part) / len(part) for part in parts]
    return "".join(BLOCKS[min(len(BLOCKS) - 1, int(mean * len(BLOCKS)))] for mean in means)


class Silent:
    """Progress that shows nothing."""

    title = ""

    def begin(self, num_epochs: int, done: int) -> None:
        """Start at epoch `done` of `num_epochs`."""

    def step(self, epoch: int, batch: int, num_batches: int, loss: float) -> None:
        """Report a batch."""

    def epoch(self, row: dict[str, Any]) -> None:
        """Report an epoch by its row of metrics."""

    def warn(self, text: str) -> None:
        """Report a note for the user."""

    def part(self, title: str) -> Self:
        """Return the progress of a part of the run, which has epochs of its own."""
        part = copy.copy(self)
        part.title = f"{self.title}, {title}" if self.title else title
        return part


def accuracy_text(row: dict[str, Any]) -> str:
    """Format an epoch's accuracy on the first test set, or else on the given labels.

    Predictions for training rows that differ from those of the epoch before follow in percent.
    """
    first = next(iter((row.get("tests") or {}).values()), None)
    if first is not None:
        text = f"test accuracy {first['top1']:.3f}"
    else:
        text = f"given labels predicted {row['given_accuracy']:.3f}" if "given_accuracy" in row else "accuracy -"
    changed = row.get("changed_predictions")
    return text if changed is None else f"{text}  changed predictions {100 * changed:.1f} %"


class ProgressLines(Silent):
    """Progress as a line every few seconds, for logs and pipes."""

    def __init__(self, write: Any, every: float = 5.0, title: str = "") -> None:
        self.write, self.every, self.title = write, every, title
        self.num_epochs, self.began, self.first, self.shown = 0, 0.0, 0, 0.0
        self.warned: set[str] = set()

    def begin(self, num_epochs: int, done: int) -> None:
        """Start the clock."""
        self.num_epochs, self.first, self.began, self.shown = num_epochs, done, time.monotonic(), time.monotonic()

    def epoch(self, row: dict[str, Any]) -> None:
        """Write a line if the last one is old enough or this is the last epoch."""
        now, done = time.monotonic(), row["epoch"]
        if now - self.shown < self.every and done < self.num_epochs:
            return
        self.shown = now
        left = (now - self.began) / max(done - self.first, 1) * max(self.num_epochs - done, 0)
        title = f"{self.title}  " if self.title else ""
        self.write(
            f"{title}epoch {done}/{self.num_epochs}  loss {row['loss']:.4f}  {accuracy_text(row)}  "
            f"{row['samples_per_second']:,.0f} samples/s  {left:.0f} s left"
        )

    def warn(self, text: str) -> None:
        """Write a note, once even if several runs report it."""
        if text not in self.warned:
            self.warned.add(text)
            self.write(f"note: {text}")


class BarDisplay:
    """Progress bars on a terminal: description, bar, count and `details`, with notes above them."""

    def __init__(self, terminal: "Console", details: str, bar_width: int = 40, shows_time_left: bool = False) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.bar = Progress(
            # Names come from elsewhere and may contain brackets.
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width),
            MofNCompleteColumn(),
            TextColumn(details, markup=False),
            *([TimeRemainingColumn()] if shows_time_left else []),
            console=terminal,
        )
        self.printed: set[str] = set()

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def print_once(self, text: str) -> None:
        """Print a line above the bars, unless it was printed before."""
        if text not in self.printed:
            self.printed.add(text)
            self.bar.console.print(printable(text), highlight=False, markup=False)


class ProgressBar(BarDisplay, Silent):
    """A progress bar over epochs and batches."""

    def __init__(self, terminal: "Console", title: str = "training") -> None:
        details = "loss {task.fields[loss]:.3f}  {task.fields[accuracy]}  {task.fields[speed]}/s"
        super().__init__(terminal, details, shows_time_left=True)
        self.title = title
        self.task: Any = None

    def begin(self, num_epochs: int, done: int) -> None:
        """Add a bar for this many epochs."""
        self.task = self.bar.add_task(
            printable(self.title), total=num_epochs, completed=done, loss=float("nan"), accuracy="accuracy -", speed="-"
        )

    def step(self, epoch: int, batch: int, num_batches: int, loss: float) -> None:
        """Move the bar within an epoch."""
        if self.task is not None and batch % max(1, num_batches // 20) == 0:
            self.bar.update(self.task, completed=epoch - 1 + batch / num_batches, loss=loss)

    def epoch(self, row: dict[str, Any]) -> None:
        """Move the bar to the end of an epoch and show its metrics."""
        if self.task is not None:
            self.bar.update(
                self.task,
                completed=row["epoch"],
                loss=row["loss"],
                accuracy=accuracy_text(row),
                speed=f"{row['samples_per_second']:,.0f}",
            )

    def warn(self, text: str) -> None:
        """Print a note above the bar, once, however many runs are shown."""
        self.print_once(f"note: {text}")


def bar_terminal() -> "Console | None":
    """Return the terminal on stderr, or None if bars cannot be drawn there."""
    terminal = _console(stderr=True)
    return terminal if terminal.is_interactive and not terminal.is_dumb_terminal else None


@contextlib.contextmanager
def progress(title: str = "") -> Iterator[ProgressBar | ProgressLines | Silent]:
    """Yield a bar on a terminal, lines elsewhere, nothing on non-zero ranks; all use stderr."""
    if has_nonzero_rank():
        yield Silent()
    elif (terminal := bar_terminal()) is not None:
        with ProgressBar(terminal, title) as bars:
            yield bars
    else:
        yield ProgressLines(tell, title=title)


class NoteHandler(logging.Handler):
    """A log handler that prints the library's messages as notes on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message."""
        tell(f"note: {record.getMessage()}")
