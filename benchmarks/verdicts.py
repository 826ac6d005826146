"""Measure the audit at default settings on many kinds of small data, beside cleanlab's best.

    python benchmarks/verdicts.py --seeds 1 2 3 --cifar10 FOLDER --out DIR
    python benchmarks/verdicts.py --seeds 1 --only iris wine --out DIR

Every data set and seed is trained once at default settings (the runs and data of
benchmarks/export.py, which uses the same folder). cleanlab is shown in its best light: of 5-fold
logistic regression with C in .01, .1, 1 and 10, an RBF-SVM and 10 nearest neighbours, and of its
three scores, the pair with the largest AUROC, chosen with the clean labels. On photos it sees
random-patch features, as our second opinion does. Results are kept as lines of DIR/verdicts.jsonl:
stop and start at will. `known` means an interval for the rate narrower than 20 points, `roughly`
one narrower than 40.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from export import data_sets, train
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import surelabel
from surelabel.runs.run_dir import RunDir
from surelabel.verdicts.corrections import Rules, accept

EPOCHS = 200
FOLDS = 5
SCORES = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
HEADER = (
    "| data | seed | AUROC | cleanlab | true rate | estimated (interval) | claim | calibration error | flags: "
    "precision, recall | right before | after export | seconds |"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--cifar10", type=Path, metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=Path("runs/verdicts"), metavar="DIR")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    options = parser.parse_args()
    print(HEADER + "\n" + "|---" * HEADER.count(" |") + "|")
    rows = list(measured(options))
    print("\n" + "\n".join(summary(rows)))


def measured(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the figures of every data set and seed, and print each as a row of the table."""
    file = options.out / "verdicts.jsonl"
    before = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    known = {(row["data"], row["seed"]): row for row in before}
    for seed in options.seeds:
        for path in files_of(seed, options):
            row = known.get((path.stem, seed))
            if row is None:
                row = {"data": path.stem, "seed": seed, **measure(path, options.out, seed)}
                with file.open("a") as lines:
                    lines.write(json.dumps(row) + "\n")
            print(as_table_row(row), flush=True)
            yield row


def files_of(seed: int, options: argparse.Namespace) -> list[Path]:
    folder = options.out / f"data{seed}"
    if not folder.is_dir():
        folder.mkdir(parents=True)
        for name, arrays in data_sets(np.random.default_rng(1000 + seed), options.cifar10):
            np.savez(folder / f"{name}.npz", **arrays)
    return [path for path in sorted(folder.glob("*.npz")) if not options.only or path.stem in options.only]


def measure(path: Path, out: Path, seed: int) -> dict[str, Any]:
    """Train on one file at default settings and measure the audit and the default export."""
    began = time.perf_counter()
    run = train(path, out / f"runs{seed}" / path.stem, seed, EPOCHS)
    seconds = time.perf_counter() - began
    audit = surelabel.audit(run)
    given, suggested, clean = (audit.columns[name] for name in ("given", "suggested", "clean"))
    wrong, flagged = given != clean, audit.is_suspicious
    low, high = audit.noise_rate.interval or (0.0, 1.0)
    changed = accept(audit, Rules()).rows
    after = np.where(changed, suggested, given) == clean
    figures = audit.measures()
    return {
        "auroc": figures.get("quality_auroc"),
        "average_precision": figures.get("average_precision"),
        "cleanlab": cleanlab_best(run, path),
        "true_rate": float(wrong.mean()),
        "rate": audit.noise_rate.rate,
        "low": low,
        "high": high,
        "claim": "cannot tell" if not audit.can_tell else "roughly" if audit.is_rough else "known",
        "calibration_error": figures["calibration_error"],
        "flagged": int(flagged.sum()),
        "precision": float(wrong[flagged].mean()) if flagged.any() else None,
        "recall": float(flagged[wrong].mean()) if wrong.any() else None,
        "changed": int(changed.sum()),
        "right_before": float(1 - wrong.mean()),
        "right_after": float(after.mean()),
        "seconds": seconds,
    }


def cleanlab_best(run: RunDir, path: Path) -> float | None:
    """Return the AUROC of cleanlab's best model and score on the same rows; None without errors."""
    from cleanlab.rank import get_label_quality_scores

    from surelabel.data import load_corpus
    from surelabel.training.second_opinion import features_of

    corpus = load_corpus(run.config().data)
    given, clean = np.load(path)["y"], np.load(path)["clean"]
    if (given == clean).all():
        return None
    x = features_of([corpus.train], 0)[0]
    codes = np.unique(given, return_inverse=True)[1]
    found = []
    for model in models(len(x)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
            p = cross_val_predict(make_pipeline(StandardScaler(), model), x, codes, cv=folds, method="predict_proba")
        found += [roc_auc_score(given != clean, -get_label_quality_scores(codes, p, method=name)) for name in SCORES]
    return float(max(found))


def models(num_rows: int) -> Iterator[Any]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC

    for strength in (0.01, 0.1, 1, 10):
        yield LogisticRegression(C=strength, max_iter=300)
    yield SVC(probability=True, random_state=0)
    yield KNeighborsClassifier(min(10, num_rows // 10))


def as_table_row(row: dict[str, Any]) -> str:
    def number(value: float | None, digits: int = 3) -> str:
        return "-" if value is None else f"{value:.{digits}f}"

    percent = [f"{100 * row[name]:.0f}" for name in ("rate", "low", "high")]
    cells = [
        row["data"],
        row["seed"],
        number(row["auroc"]),
        number(row["cleanlab"]),
        f"{100 * row['true_rate']:.1f}",
        f"{percent[0]} ({percent[1]}-{percent[2]})",
        row["claim"],
        number(row["calibration_error"]),
        f"{number(row['precision'], 2)}, {number(row['recall'], 2)}",
        f"{100 * row['right_before']:.1f}",
        f"{100 * row['right_after']:.1f}",
        f"{row['seconds']:.0f}",
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def summary(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what is wanted of the audit, counted over these rows."""
    ranked = [row for row in rows if row["cleanlab"] is not None and 0 < row["true_rate"] < 0.9]
    known = [row for row in rows if row["claim"] == "known"]
    close = sum(row["auroc"] >= row["cleanlab"] - 0.01 for row in ranked)
    ahead = sum(row["auroc"] > row["cleanlab"] for row in ranked)
    held = sum(row["low"] - 5e-4 <= row["true_rate"] <= row["high"] + 5e-4 for row in rows)
    yield f"AUROC at least cleanlab's best - .01: {close} of {len(ranked)}; ahead: {ahead}"
    yield f"intervals that hold the true rate: {held} of {len(rows)}"
    within = sum(abs(row["rate"] - row["true_rate"]) <= 0.05 for row in known)
    yield f"claims to know: {len(known)} of {len(rows)}; within 5 points: {within}"
    precise = sum(row["precision"] is None or row["precision"] >= 0.75 for row in known)
    calibrated = sum(row["calibration_error"] <= 0.08 for row in known)
    yield f"of these, precision of flags at least .75: {precise}; calibration error at most .08: {calibrated}"
    worse = [f"{row['data']} {row['seed']}" for row in rows if row["right_after"] < row["right_before"]]
    better = sum(
        row["right_after"] - row["right_before"] >= row["true_rate"] / 3 for row in rows if row["true_rate"] > 0
    )
    yield f"fewer right labels after export: {', '.join(worse) or 'none'}; a third of the errors gone: {better}"


if __name__ == "__main__":
    main()
