"""Justify CAR's defaults and verdict: penalty weights, target strategies, ranking of wrong labels.

    python benchmarks/car_defaults.py [--seeds 0 1 2] [--only VARIANT ...] [--set FIELD=VALUE ...]
    python benchmarks/car_defaults.py --cifar10 FOLDER --seeds 0 \\
        --only penalty_weight=0.5 penalty_weight=0.9 penalty_weight=2 \\
        --set model.name=cnn --set model.width=16 --set train.epochs=30

For each variant of CAR, on digits with 40 % symmetric noise (true class excluded), it prints means
over seeds: the test accuracy of the last epoch, the memorised false labels, the correction
accuracy (argmax t), and the AUROC with which each candidate ranks the wrong labels. Candidates are
the target at the given label (t_y), the running mean of p at the given label over all visits (mean
p_y), the mean margin, tau, and the verdict (quality). FOLDER holds train.parquet and test.parquet
of CIFAR-10 from the Hugging Face hub, of which the first 4,000 training and 2,000 test images are
used.
"""

import argparse
import io
import tempfile
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from surelabel.api import fit
from surelabel.overrides import parsed_assignment
from surelabel.runs.samples import TopK

VARIANTS = {
    "penalty_weight=0.2": {"method.penalty_weight": 0.2},
    "penalty_weight=0.5": {"method.penalty_weight": 0.5},
    "penalty_weight=0.9": {"method.penalty_weight": 0.9},
    "penalty_weight=2": {"method.penalty_weight": 2.0},
    "default": {},
    "threshold=0.95": {"method.threshold": 0.95},
    "targets=none": {"method.targets": "none"},
    "targets=temporal_ensembling": {"method.targets": "temporal_ensembling"},
    "confidence=max_probability": {"method.confidence": "max_probability"},
}

BASE = {
    "method": "car",
    "noise": {"kind": "symmetric", "rate": 0.4},
    "train.threads": 1,
    "train.second_opinion": False,
    "model.features": "none",
}

COLUMNS = ("test", "best test", "memorised", "corrected", "t_y", "mean p_y", "margin", "tau", "quality")


def measure(data: str, settings: dict, seed: int, folder: Path) -> list[float]:
    """Train once and return the figures, in the order of COLUMNS."""
    run = fit(data, folder / str(len(list(folder.iterdir()))), settings={**settings, "train.seed": seed})
    rows, samples, labels = run.metrics(), run.samples(), run.labels()
    given = labels["given"].to_numpy()
    wrong = given != labels["clean"].to_numpy()
    target = TopK.from_table(samples, "target", len(run.data()["class_names"])).dense()[np.arange(len(given)), given]
    scores = [
        target,
        *(
            samples[name].to_numpy().astype(float)
            for name in ("mean_given_probability", "mean_margin", "tau", "quality")
        ),
    ]
    tests = [row["tests"]["test"]["top1"] for row in rows]
    last = rows[-1]
    corrected = last.get("correction_accuracy", float("nan"))
    aurocs = [roc_auc_score(wrong, -score) for score in scores]
    return [tests[-1], max(tests), last["false_labels"]["memorised"], corrected, *aurocs]


def cifar_subset(folder: Path, out: Path, num_train: int = 4000, num_test: int = 2000) -> str:
    """Write the first images of CIFAR-10 as an .npz and return its path."""
    import pyarrow.parquet as pq
    from PIL import Image

    arrays = {}
    for part, suffix, size in (("train", "", num_train), ("test", "_test", num_test)):
        table = pq.read_table(folder / f"{part}.parquet", columns=["img", "label"]).slice(0, size)
        images = (Image.open(io.BytesIO(row["bytes"])).convert("RGB") for row in table["img"].to_pylist())
        arrays |= {
            f"x{suffix}": np.stack([np.asarray(image) for image in images]),
            f"y{suffix}": table["label"].to_numpy(),
        }
    np.savez(out, **arrays)
    return str(out)


def main() -> None:
    """Print one line per variant."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--cifar10", type=Path)
    parser.add_argument("--set", action="append", default=[], dest="assignments")
    parser.add_argument("--only", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    arguments = parser.parse_args()
    base = BASE | dict(map(parsed_assignment, arguments.assignments))
    print(f"{'variant':30}" + "".join(f"{name:>11}" for name in COLUMNS), flush=True)
    for name in arguments.only:
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as scratch:
            data = cifar_subset(arguments.cifar10, Path(scratch) / "cifar.npz") if arguments.cifar10 else "digits"
            rows = [measure(data, base | VARIANTS[name], seed, Path(folder)) for seed in arguments.seeds]
        print(f"{name:30}" + "".join(f"{value:11.4f}" for value in np.mean(rows, axis=0)), flush=True)


if __name__ == "__main__":
    main()
