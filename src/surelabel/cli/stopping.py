"""What is said when a run is asked to stop."""

import contextlib
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import typer

from surelabel import screen
from surelabel.processes import is_further_process


@contextlib.contextmanager
def saying_how_to_resume(run: Path | None) -> Iterator[None]:
    """Turn a run that was asked to stop into a line and the exit code that shells expect of the signal."""
    from surelabel.engine.loop import Interrupted

    try:
        yield
    except Interrupted as error:
        screen.tell(
            "stopped"
            if run is None
            else f"stopped; the state is saved. Go on with: surelabel resume {shlex.quote(str(run))}"
        )
        # The launcher kills everybody when a further process fails: only the first one tells the shell.
        raise typer.Exit(
            0 if is_further_process() else 128 + (error.args[0] if error.args else signal.SIGINT)
        ) from None
