"""The typer application: errors in one line, and what every command shares."""

import logging
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import typer.core

import surelabel
from surelabel import screen
from surelabel.errors import SurelabelError


class OneLineErrors(typer.core.TyperGroup):
    """Commands whose errors, where the user can mend them, are one line on stderr and exit code 2."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and exit."""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except SurelabelError as error:
            code = _failed(str(error))
        except OSError as error:
            code = _failed(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except typer.Abort:
            code = 130
        except Exception as error:
            # A usage error: its class lives in click or in typer's own copy of it, by version.
            if not hasattr(error, "format_message"):
                raise
            command = getattr(getattr(error, "ctx", None), "command_path", "surelabel")
            code = _failed(f"{error.format_message().rstrip('.')}; see: {command} --help")
        sys.exit(code if isinstance(code, int) else 0)


def _failed(text: str) -> int:
    screen.tell(f"error: {' '.join(text.split())}")
    return 2


app = typer.Typer(
    cls=OneLineErrors,
    help="Train on wrong labels, find them, correct them.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value, last on stdout.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.", show_default=False)]
Trust = Annotated[bool, typer.Option("--trust", help="Import a method that is not part of surelabel.")]
Device = Annotated[str | None, typer.Option(metavar="NAME", help="auto, cpu, cuda or mps.")]
Devices = Annotated[int | None, typer.Option(metavar="N", help="Processes that train together.")]
Threads = Annotated[int | None, typer.Option(metavar="N", help="CPU threads of each process.")]


@app.callback(invoke_without_command=True)
def _begin(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    if version or context.invoked_subcommand is None:
        screen.say(f"surelabel {surelabel.__version__}" if version else context.get_help())
        raise typer.Exit
    log = logging.getLogger("surelabel")
    log.handlers, log.propagate = [screen.Notes()], False
    log.setLevel(logging.INFO)
