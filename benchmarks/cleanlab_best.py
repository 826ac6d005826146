"""Show cleanlab in its best light: the best of its models, features and scores, by clean labels."""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from verdict_data import hog_features, patch_features

FOLDS = 5
STRENGTHS = (0.01, 0.1, 1, 10)
"""C of logistic regression; smaller values penalise the weights more."""
SCORES = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
MOST_SVM_ROWS = 5000
"""With more rows an SVM with probabilities takes many minutes and is left out."""
LARGEST_SIDE = 16
"""Images up to this many pixels a side are used as they are."""


def cleanlab_best(source: Path, corpus: Any, wrong: np.ndarray) -> dict[str, Any] | None:
    """Return cleanlab's best AUROC and average precision on a corpus; None without errors.

    The result depends on the data only and is kept beside them.
    """
    if not wrong.any():
        return None
    file = source.parent / "cleanlab.json"
    if not file.is_file():
        found = list(_candidates(corpus, wrong))
        best = {
            "auroc": max(found, key=lambda one: one["auroc"]),
            "average_precision": max(found, key=lambda one: one["average_precision"]),
        }
        content = {name: one[name] for name, one in best.items()}
        content |= {"model": best["auroc"]["model"], "left_out": "SVM" if len(wrong) > MOST_SVM_ROWS else None}
        file.write_text(json.dumps(content) + "\n")
    content = json.loads(file.read_text())
    return dict(content)


def _candidates(corpus: Any, wrong: np.ndarray) -> Iterator[dict[str, Any]]:
    from cleanlab.rank import get_label_quality_scores

    given = np.unique(corpus.train.label.numpy(), return_inverse=True)[1]
    for features, x in _views(corpus):
        for name, model in _models(len(x)):
            probability = predict_by_folds(model, x, given)
            for score in SCORES:
                suspicion = -get_label_quality_scores(given, probability, method=score)
                yield {
                    "model": f"{name}, {score}" + (f", {features}" if features else ""),
                    "auroc": float(roc_auc_score(wrong, suspicion)),
                    "average_precision": float(average_precision_score(wrong, suspicion)),
                }


def _views(corpus: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield features by name: images as HOG and as random patches, all else as it is."""
    rows = corpus.train
    x = np.asarray(rows.x[np.arange(len(rows))])
    if not rows.is_image or max(x.shape[2:]) <= LARGEST_SIDE:
        yield "", x.reshape(len(x), -1).astype(np.float32)
        return
    images = x.transpose(0, 2, 3, 1)
    yield "HOG", hog_features(images)
    yield "random patches", patch_features(images)


def _models(num_rows: int) -> Iterator[tuple[str, Any]]:
    for strength in STRENGTHS:
        yield f"LR C={strength:g}", LogisticRegression(C=strength, max_iter=300)
    if num_rows <= MOST_SVM_ROWS:
        yield "SVM", SVC(probability=True, random_state=0)
    yield "10-NN", KNeighborsClassifier(min(10, num_rows // 10))


def predict_by_folds(model: Any, x: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Return (N, K) probabilities from 5 folds on standardised features."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    with warnings.catch_warnings():  # rare classes, and fits that stop before they converge
        warnings.simplefilter("ignore")
        pipeline = make_pipeline(StandardScaler(), model)
        probability: np.ndarray = cross_val_predict(pipeline, x, given, cv=folds, method="predict_proba")
    return probability
