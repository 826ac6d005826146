"""`surelabel figures`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surelabel import console
from surelabel.cli.options import Json, app
from surelabel.errors import RunError, SurelabelError

if TYPE_CHECKING:
    from surelabel.paper.figures import NumberedFigure
    from surelabel.paper.figures.found import Found

EVERY = "all"


@app.command()
def figures(
    name: Annotated[str, typer.Argument(metavar="NUMBER|NAME|all", help="A figure of the paper, 1 to 13.")],
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN]...", help="Run directories, or folders of them.")
    ] = None,
    folders: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="FOLDER", help="The same; may be repeated. Default: reproduction"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to write. Default: figures in the first folder")
    ] = None,
    json: Json = False,
) -> None:
    """Draw the paper's figures from run directories, as png, svg and text."""
    from surelabel import api
    from surelabel.data.input_files import refuse_overwriting_inputs
    from surelabel.paper.figures import FIGURES, figure_named
    from surelabel.paper.figures.found import found_in

    chosen = list(FIGURES) if name == EVERY else [figure_named(name)]
    places = [*(folders or []), *(runs or [])] or [Path("reproduction")]
    there = found_in(places, api.reopen_data)
    refuse_overwriting_inputs(out, [one.run for one in there])
    out = out or places[0] / "figures"
    files = {figure.number: _drawn(figure, there, out, name == EVERY) for figure in chosen}
    files = {number: written for number, written in files.items() if written}
    if not files:
        raise RunError(
            f"{', '.join(map(str, places))}: no figure can be drawn from the runs there; make some with: surelabel reproduce NAME"
        )
    if json:
        console.say_json({"figures": files})
        return
    for number, written in files.items():
        console.say(f"Figure {number}: {', '.join(map(str, written))}")


def _drawn(figure: "NumberedFigure", there: "list[Found]", out: Path, may_lack: bool) -> list[Path]:
    """The files of a figure; none, and a note, where it cannot be drawn and others may."""
    from surelabel.paper.figures import write_figure

    try:
        return write_figure(figure, there, out)
    except SurelabelError as error:
        if not may_lack:
            raise
        console.tell(f"note: {error}")
        return []
