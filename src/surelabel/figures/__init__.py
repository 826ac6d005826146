"""The paper's figures by their numbers: which runs each needs, and how it is drawn from them."""

from surelabel.figures.numbered import FIGURES, NumberedFigure, figure_named
from surelabel.figures.writing import write_figure

__all__ = ["FIGURES", "NumberedFigure", "figure_named", "write_figure"]
