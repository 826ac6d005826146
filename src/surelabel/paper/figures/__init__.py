"""The paper's figures by number: which runs each needs, and how to draw it from them."""

from surelabel.paper.figures.catalogue import FIGURES, NumberedFigure, figure_files, find_figure, write_figure
from surelabel.paper.figures.own_figures import list_own_figures

__all__ = ["FIGURES", "NumberedFigure", "figure_files", "find_figure", "list_own_figures", "write_figure"]
