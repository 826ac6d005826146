"""Measures of a verdict, if the clean labels are known."""

import numpy as np

from surelabel.verdicts.classes import transition_matrix
from surelabel.verdicts.evidence import TRUSTED

NUM_BINS = 10


def calibration_error(p_wrong: np.ndarray, is_wrong: np.ndarray, num_bins: int = NUM_BINS) -> float:
    """Return the mean gap of P(wrong) and the fraction of wrong labels, over bins of equal size."""
    bins = np.array_split(np.argsort(p_wrong, kind="stable"), min(num_bins, max(1, len(p_wrong))))
    gaps = [abs(p_wrong[rows].mean() - is_wrong[rows].mean()) * len(rows) for rows in bins if len(rows)]
    return float(sum(gaps) / max(1, len(p_wrong)))


def against_clean(ranked: dict[str, np.ndarray]) -> dict[str, float]:
    """Return the measures of a ranked table; those of P(wrong) are of labels nobody decided on."""
    is_wrong = ranked["given"] != ranked["clean"]
    result = {
        "wrong_labels": float(is_wrong.mean()),
        "correction_accuracy": float((ranked["target"] == ranked["clean"]).mean()),
        "suggested_accuracy": float((ranked["suggested"] == ranked["clean"]).mean()),
        "estimated_wrong_labels": float(ranked["p_wrong"].mean()),
    }
    if "decided" in ranked:
        left = ranked["decided"] == ""
        ranked, is_wrong = {name: values[left] for name, values in ranked.items()}, is_wrong[left]
    open_rows = ranked["verdict"] != TRUSTED
    if open_rows.any():
        result["calibration_error"] = calibration_error(ranked["p_wrong"][open_rows], is_wrong[open_rows])
    if 0 < is_wrong.sum() < len(is_wrong):
        rank = _shared_ranks(ranked)
        result["quality_auroc"] = auroc(rank, is_wrong)
        result["average_precision"] = average_precision(rank, is_wrong)
    return result


def auroc(rank: np.ndarray, is_wrong: np.ndarray) -> float:
    """Return how often a wrong label has a lower rank than a right one; ties count half."""
    wrong, right = _count_by_rank(rank, is_wrong)
    behind = right.sum() - np.cumsum(right)
    return float((wrong * (behind + right / 2)).sum() / (wrong.sum() * right.sum()))


def average_precision(rank: np.ndarray, is_wrong: np.ndarray) -> float:
    """Return the mean over wrong labels of the precision among all of at most their rank."""
    wrong, right = _count_by_rank(rank, is_wrong)
    precision = np.cumsum(wrong) / np.cumsum(wrong + right)
    return float((wrong * precision).sum() / wrong.sum())


def _count_by_rank(rank: np.ndarray, is_wrong: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many wrong and right labels have each rank, from the lowest on."""
    ranks, place = np.unique(rank, return_inverse=True)
    return np.bincount(place[is_wrong], minlength=len(ranks)), np.bincount(place[~is_wrong], minlength=len(ranks))


def _shared_ranks(ranked: dict[str, np.ndarray]) -> np.ndarray:
    """Return (N,) ranks; rows with equal P(wrong) and quality share one."""
    changes = np.diff(ranked["p_wrong"]) != 0
    changes |= np.diff(ranked["quality"]) != 0
    return np.concatenate([[0], np.cumsum(changes)])


def transition_error(counts: np.ndarray, given: list[int], clean: list[int]) -> float:
    """Return the mean distance of estimated and realised P(given | true), over existing classes."""
    real = np.zeros_like(counts)
    np.add.at(real, (clean, given), 1)
    there = real.sum(1) > 0
    return (
        float(np.abs(transition_matrix(counts) - transition_matrix(real))[there].sum(1).mean() / 2)
        if there.any()
        else 0.0
    )
