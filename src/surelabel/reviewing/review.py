"""The requests of the page: the run, its suspects, a row's input, and writing decisions."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from surelabel.data.corpus import Examples
from surelabel.errors import DataError, RunError
from surelabel.reviewing.inputs import FeatureTable, encode_png
from surelabel.reviewing.suspects import Filter, Suspects
from surelabel.runs.decisions import Book, Conflict, Journal, Wish
from surelabel.runs.run_dir import RunDir

ROWS_PER_REQUEST = 60
NUM_RECENT = 200
"""Decisions that can still be undone after a reload."""
CSV_NAME = "decisions.csv"


class DecisionRequest(BaseModel):
    """One decision as the page sends it."""

    model_config = ConfigDict(extra="forbid")

    id: str
    action: Literal["keep", "relabel", "skip", "undo"]
    label: str | None = None
    seen: int = Field(ge=0)
    """The last journal entry about this row that the page had seen; 0 if none."""


class DecisionsRequest(BaseModel):
    """Several decisions, of which all are written or none."""

    model_config = ConfigDict(extra="forbid")

    decisions: list[DecisionRequest] = Field(min_length=1, max_length=1000)


class PageFilter(Filter):
    """Which rows to show, and the rank after which to continue."""

    after: int = Field(0, ge=0)


class Review:
    """One run under review; each public method answers the requests to one address."""

    def __init__(
        self, run: RunDir, suspects: Suspects, journal: Journal, features: FeatureTable | None, key: str
    ) -> None:
        """`features` is None if the inputs are images."""
        self.run_dir, self.suspects, self.journal, self.features, self.key = run, suspects, journal, features, key

    def run(self) -> dict[str, Any]:
        """Return what stays the same during a review, and the decisions that can be undone."""
        book = self.journal.book()
        recent = [decision for decision in self.journal.decisions().values() if decision.id in self.suspects.row_of]
        return {
            "key": self.key,
            "name": self.run_dir.path.resolve().name,
            "path": str(self.run_dir.path),
            "classes": list(self.suspects.class_names),
            "is_image": self.features is None,
            "is_calibrated": self.suspects.is_calibrated,
            "recent": [{"id": decision.id, "seen": book[decision.id].last} for decision in recent[-NUM_RECENT:]],
        }

    def rows(self, wanted: Annotated[PageFilter, Query()]) -> dict[str, Any]:
        """Return the next suspects that match a filter."""
        book = self.journal.book()
        found = self.suspects.match(wanted, book)
        found = found[found >= wanted.after]  # row numbers count from 0, ranks from 1
        shown = [self._describe(int(row), book) for row in found[:ROWS_PER_REQUEST]]
        menus = None if wanted.after else self.suspects.menus(wanted)
        return {"rows": shown, "num_found": len(found), "menus": menus}

    def progress(self, wanted: Annotated[Filter, Query()]) -> dict[str, Any]:
        """Return the counts of the progress bar."""
        return self.suspects.progress(wanted, self.journal.book())

    def image(self, split: str, position: int) -> Response:
        """Return the image of a row."""
        rows = self._find(split, position, is_image=True)
        return Response(encode_png(rows, position), media_type="image/png")

    def row_values(self, split: str, position: int) -> list[Any]:
        """Return the features of a row beside the means of its two classes."""
        rows = self._find(split, position, is_image=False)
        return self._features_of(self.suspects.row_of[str(rows.ids[position])])

    def decide(self, request: DecisionsRequest) -> Any:
        """Write decisions; answer 409 with the current rows if someone else decided first."""
        wishes = [self._wish(one) for one in request.decisions]
        try:
            self.journal.append(wishes)
        except Conflict as conflict:
            return JSONResponse({"error": str(conflict), "rows": self._current_rows(conflict.ids)}, 409)
        return {"rows": self._current_rows([wish.id for wish in wishes])}

    def export(self) -> dict[str, Any]:
        """Write RUN/decisions.csv."""
        count = write_csv(self.run_dir, self.journal)
        return {"file": str(self.run_dir.path / CSV_NAME), "rows": count}

    def _find(self, split: str, position: int, is_image: bool) -> Examples:
        rows = self.suspects.split_with(split, position)
        if rows is None or rows.is_image != is_image:
            raise DataError("there is no such sample in this run")
        return rows

    def _wish(self, request: DecisionRequest) -> Wish:
        row = self.suspects.row_of.get(request.id)
        if row is None:
            raise RunError(f"there is no row {request.id!r} in this run")
        given = self.suspects.class_names[self.suspects.given[row]]
        if request.action == "relabel" and request.label not in self.suspects.class_names:
            raise RunError(f"{request.label!r} is no class of this run")
        action = "keep" if (request.action, request.label) == ("relabel", given) else request.action
        return Wish(request.id, given, action, request.label if action == "relabel" else None, request.seen)

    def _current_rows(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        book = self.journal.book()
        return [self._describe(self.suspects.row_of[id], book) for id in ids]

    def _describe(self, row: int, book: Book) -> dict[str, Any]:
        preview = [] if self.features is None else self._features_of(row)[:4]
        return {**self.suspects.describe(row, book.get(self.suspects.ids[row])), "preview": preview}

    def _features_of(self, row: int) -> list[Any]:
        assert self.features is not None
        split, position = self.suspects.positions[row]
        given, suggested = int(self.suspects.given[row]), int(self.suspects.suggested[row])
        return self.features.describe(self.suspects.splits[split], position, given, suggested)


def write_csv(run: RunDir, journal: Journal) -> int:
    """Write RUN/decisions.csv; return the number of its rows."""
    return journal.to_csv(run.path / CSV_NAME)
