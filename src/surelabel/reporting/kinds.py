"""The section on kinds of issues: how many rows are of each, and the clearest of them."""

from dataclasses import dataclass

import numpy as np

from surelabel.reporting.gallery import ClassSamples, Painter
from surelabel.reporting.reported_run import ReportedRun
from surelabel.reporting.tables import Table, make_table
from surelabel.reporting.text import amount
from surelabel.verdicts.kinds import AMBIGUOUS, DUPLICATE, KINDS, OUTLIER, WRONG

SAMPLES_PER_KIND = 6
SHARE_PER_KIND = 0.025
"""At most this share of the samples that a run may show are of one of these kinds."""
MEANINGS = {
    WRONG: "the label looks wrong",
    DUPLICATE: "an equal or nearly equal input has another label",
    OUTLIER: "far from its neighbours, and no class is confident",
    AMBIGUOUS: "a second class fits nearly as well as the first",
}
TITLES = {DUPLICATE: "Copies with other labels", OUTLIER: "Outliers", AMBIGUOUS: "Ambiguous rows"}


@dataclass(frozen=True)
class KindsSection:
    """A table of counts, and samples of the kinds that the rest of the report does not show."""

    table: Table
    groups: list[ClassSamples]

    @property
    def num_samples(self) -> int:
        """The number of samples shown."""
        return sum(len(group.samples) for group in self.groups)


def describe_kinds(run: ReportedRun, max_samples: int) -> KindsSection | None:
    """Count and draw the rows of each kind; None for runs that only know which labels are wrong.

    `max_samples` is the number of samples that all sections of this run may show.
    """
    kinds = run.audit.ranked_kinds
    if set(kinds.flags) == {WRONG} and kinds.doubt is None:
        return None
    rows = [[kind, _count_text(run, kind), MEANINGS[kind]] for kind in KINDS]
    per_kind = min(SAMPLES_PER_KIND, max(1, int(SHARE_PER_KIND * max_samples)))
    chosen = {kind: _choose_rows(run, kind)[:per_kind] for kind in TITLES}
    painter = Painter(run, [row for rows in chosen.values() for row in rows])
    groups = [
        ClassSamples(
            TITLES[kind], _shown(run, kind, len(rows)), [painter.sample(row, _note(run, kind, row)) for row in rows]
        )
        for kind, rows in chosen.items()
        if rows
    ]
    return KindsSection(
        make_table("Rows of each kind; a row may be of several", ["Kind", "Rows", "Meaning"], rows), groups
    )


def _count_text(run: ReportedRun, kind: str) -> str:
    count, doubt = run.audit.kinds.counts()[kind], run.audit.kinds.doubt
    if count is not None:
        return f"{count:,}"
    return f"not known: {doubt}" if kind == AMBIGUOUS and doubt else "not looked for"


def _choose_rows(run: ReportedRun, kind: str) -> list[int]:
    """Return the clearest rows of a kind; copies beside each other."""
    rows = np.flatnonzero(run.audit.ranked_kinds.rows(kind))
    order = {DUPLICATE: "duplicate_group", OUTLIER: "isolation", AMBIGUOUS: "rival"}[kind]
    if len(rows):
        values = run.columns[order][rows]
        rows = rows[np.argsort(values if kind == DUPLICATE else -values, kind="stable")]
    return [int(row) for row in rows]


def _shown(run: ReportedRun, kind: str, num_shown: int) -> str:
    total = int(run.audit.ranked_kinds.rows(kind).sum())
    return amount(total, "row") + (f", the first {num_shown} are shown" if total > num_shown else "")


def _note(run: ReportedRun, kind: str, row: int) -> str:
    if kind == DUPLICATE:
        partner = int(run.audit.ranked_kinds.partner[row])
        return f"copy of {run.columns['id'][partner]}, given {run.columns['given'][partner]}"
    if kind == OUTLIER:
        return f"isolation {run.columns['isolation'][row]:.1f}"
    return f"second class at {100 * run.columns['rival'][row]:.0f} % of the first"
