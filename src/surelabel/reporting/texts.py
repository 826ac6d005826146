"""The texts of suspects, with the words that speak for their given and their suggested class."""

from dataclasses import dataclass

import numpy as np

from surelabel.data.cells import Cells
from surelabel.reporting.reported_run import ReportedRun
from surelabel.training.predictor import TrainedModel
from surelabel.training.word_marks import Piece, can_mark, mark_words, shown


@dataclass(frozen=True)
class MarkedTexts:
    """The texts of some rows of the audit, in pieces."""

    pieces: dict[int, list[Piece]]
    has_marks: bool

    @property
    def legend(self) -> str | None:
        """Explain the marks."""
        if not self.has_marks:
            return None
        return (
            "Marked words speak for the given label (blue, dotted) or for the suggested one (purple): without "
            "the word, the network believes less in that label."
        )


def mark_texts(run: ReportedRun, rows: list[int]) -> MarkedTexts | None:
    """Return the texts of rows; None if the inputs are no text, or could not be read again."""
    train = run.splits.get("train")
    if train is None or not isinstance(train.x, Cells) or not train.x.is_text:
        return None
    texts = _read(run, rows)
    # A method from outside is not imported only to mark words.
    has_model = run.run_dir.has_model and not run.config.method.is_foreign
    model = TrainedModel.read(run.run_dir) if has_model and texts else None
    if model is None or not can_mark(model):
        return MarkedTexts({row: [Piece(shown(text))] for row, text in texts.items()}, has_marks=False)
    given, suggested = (run.class_numbers(name)[list(texts)].tolist() for name in ("given", "suggested"))
    pieces = mark_words(model, list(texts.values()), given, suggested)
    return MarkedTexts(dict(zip(texts, pieces, strict=True)), has_marks=True)


def _read(run: ReportedRun, rows: list[int]) -> dict[int, str]:
    """Return the text of each row."""
    found: dict[int, str] = {}
    for split, positions in run.locate(rows).items():
        cells = run.splits[split].x
        assert isinstance(cells, Cells)
        found |= zip(positions, cells.texts(np.array(list(positions.values()))), strict=True)
    return found
