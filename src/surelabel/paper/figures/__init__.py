"""The paper's figures by their numbers: which runs each needs, and how it is drawn from them."""

from surelabel.paper.figures.catalogue import FIGURES, NumberedFigure, figure_named
from surelabel.paper.figures.writing import write_figure

__all__ = ["FIGURES", "NumberedFigure", "figure_named", "write_figure"]
