"""Scores of other tools beside ours: read from a CSV, matched by id or row number, compared as rankings."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surelabel.data.label_file import read_label_file
from surelabel.errors import DataError
from surelabel.reporting.chapter import Chapter

ID_COLUMNS = ("id", "sample_id", "image_id", "index", "")
"""Names under which ids are looked for, in this order; pandas leaves the name of its index blank."""
SCORE_COLUMNS = ("label_quality", "label_score", "quality", "aum", "score", "p_wrong", "is_label_issue")
"""Names under which scores are looked for, in this order."""
HIGH_IS_SUSPICIOUS = frozenset({"p_wrong", "is_label_issue"})
"""Columns that count the other way round than quality does."""
WORDS = {"true": 1.0, "false": 0.0}
FIRST = 100
"""Suspects whose overlap is always given."""


def read_scores(path: str | Path) -> dict[str, float]:
    """Scores by id, low is suspicious: of cleanlab (label_quality, label_score, is_label_issue), AUM (sample_id, aum), or any id and score."""
    file = read_label_file(path, ID_COLUMNS, SCORE_COLUMNS, strip=False, allow_short_rows=False)
    assert file.values is not None
    assert file.value_column is not None
    texts = file.values
    scores = np.array([_score(text) for text in texts.tolist()], dtype=np.float64)
    file.table.refuse(
        ~np.isfinite(scores),
        lambda row: f"{file.value_column} is {str(texts[row])!r}; expected a number, true or false",
    )
    if not len(scores):
        raise file.table.error("no rows; expected an id and a score in each")
    sign = -1 if file.value_column.lower() in HIGH_IS_SUSPICIOUS else 1
    return dict(zip(file.ids.tolist(), (sign * scores).tolist(), strict=True))


def _score(text: str) -> float:
    """Return the number that `text` stands for, NaN if it stands for none."""
    try:
        return WORDS[text.strip().lower()] if text.strip().lower() in WORDS else float(text)
    except ValueError:
        return math.nan


@dataclass(frozen=True)
class Comparison:
    """How the ranking of another tool agrees with ours, on the rows that both know."""

    num_rows: int
    rank_correlation: float
    overlaps: dict[int, float]
    """Share of the first n suspects that both name, by n; what is to be expected where scores are equal."""
    auroc: tuple[float, float] | None
    """Ours and theirs, where clean labels are known."""


def compared(chapter: Chapter, scores: Mapping[str, float], name: str) -> Comparison:
    """On the rows that the scores name."""
    theirs = _aligned(chapter, scores)
    known = np.isfinite(theirs)
    if known.sum() < 2:
        raise DataError(
            f"{name}: its ids are neither ids nor row numbers of {chapter.run.path}; at least 2 rows must match"
        )
    # Rank instead of quality: it is what the report shows, and has no ties.
    ours, theirs = chapter.columns["rank"][known].astype(np.float64), theirs[known]
    sizes = sorted({min(FIRST, len(ours)), max(1, int(chapter.flagged[known].sum()))})
    wrong = None if chapter.is_wrong is None else chapter.is_wrong[known]
    overlaps = {size: _overlap(ours, theirs, size) for size in sizes}
    return Comparison(len(ours), _rank_correlation(ours, theirs), overlaps, _aurocs(ours, theirs, wrong))


def _aligned(chapter: Chapter, scores: Mapping[str, float]) -> np.ndarray:
    """(N,) in the order of the audit, NaN where there is no score; row numbers count from 0 in the order of the data."""
    ids = [str(id) for id in chapter.columns["id"]]
    if not any(id in scores for id in ids):
        row_of = {str(id): str(row) for row, id in enumerate(chapter.run.labels()["id"].to_pylist())}
        ids = [row_of[id] for id in ids]
    return np.array([scores.get(id, np.nan) for id in ids])


def _overlap(ours: np.ndarray, theirs: np.ndarray, size: int) -> float:
    """The share of our first `size` rows that are among theirs; of equal scores at the end, each with the same probability."""
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
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(wrong, -ours)), float(roc_auc_score(wrong, -theirs))
