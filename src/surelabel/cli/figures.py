"""`surelabel figures`: draw the paper's figures."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surelabel import console
from surelabel.cli.options import Json, app
from surelabel.errors import RunError, SurelabelError

if TYPE_CHECKING:
    from surelabel.paper.figures import NumberedFigure
    from surelabel.paper.figures.panel_runs import FoundRun
    from surelabel.plotting.drawing import Drawing

ALL = "all"
CHOICES = (
    "1 (memorisation), 2 (density), 3 (gradients), 4 (density-by-beta), 5 (confidence-40), 6 (correction-40), "
    "7 (correction), 8 (confidence-60), 9 (confidence-80), 10 (sensitivity-cifar10), 11 (sensitivity-cifar100), "
    "12 (corrected-webvision), 13 (corrected-clothing1m)"
)
"""The figures, in words because their modules load PyTorch."""


@app.command()
def figures(
    name: Annotated[str, typer.Argument(metavar="NUMBER|NAME|all", help=f"A figure of the paper: {CHOICES}; or all.")],
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="RUN", help="Run directories, or folders of them.")
    ] = None,
    folders: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="FOLDER", help="Folder of runs. May be repeated. Default: reproduction"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder to write to. Default: figures in the first folder")
    ] = None,
    json: Json = False,
) -> None:
    """Draw the paper's figures from run directories, as png, svg and text.

    Runs on other data than the paper's give figures that are named after their data.
    """
    from surelabel import api
    from surelabel.data.protected_files import refuse_overwriting_inputs
    from surelabel.files import refuse_link
    from surelabel.paper.figures import figure_files, find_figure, write_figure
    from surelabel.paper.figures.panel_runs import find_runs

    chosen = None if name == ALL else find_figure(name)
    places = [*(folders or []), *(runs or [])] or [Path("reproduction")]
    found = find_runs(places, api.reopen_data)
    refuse_overwriting_inputs([] if out is None else [out], [one.run for one in found])
    if out is None:
        out = places[0] / "figures"
        refuse_link(out)  # a run from elsewhere may hold one
    wanted = _list_all(found) if chosen is None else [(chosen, found)]
    tried = {figure.number or figure.name: _draw(figure, shown, name == ALL) for figure, shown in wanted}
    drawn = {key: result for key, result in tried.items() if result is not None}
    files = {key: figure_files(drawing, out) for key, (drawing, _) in drawn.items()}
    refuse_overwriting_inputs(chain(*files.values()), [one.run for one in found])
    if not files:
        raise RunError(
            f"{', '.join(map(str, places))}: no figure can be drawn from the runs there; "
            "make some with: surelabel reproduce NAME"
        )
    for drawing, shown in drawn.values():
        write_figure(drawing, shown, out)
    if json:
        console.say_json({"figures": files})
        return
    for key, written in files.items():
        console.say(f"{f'Figure {key}' if isinstance(key, int) else key}: {', '.join(map(str, written))}")


def _list_all(found: "list[FoundRun]") -> "list[tuple[NumberedFigure, Sequence[FoundRun]]]":
    """Return the paper's figures with the runs on its data, and figures of all other runs."""
    from surelabel.paper.figures import FIGURES, list_own_figures

    on_its_data = [one for one in found if one.data is not None]
    return [(figure, on_its_data) for figure in FIGURES if on_its_data] + list_own_figures(found)


def _draw(
    figure: "NumberedFigure", found: "Sequence[FoundRun]", may_fail: bool
) -> "tuple[Drawing, Sequence[FoundRun]] | None":
    """Return a figure and the runs it shows; a failure is only a note if others may succeed."""
    try:
        return figure.draw_from(found)
    except SurelabelError as error:
        if not may_fail:
            raise
        console.tell(f"note: {error}")
        return None
