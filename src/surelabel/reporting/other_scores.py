"""Read the scores of other tools from a CSV file and compare them with ours, as rankings."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surelabel.data.label_file import read_label_file
from surelabel.errors import DataError
from surelabel.reporting.reported_run import ReportedRun
from surelabel.verdicts.measures import auroc

ID_COLUMNS = ("id", "sample_id", "image_id", "index", "")
"""Accepted names of the id column, in order of preference; pandas leaves its index unnamed."""
SCORE_COLUMNS = ("label_quality", "label_score", "quality", "aum", "score", "p_wrong", "is_label_issue")
"""Accepted names of the score column, in order of preference."""
HIGH_IS_SUSPICIOUS = frozenset({"p_wrong", "is_label_issue"})
"""Score columns in which a high value is suspicious; in the others a low one is."""
WORDS = {"true": 1.0, "false": 0.0}
"""Words that may take the place of a score, as in is_label_issue."""
NUM_FIRST = 100
"""The overlap of the first suspects is always reported for this many."""


def read_scores(path: str | Path) -> dict[str, float]:
    """Read scores by id, signed so that low is suspicious.

    Understands the columns of cleanlab (label_quality, label_score, is_label_issue), of AUM
    (sample_id, aum), and any file with an id and a score.
    """
    file = read_label_file(path, ID_COLUMNS, SCORE_COLUMNS, strip=False, allow_short_rows=False)
    assert file.values is not None
    assert file.value_column is not None
    texts = file.values
    scores = np.array([_parse_score(text) for text in texts.tolist()], dtype=np.float64)
    file.table.refuse(
        ~np.isfinite(scores),
        lambda row: f"{file.value_column} is {str(texts[row])!r}; expected a number, true or false",
    )
    if not len(scores):
        raise file.table.error("no rows; expected an id and a score in each")
    sign = -1 if file.value_column.lower() in HIGH_IS_SUSPICIOUS else 1
    return dict(zip(file.ids.tolist(), (sign * scores).tolist(), strict=True))


def _parse_score(text: str) -> float:
    """Parse a score; return NaN if `text` is neither a number nor true or false."""
    try:
        return WORDS[text.strip().lower()] if text.strip().lower() in WORDS else float(text)
    except ValueError:
        return math.nan


@dataclass(frozen=True)
class Comparison:
    """Agreement of another tool's ranking with ours, on the rows that both contain."""

    num_rows: int
    rank_correlation: float
    overlaps: dict[int, float]
    """Fraction of the first n suspects that both rankings share, by n; ties count as expected."""
    auroc: tuple[float, float] | None
    """Ours and theirs, or None if clean labels are not known."""


def compare(run: ReportedRun, scores: Mapping[str, float], name: str) -> Comparison:
    """Compare the scores, called `name` in errors, with our ranking of the same rows."""
    theirs = _align(run, scores)
    known = np.isfinite(theirs)
    if known.sum() < 2:
        raise DataError(
            f"{name}: its ids are neither ids nor row numbers of {run.run_dir.path}; at least 2 rows must match"
        )
    # Compare ranks, not qualities: the report shows ranks, and they have no ties.
    ours, theirs = run.columns["rank"][known].astype(np.float64), theirs[known]
    sizes = sorted({min(NUM_FIRST, len(ours)), max(1, int(run.is_suspicious[known].sum()))})
    wrong = None if run.is_wrong is None else run.is_wrong[known]
    overlaps = {size: _overlap(ours, theirs, size) for size in sizes}
    return Comparison(len(ours), _rank_correlation(ours, theirs), overlaps, _aurocs(ours, theirs, wrong))


def _align(run: ReportedRun, scores: Mapping[str, float]) -> np.ndarray:
    """Return the scores (N,) in the order of the audit, NaN for rows without one.

    If no id matches, the ids are taken for row numbers: from 0, in the order of the data.
    """
    ids = [str(id) for id in run.columns["id"]]
    if not any(id in scores for id in ids):
        row_of = {str(id): str(row) for row, id in enumerate(run.run_dir.labels()["id"].to_pylist())}
        ids = [row_of[id] for id in ids]
    return np.array([scores.get(id, np.nan) for id in ids])


def _overlap(ours: np.ndarray, theirs: np.ndarray, size: int) -> float:
    """Return the fraction of our first `size` rows that are among their first `size`.

    Rows tied for their last places count as often as a random choice would include them.
    """
    last = np.sort(theirs)[size - 1]
    before, tied = theirs < last, theirs == last
    in_theirs = before + tied * (size - before.sum()) / tied.sum()
    return float(in_theirs[np.argsort(ours)[:size]].mean())


def _rank_correlation(ours: np.ndarray, theirs: np.ndarray) -> float:
    if np.ptp(theirs) == 0:
        return 0.0  # a constant ranks nothing
    from scipy.stats import spearmanr

    return float(spearmanr(ours, theirs).statistic)


def _aurocs(ours: np.ndarray, theirs: np.ndarray, wrong: np.ndarray | None) -> tuple[float, float] | None:
    if wrong is None or not 0 < wrong.sum() < len(wrong):
        return None
    return auroc(ours, wrong), auroc(theirs, wrong)
