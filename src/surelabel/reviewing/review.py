"""The requests of the page: the run, its suspects, a row's input, and writing decisions."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from surelabel.data.corpus import Examples
from surelabel.data.images.decode import Unreadable
from surelabel.data.originals import Originals
from surelabel.errors import DataError, RunError
from surelabel.reviewing.content import RowContent
from surelabel.reviewing.inputs import MAX_SIDE, FeatureTable, encode_picture, encode_png
from surelabel.reviewing.live import LiveAudit
from surelabel.reviewing.reasons import Reasons
from surelabel.reviewing.states import RowStates
from surelabel.reviewing.suspects import Filter, Suspects
from surelabel.runs.decisions import RANDOM, Conflict, Decision, Draw, Journal, Wish
from surelabel.runs.run_dir import RunDir
from surelabel.training import pretrained
from surelabel.verdicts import Audit

ROWS_PER_REQUEST = 60
MOST_AT_ONCE = 1000
"""Decisions in a request, and rows that a request can ask for."""
NUM_PREVIEWED = 4
"""Features of a row in the grid."""
NUM_RECENT = 200
"""Decisions that can still be undone after a reload; more if they were made at once."""
MOST_NUMBERS = 200
"""Rows whose P(wrong) the page can ask for at once."""
CSV_NAME = "decisions.csv"


class DecisionRequest(BaseModel):
    """One decision as the page sends it."""

    model_config = ConfigDict(extra="forbid")

    id: str
    action: Literal["keep", "relabel", "remove", "unsure", "skip", "undo"]
    label: str | None = None
    seen: int = Field(ge=0)
    """The last journal entry about this row that the page had seen; 0 if none."""


class DecisionsRequest(BaseModel):
    """Several decisions, of which all are written or none."""

    model_config = ConfigDict(extra="forbid")

    decisions: list[DecisionRequest] = Field(min_length=1, max_length=MOST_AT_ONCE)
    queue: Literal["random"] | None = None
    """random for decisions on the random sample."""


class SampleRequest(BaseModel):
    """How many labels to check at random."""

    model_config = ConfigDict(extra="forbid")

    count: int = Field(ge=1, le=100_000)


class PageFilter(Filter):
    """Which rows to show, and the rank after which to continue."""

    after: int = Field(0, ge=0)
    order: int = Field(0, ge=0)
    """The number of the order of rows."""
    count: int = Field(ROWS_PER_REQUEST, ge=1, le=MOST_AT_ONCE)


class ProgressFilter(Filter):
    """Which rows to count, and whose P(wrong) to return: numbers with commas between them."""

    order: int = Field(0, ge=0)
    numbers: str = Field("", pattern=r"^(\d{1,12}(,\d{1,12})*)?$")


Queue = Literal["suspects", "random"]
"""The random sample is checked blindly: its rows come without anything that the model says."""


class Review:
    """One run under review; each public method answers the requests to one address."""

    def __init__(
        self,
        run: RunDir,
        suspects: Suspects,
        live: LiveAudit,
        features: FeatureTable | None,
        originals: Originals | None = None,
        as_seen: Callable[[Examples, int], Tensor] = pretrained.as_stored,
    ) -> None:
        """`features` is None if the inputs are images; `originals` if these have no files.

        `as_seen` returns the image of a row as the network saw it.
        """
        self.run_dir, self.suspects, self.live, self.features = run, suspects, live, features
        self.journal = live.journal
        self.content = RowContent(run)
        self.originals, self._decoding, self._as_seen = originals, threading.Lock(), as_seen
        self.states = RowStates(self.journal, suspects.row_of)
        self._drawn: Draw | None = None
        self.starts_random = False
        """Whether the page begins with the random sample."""
        live.changed = self._take
        suspects.update(live.audit, live.auditor.calibration.p_wrong)
        self._find_sample()
        self.reasons = Reasons(run, suspects, live.auditor.found.columns)

    def _take(self, audit: Audit) -> None:
        self.suspects.update(audit)
        self._find_sample()

    def _find_sample(self) -> None:
        """Tell the suspects which rows are the random sample, if that has changed."""
        drawn = self.journal.sample()
        if drawn != self._drawn:
            rows = [] if drawn is None else self.live.auditor.reviews.sampled(drawn)
            self.suspects.sample(self.suspects.row_at[np.array(rows, dtype=np.int64)])
            self._drawn = drawn

    def draw(self, request: SampleRequest) -> dict[str, Any]:
        """Draw a random sample, or enlarge it; return its size."""
        self.journal.draw(request.count)
        self._find_sample()
        return {"rows": len(self.suspects.sampled)}

    def run(self) -> dict[str, Any]:
        """Return what stays the same during a review, and the decisions that can be undone."""
        self.live.look()  # another server may have written decisions
        self._find_sample()
        return {
            "name": self.run_dir.path.resolve().name,
            "path": str(self.run_dir.path),
            "classes": list(self.suspects.class_names),
            "is_image": self.features is None,
            "has_originals": self.originals is not None,
            "is_calibrated": self.suspects.is_calibrated,
            "annotator": self.journal.by if self.journal.is_independent else None,
            "low": self.live.least_p_wrong,
            "starts_random": self.starts_random and len(self.suspects.sampled) > 0,
            "recent": self._recent(),
        }

    def _recent(self) -> list[list[dict[str, Any]]]:
        """Return the decisions that can be undone; those that were made at once come together."""
        bulks = [[one for one in bulk if one.id in self.suspects.row_of] for bulk in self.journal.recent(NUM_RECENT)]
        book = self.journal.find(one.id for bulk in bulks for one in bulk)
        shown = [[{"id": one.id, "seen": book[one.id].last, "queue": one.queue} for one in bulk] for bulk in bulks]
        return [bulk for bulk in shown if bulk]

    def rows(self, wanted: Annotated[PageFilter, Query()]) -> dict[str, Any]:
        """Return the next suspects that match a filter."""
        self.states.update()
        ranks, rows = self.suspects.match(wanted, self.states, wanted.order)
        left = ranks >= wanted.after  # here ranks count from 0, on the page from 1
        ranks, rows = ranks[left], rows[left]
        shown = self._describe(rows[: wanted.count].tolist(), ranks[: wanted.count].tolist(), wanted.queue == RANDOM)
        return {"rows": shown, "num_found": len(rows)}

    def progress(self, wanted: Annotated[ProgressFilter, Query()]) -> dict[str, Any]:
        """Return the counts of the progress bar, the newest estimate, and P(wrong) of some rows."""
        self.states.update()
        numbers = [int(number) for number in wanted.numbers.split(",") if number][:MOST_NUMBERS]
        is_blind = wanted.queue == RANDOM
        known = [number for number in numbers if number < len(self.suspects) and not is_blind]
        return {
            **self.suspects.progress(wanted, self.states),
            "menus": None if is_blind else self.suspects.menus(wanted, self.states),
            "is_pending": self.live.is_pending,
            "order": max(self.suspects.orders),
            "moved": self.suspects.num_moved(wanted, wanted.order, self.states),
            "annotators": self._annotators(),
            "estimate": self.live.estimate,
            "can_tell": self.live.can_tell,
            "warnings": self.live.warnings,
            "lengths": [] if is_blind else self.live.lengths,
            "worth_a_look": self.live.worth_a_look,
            "sampled": len(self.suspects.sampled),
            "p_wrong": {number: float(self.suspects.p_wrong[number]) for number in known},
        }

    def _annotators(self) -> dict[str, Any]:
        """Return how far annotators agree, and the number of rows on which they do not."""
        return {
            "agreement": [asdict(one) for one in self.journal.agreement()],
            "disputed": sum(id in self.suspects.row_of for id in self.journal.disputed()),
        }

    def overview(self, wanted: Annotated[Filter, Query()]) -> dict[str, Any]:
        """Return how many rows of each given class have each suggestion."""
        _refuse_blind(wanted.queue)
        self.states.update()
        return self.suspects.overview(wanted, self.states)

    def why(self, split: str, position: int, queue: Queue = "suspects") -> dict[str, Any]:
        """Return the reasons for the verdict on a row."""
        _refuse_blind(queue)
        rows = self.suspects.split_with(split, position)
        if rows is None:
            raise DataError("there is no such sample in this run")
        return self.reasons.describe(self.suspects.row_of[str(rows.ids[position])])

    def image(self, split: str, position: int) -> Response:
        """Return the image of a row, as networks see it."""
        rows = self._find(split, position, is_image=True)
        return Response(encode_png(self._as_seen(rows, position)), media_type="image/png")

    def original(
        self, split: str, position: int, side: Annotated[int, Query(ge=16, le=MAX_SIDE)] = MAX_SIDE
    ) -> Response:
        """Return the original image of a row, scaled down if it is larger than `side`."""
        rows = self._find(split, position, is_image=True)
        id = str(rows.ids[position])
        if self.originals is None or id not in self.originals:
            raise DataError("this row has no original image")
        try:
            with self._decoding:  # one at a time, because large ones take much memory
                content, media_type = encode_picture(self.originals.read(id, side))
        except Unreadable as error:
            raise DataError(f"{id}: {error}") from None
        return Response(content, media_type=media_type)

    def row_values(self, split: str, position: int, queue: Queue = "suspects") -> list[Any]:
        """Return the features of a row beside the means of its two classes."""
        rows = self._find(split, position, is_image=False)
        return self._features_of(self.suspects.row_of[str(rows.ids[position])], queue == RANDOM)

    def row_content(self, split: str, position: int, queue: Queue = "suspects") -> dict[str, Any]:
        """Return the text of a row, in pieces, and the columns of its table."""
        rows = self.suspects.split_with(split, position)
        if rows is None:
            raise DataError("there is no such sample in this run")
        row = self.suspects.row_of[str(rows.ids[position])]
        given, suggested = int(self.suspects.given[row]), int(self.suspects.suggested[row])
        return self.content.describe(rows, position, given, None if queue == RANDOM else suggested)

    def decide(self, request: DecisionsRequest) -> Any:
        """Write decisions; answer 409 with the current rows if someone else decided first."""
        wishes, is_blind = [self._wish(one, request.queue) for one in request.decisions], request.queue == RANDOM
        if is_blind and len(wishes) > 1:
            raise RunError("labels of the random sample are checked one by one: expected one decision")
        self._refuse_undo_elsewhere(wishes)
        try:
            self.journal.append(wishes)
        except Conflict as conflict:
            return JSONResponse({"error": str(conflict), "rows": self._current_rows(conflict.ids, is_blind)}, 409)
        self.live.notify()
        return {"rows": self._current_rows([wish.id for wish in wishes], is_blind)}

    def _refuse_undo_elsewhere(self, wishes: Sequence[Wish]) -> None:
        """Raise if an answer to the random sample is undone where the model's opinion is shown."""
        book = self.journal.find(wish.id for wish in wishes if wish.action == "undo")
        queues = {wish.id: wish.queue for wish in wishes}
        for id, standing in book.items():
            if standing.decision is not None and standing.decision.queue != queues[id]:
                place = "the random sample" if standing.decision.queue == RANDOM else "the suspects"
                raise RunError(f"{id!r} was decided on among {place}: undo it there")

    def export(self) -> dict[str, Any]:
        """Write RUN/decisions.csv."""
        count = write_csv(self.run_dir, self.journal)
        return {"file": str(self.run_dir.path / CSV_NAME), "rows": count}

    def _find(self, split: str, position: int, is_image: bool) -> Examples:
        rows = self.suspects.split_with(split, position)
        if rows is None or rows.is_image != is_image:
            raise DataError("there is no such sample in this run")
        return rows

    def _wish(self, request: DecisionRequest, queue: str | None) -> Wish:
        row = self.suspects.row_of.get(request.id)
        if row is None:
            raise RunError(f"there is no row {request.id!r} in this run")
        if queue == RANDOM and not self.suspects.is_sampled[row]:
            raise RunError(f"the row {request.id!r} is not in the random sample")
        given = self.suspects.class_names[self.suspects.given[row]]
        if request.action == "relabel" and request.label not in self.suspects.number_of:
            raise RunError(f"{request.label!r} is not a class of this run")
        action = "keep" if (request.action, request.label) == ("relabel", given) else request.action
        return Wish(request.id, given, action, request.label if action == "relabel" else None, request.seen, queue)

    def _current_rows(self, ids: Sequence[str], is_blind: bool) -> list[dict[str, Any]]:
        rows = [self.suspects.row_of[id] for id in ids]
        ranks = [int(np.flatnonzero(self.suspects.sampled == row)[0]) for row in rows] if is_blind else rows
        return self._describe(rows, ranks, is_blind)

    def _describe(self, rows: Sequence[int], ranks: Sequence[int], is_blind: bool) -> list[dict[str, Any]]:
        """Return everything the page shows of these rows."""
        describe = self.suspects.describe_blindly if is_blind else self.suspects.describe
        ids = [self.suspects.ids[row] for row in rows]
        book, opinions = self.journal.find(ids), self.journal.opinions(ids)
        described = [
            {
                **describe(row, book.get(id), rank),
                **self._preview(row, is_blind),
                "opinions": self._visible(opinions.get(id, {})),
            }
            for id, row, rank in zip(ids, rows, ranks, strict=True)
        ]
        # What others decided, mostly among the suspects, would give the suggestion away.
        return [{**one, "opinions": []} if is_blind and one["decision"] is None else one for one in described]

    def _preview(self, row: int, is_blind: bool) -> dict[str, Any]:
        """Return the beginning of a text, or the first features; neither for images."""
        snippet = self.suspects.snippet(row)
        is_shown = self.features is not None and snippet is None
        return {"snippet": snippet, "preview": self._features_of(row, is_blind)[:NUM_PREVIEWED] if is_shown else []}

    def _visible(self, opinions: Mapping[str, Decision]) -> list[dict[str, Any]]:
        """Return what annotators decided; an annotator sees it only after an own decision."""
        if self.journal.is_independent and self.journal.by not in opinions:
            return []
        return [{name: getattr(one, name) for name in ("by", "action", "label", "time")} for one in opinions.values()]

    def _features_of(self, row: int, is_blind: bool) -> list[Any]:
        assert self.features is not None
        split, position = self.suspects.place(row)
        given, suggested = int(self.suspects.given[row]), int(self.suspects.suggested[row])
        if is_blind:
            return self.features.describe_blindly(self.suspects.splits[split], position, given)
        return self.features.describe(self.suspects.splits[split], position, given, suggested)


def _refuse_blind(queue: str) -> None:
    if queue == RANDOM:
        raise DataError("the random sample is checked without the model's opinion")


def write_csv(run: RunDir, journal: Journal) -> int:
    """Write RUN/decisions.csv, of all annotators, unless decisions are lost; return its size."""
    if journal.is_independent:
        journal = Journal(journal.path)
    journal.refuse_damage(f"write {CSV_NAME} without these decisions with surelabel export {run.path} --force")
    return journal.to_csv(run.path / CSV_NAME)
