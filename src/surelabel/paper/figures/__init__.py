"""The paper's figures by number: which runs each needs, and how to draw it from them."""

from surelabel.paper.figures.catalogue import FIGURES, NumberedFigure, find_figure, write_figure

__all__ = ["FIGURES", "NumberedFigure", "find_figure", "write_figure"]
