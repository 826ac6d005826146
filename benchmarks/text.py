"""Measure the default `surelabel fit` on text with labels that people gave.

    python benchmarks/text.py FOLDER --seeds 0 1 2

FOLDER has train.csv and test.csv of NoisyAG-News (id, text, label, clean_label). For each seed it
trains with default settings, and prints the AUROC of P(wrong), the test accuracy of the last epoch,
the estimated and the true fraction of wrong labels, and the time. The first line is the baseline:
TF-IDF of words and logistic regression (C = 3), whose AUROC is that of 5 folds.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np


def main() -> None:
    """Print a line for the baseline and for each seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    print("seed      AUROC  test accuracy  estimated  true  seconds  network")
    print("baseline  {:.3f}  {:.3f}".format(*baseline(options.folder)))
    for seed in options.seeds:
        print(measure(options.folder, seed, options.threads), flush=True)


def baseline(folder: Path) -> tuple[float, float]:
    """Return the AUROC of 1 - p(label) on 5 folds, and the accuracy on the test set."""
    import pandas as pd
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline

    train, test = (pd.read_csv(folder / f"{part}.csv") for part in ("train", "test"))
    model = make_pipeline(TfidfVectorizer(sublinear_tf=True, min_df=2), LogisticRegression(C=3, max_iter=1000))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    predicted = cross_val_predict(model, train["text"], train["label"], cv=folds, method="predict_proba")
    given = np.unique(train["label"], return_inverse=True)[1]
    wrong = train["label"] != train["clean_label"]
    auroc = roc_auc_score(wrong, 1 - predicted[np.arange(len(train)), given])
    return float(auroc), float(model.fit(train["text"], train["label"]).score(test["text"], test["clean_label"]))


def measure(folder: Path, seed: int, threads: int) -> str:
    """Train with default settings; return a line of figures."""
    import surelabel

    settings = {
        "data.test": str(folder / "test.csv"),
        "data.clean_column": "clean_label",
        "train.seed": seed,
        "train.threads": threads,
    }
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        run = surelabel.fit(str(folder / "train.csv"), Path(place) / "run", settings=settings)
        audit, accuracy = surelabel.audit(run), run.metrics()[-1]["tests"]["test"]["top1"]
        found, config = audit.measures(), run.config()
    seconds = time.perf_counter() - began
    network = f"widths {config.model.options.get('widths')}, weight decay {config.optimiser.weight_decay}"
    rates = f"{found['estimated_wrong_labels']:.3f}      {found['wrong_labels']:.3f}"
    return f"{seed}         {found['quality_auroc']:.3f}  {accuracy:.3f}          {rates}  {seconds:.0f}  {network}"


if __name__ == "__main__":
    main()
