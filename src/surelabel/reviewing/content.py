"""What a row holds, for the page: its text with marked words, and all columns of its table."""

from functools import cached_property
from typing import Any

import numpy as np

from surelabel.data.cells import Cells
from surelabel.data.corpus import Examples
from surelabel.data.sources.tables.row_cells import RowCells, read_row_cells
from surelabel.runs.locate import config_from_here
from surelabel.runs.run_dir import RunDir
from surelabel.training.predictor import TrainedModel
from surelabel.training.word_marks import can_mark, mark_words


class RowContent:
    """Describes rows of a run; the table and the model are read when they are first needed."""

    def __init__(self, run_dir: RunDir) -> None:
        self.run_dir = run_dir

    def describe(self, rows: Examples, position: int, given: int, suggested: int | None) -> dict[str, Any]:
        """Return the text, its pieces as [text, side], and the columns as [name, cell].

        `side` is given, suggested or empty. Without text, `text` and `pieces` are None; without
        marks, or a suggestion to mark words for, the whole text is one piece.
        """
        text = text_of(rows, position)
        columns = [] if self._cells is None else self._cells.find(str(rows.ids[position]))
        return {"text": text, "pieces": self._pieces(text, given, suggested), "columns": list(map(list, columns))}

    @cached_property
    def _cells(self) -> RowCells | None:
        return read_row_cells(config_from_here(self.run_dir).data)

    @cached_property
    def _model(self) -> TrainedModel | None:
        """The model that marks words; a method from outside is not imported for that."""
        has_model = self.run_dir.has_model and not self.run_dir.config().method.is_foreign
        model = TrainedModel.read(self.run_dir) if has_model else None
        return model if model is not None and can_mark(model) else None

    def _pieces(self, text: str | None, given: int, suggested: int | None) -> list[list[str]] | None:
        if text is None:
            return None
        if suggested is None or self._model is None:
            return [[text, ""]]
        (pieces,) = mark_words(self._model, [text], [given], [suggested])
        return [list(piece) for piece in pieces]


def text_of(rows: Examples, position: int) -> str | None:
    """Return the text of a row; None if its input is not text."""
    return rows.x.texts(np.array([position]))[0] if isinstance(rows.x, Cells) and rows.x.is_text else None
