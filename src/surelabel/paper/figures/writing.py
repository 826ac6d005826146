"""A figure as files: svg, png, and its text alternative with the runs it was drawn from."""

from collections.abc import Sequence
from pathlib import Path

from surelabel.files import replace_text
from surelabel.paper.figures.catalogue import NumberedFigure
from surelabel.paper.figures.panel_runs import Found
from surelabel.plotting.drawing import Drawing


def write_figure(figure: NumberedFigure, there: Sequence[Found], folder: Path) -> list[Path]:
    """Draws it and writes three files into `folder`, which is made."""
    drawing, runs = figure.drawing(there)
    files = drawing.write(folder)
    words = folder / f"{drawing.name}.md"
    replace_text(words, _words(drawing, runs))
    return [*files, words]


def _words(drawing: Drawing, runs: Sequence[Found]) -> str:
    lines = [f"- {one.run.path.name}: {one.config.train.epochs} epochs, seed {one.seed}" for one in runs]
    return "\n".join([f"# {drawing.title}", "", drawing.text, "", "Drawn from these runs:", "", *lines, ""])
