"""How good a verdict is, where the clean labels are known."""

import numpy as np

from surelabel.verdicts.classes import transition_matrix

NUM_BINS = 10


def calibration_error(p_wrong: np.ndarray, is_wrong: np.ndarray, num_bins: int = NUM_BINS) -> float:
    """Mean distance of P(wrong) from the share of wrong labels, over bins of equal counts in the order of P(wrong)."""
    bins = np.array_split(np.argsort(p_wrong, kind="stable"), min(num_bins, max(1, len(p_wrong))))
    gaps = [abs(p_wrong[rows].mean() - is_wrong[rows].mean()) * len(rows) for rows in bins if len(rows)]
    return float(sum(gaps) / max(1, len(p_wrong)))


def against_clean(ranked: dict[str, np.ndarray]) -> dict[str, float]:
    """Figures of the ranked table; P(wrong) and its error are of the labels that nobody has confirmed."""
    is_wrong = ranked["given"] != ranked["clean"]
    result = {
        "wrong_labels": float(is_wrong.mean()),
        "correction_accuracy": float((ranked["target"] == ranked["clean"]).mean()),
        "suggested_accuracy": float((ranked["suggested"] == ranked["clean"]).mean()),
        "estimated_wrong_labels": float(ranked["p_wrong"].mean()),
    }
    open_rows = ranked["verdict"] != "trusted"
    if open_rows.any():
        result["calibration_error"] = calibration_error(ranked["p_wrong"][open_rows], is_wrong[open_rows])
    if 0 < is_wrong.sum() < len(is_wrong):
        from sklearn.metrics import average_precision_score, roc_auc_score

        suspicion = -_shared_ranks(ranked)
        result["quality_auroc"] = float(roc_auc_score(is_wrong, suspicion))
        result["average_precision"] = float(average_precision_score(is_wrong, suspicion))
    return result


def _shared_ranks(ranked: dict[str, np.ndarray]) -> np.ndarray:
    """(N,) ranks, the same where neither P(wrong) nor quality tells two rows apart."""
    changes = np.diff(ranked["p_wrong"]) != 0
    changes |= np.diff(ranked["quality"]) != 0
    return np.concatenate([[0], np.cumsum(changes)]).astype(np.float64)


def transition_error(counts: np.ndarray, given: list[int], clean: list[int]) -> float:
    """Mean distance between the estimated P(given | true) and the realised one, over the classes that there are."""
    real = np.zeros_like(counts)
    np.add.at(real, (clean, given), 1)
    there = real.sum(1) > 0
    return (
        float(np.abs(transition_matrix(counts) - transition_matrix(real))[there].sum(1).mean() / 2)
        if there.any()
        else 0.0
    )
