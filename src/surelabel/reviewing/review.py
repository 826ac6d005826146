"""What the page can ask: the run, its suspects, a row's values, and to write decisions."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from surelabel.data.corpus import Examples
from surelabel.errors import DataError, RunError
from surelabel.reviewing.inputs import Values
from surelabel.reviewing.pictures import png
from surelabel.reviewing.suspects import Filter, Suspects
from surelabel.runs.decisions import Conflict, Journal, Wish
from surelabel.runs.run_dir import RunDir

PAGE_ROWS = 60
"""Rows of one answer."""
NUM_RECENT = 200
"""Decisions that can be undone after a reload."""
CSV_NAME = "decisions.csv"


class Asked(BaseModel):
    """A decision as the page sends it."""

    model_config = ConfigDict(extra="forbid")

    id: str
    action: Literal["keep", "relabel", "skip", "undo"]
    label: str | None = None
    seen: int = Field(ge=0)


class Decisions(BaseModel):
    """All of these or none."""

    model_config = ConfigDict(extra="forbid")

    decisions: list[Asked] = Field(min_length=1, max_length=1000)


class PageFilter(Filter):
    """Which rows to show, and after which rank to go on."""

    after: int = Field(0, ge=0)


class Review:
    """One run under review; each public method answers one address."""

    def __init__(self, run: RunDir, suspects: Suspects, journal: Journal, values: Values | None, key: str) -> None:
        self.run_dir, self.suspects, self.journal, self.values, self.key = run, suspects, journal, values, key

    def run(self) -> dict[str, Any]:
        """What does not change, and the decisions that undo begins with."""
        book = self.journal.book()
        recent = [decision for decision in self.journal.decisions().values() if decision.id in self.suspects.row_of]
        return {
            "key": self.key,
            "name": self.run_dir.path.resolve().name,
            "path": str(self.run_dir.path),
            "classes": list(self.suspects.class_names),
            "is_image": self.values is None,
            "is_calibrated": self.suspects.is_calibrated,
            "recent": [{"id": decision.id, "seen": book[decision.id].last} for decision in recent[-NUM_RECENT:]],
        }

    def rows(self, wanted: Annotated[PageFilter, Query()]) -> dict[str, Any]:
        """The next suspects inside a filter."""
        book = self.journal.book()
        found = self.suspects.matching(wanted, book)
        found = found[found >= wanted.after]  # ranks count from 1
        shown = [self._described(int(row), book) for row in found[:PAGE_ROWS]]
        menus = None if wanted.after else self.suspects.menus(wanted)
        return {"rows": shown, "num_found": len(found), "menus": menus}

    def progress(self, wanted: Annotated[Filter, Query()]) -> dict[str, Any]:
        """Counts."""
        return self.suspects.progress(wanted, self.journal.book())

    def image(self, split: str, position: int) -> Response:
        """A row's image."""
        return Response(png(self._part(split, position, images=True), position), media_type="image/png")

    def row_values(self, split: str, position: int) -> list[Any]:
        """A row's values beside those of its two classes."""
        rows = self._part(split, position, images=False)
        return self._values_of(self.suspects.row_of[str(rows.ids[position])])

    def decide(self, asked: Decisions) -> Any:
        """Write decisions; 409 with the rows as they stand where somebody else was quicker."""
        wishes = [self._wish(one) for one in asked.decisions]
        try:
            self.journal.append(wishes)
        except Conflict as conflict:
            return JSONResponse({"error": str(conflict), "rows": self._now(conflict.ids)}, 409)
        return {"rows": self._now([wish.id for wish in wishes])}

    def export(self) -> dict[str, Any]:
        """Write RUN/decisions.csv."""
        count = write_csv(self.run_dir, self.journal)
        return {"file": str(self.run_dir.path / CSV_NAME), "rows": count}

    def _part(self, split: str, position: int, images: bool) -> Examples:
        rows = self.suspects.part(split, position)
        if rows is None or rows.is_image != images:
            raise DataError("there is no such sample in this run")
        return rows

    def _wish(self, asked: Asked) -> Wish:
        row = self.suspects.row_of.get(asked.id)
        if row is None:
            raise RunError(f"there is no row {asked.id!r} in this run")
        given = self.suspects.class_names[self.suspects.given[row]]
        if asked.action == "relabel" and asked.label not in self.suspects.class_names:
            raise RunError(f"{asked.label!r} is no class of this run")
        action = "keep" if (asked.action, asked.label) == ("relabel", given) else asked.action
        return Wish(asked.id, given, action, asked.label if action == "relabel" else None, asked.seen)

    def _now(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        book = self.journal.book()
        return [self._described(self.suspects.row_of[id], book) for id in ids]

    def _described(self, row: int, book: Any) -> dict[str, Any]:
        preview = [] if self.values is None else self._values_of(row)[:4]
        return {**self.suspects.described(row, book.get(self.suspects.ids[row])), "preview": preview}

    def _values_of(self, row: int) -> list[Any]:
        assert self.values is not None
        split, position = self.suspects.place[row]
        given, suggested = int(self.suspects.given[row]), int(self.suspects.suggested[row])
        return self.values.of(self.suspects.parts[split], position, given, suggested)


def write_csv(run: RunDir, journal: Journal) -> int:
    """Write RUN/decisions.csv whole; return the number of its rows."""
    return journal.to_csv(run.path / CSV_NAME)
