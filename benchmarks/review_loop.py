"""Review runs with known true labels and measure what decisions do to the verdict.

    python benchmarks/review_loop.py --seeds 10

Every case is a run directory: made-up verdicts that are well calibrated, too high, too low, or
cannot tell (1,000 rows, 20 % wrong), and stored runs of the tests. A reviewer who knows the truth
decides on the first suspects, on random labels, or on both, through the journal, as the page does;
`surelabel.audit` does the rest. Gaps, widths and calibration errors in points, means over seeds.
"""

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm

import surelabel
from surelabel.runs.decisions import FILE_NAME, Journal, Wish, random_order
from surelabel.runs.run_dir import SCHEMA_VERSION, RunDir
from surelabel.runs.samples import TopK
from surelabel.verdicts import Audit
from surelabel.verdicts.measures import calibration_error

CASES = {
    "well calibrated": (0.0, 1.0, 0.7),
    "too high": (1.5, 1.0, 1.8),
    "too low": (-2.0, 1.0, 2.2),
    "cannot tell": (1.0, 0.5, 2.5),
    "too high, bounds wrong": (1.5, 1.0, 0.5),
    "too low, bounds wrong": (-2.0, 1.0, 0.5),
}
"""Shift and scale of the log odds, and how far their bounds are away."""
STORED = ("digits", "imbalanced", "photos")
PLANS = ((50, 0), (100, 0), (0, 100), (100, 100))
"""Numbers of first suspects and of random labels that are reviewed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    print("| case | reviewed | gap before | after | width before | after | error of the rest before | after | holds |")
    print("|---" * 9 + "|")
    for case in (*CASES, *STORED):
        for plan in PLANS:
            rows = np.array([measure(case, seed, *plan) for seed in range(options.seeds)])
            cells = [f"{value:.1f}" for value in 100 * rows[:, :6].mean(0)]
            name = " + ".join(f"{count} {kind}" for count, kind in zip(plan, ("first", "random"), strict=True) if count)
            print(f"| {case} | {name} | {' | '.join(cells)} | {rows[:, 6].mean():.0%} |", flush=True)


def measure(case: str, seed: int, top: int, random: int) -> list[float]:
    """Return gap, width and calibration error before and after, and if the interval holds."""
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(case, seed, Path(folder) / "run")
        before = surelabel.audit(run)
        review(run, before, top, random)
        after = surelabel.audit(run)
        rest = set(after.columns["id"][: after.num_open].tolist())
        true = float((before.columns["given"] != before.columns["clean"]).mean())
        low, high = after.noise_rate.interval
        figures = zip(*(figures_of(audit, rest, true) for audit in (before, after)), strict=True)
        return [*(value for pair in figures for value in pair), float(low - 1e-9 <= true <= high + 1e-9)]


def figures_of(audit: Audit, rest: set[str], true: float) -> Iterator[float]:
    low, high = audit.noise_rate.interval
    rows = np.array([str(id) in rest for id in audit.columns["id"]])
    wrong = audit.columns["given"] != audit.columns["clean"]
    yield abs(audit.noise_rate.rate - true)
    yield high - low
    yield calibration_error(audit.columns["p_wrong"][rows], wrong[rows])


def review(run: RunDir, audit: Audit, top: int, random: int) -> None:
    """Decide truly on the first suspects, then on random labels."""
    journal = Journal(run.path / FILE_NAME)
    columns = (audit.columns[name].tolist() for name in ("id", "given", "clean"))
    truth = {str(id): (given, clean) for id, given, clean in zip(*columns, strict=True)}
    first = [str(id) for id in audit.columns["id"][:top]]
    for id in first:  # one by one: decisions made at once are no looks
        journal.append([wish(id, *truth[id])])
    if random:
        draw, ids = journal.draw(random), run.labels()["id"].to_pylist()
        drawn = [ids[at] for at in random_order(draw.seed, ids)[: draw.count]]
        for id in drawn:
            if id not in first:
                journal.append([wish(id, *truth[id], "random")])


def wish(id: str, given: str, clean: str, queue: str | None = None) -> Wish:
    return Wish(id, given, "keep", queue=queue) if given == clean else Wish(id, given, "relabel", clean, queue=queue)


def make_run(case: str, seed: int, path: Path, num_rows: int = 1000) -> RunDir:
    """Copy a stored run, or write one with made-up P(wrong) and bounds."""
    if case in STORED:
        shutil.copytree(Path(__file__).parents[1] / "tests" / "stored_runs" / case, path)
        return RunDir(path)
    shift, scale, width = CASES[case]
    rng, num_classes = np.random.default_rng(seed), 10
    wrong = rng.random(num_rows) < 0.2
    score = np.where(wrong, rng.normal(2, 1.8, num_rows), rng.normal(-3.5, 1.8, num_rows))
    odds = scale * (logit(0.2) + norm.logpdf(score, 2, 1.8) - norm.logpdf(score, -3.5, 1.8)) + shift
    clean = rng.integers(0, num_classes, num_rows)
    given = np.where(wrong, (clean + 1) % num_classes, clean)
    p_wrong, low, high = (expit(odds + end) for end in (0, -width, width))
    soft = np.full((num_rows, num_classes), 1 / num_classes, dtype=np.float32)
    true_class = np.tile((p_wrong / (num_classes - 1))[:, None], num_classes).astype(np.float32)
    true_class[np.arange(num_rows), given] = 1 - p_wrong
    ids, split = np.array([f"{row:05d}" for row in range(num_rows)]), np.full(num_rows, "train")
    zeros, run = np.zeros(num_rows, dtype=np.int32), RunDir(path)
    path.mkdir()
    run.write_table("labels.parquet", {"id": ids, "given": given, "clean": clean, "split": split})
    samples = {"id": ids, "row": np.arange(num_rows), "split": split}
    samples |= {"verdict": np.full(num_rows, "training"), "given": given}
    samples |= {"prediction": clean, "quality": 1 - p_wrong, "suggested": clean, "suggested_probability": p_wrong}
    samples |= {"given_probability": 1 - p_wrong, "mean_margin": -odds, "first_learned": zeros, "forgotten": zeros}
    samples |= {
        "tau": 1 - p_wrong,
        "mean_given_probability": 1 - p_wrong,
        "p_wrong": p_wrong,
        "p_wrong_low": low,
        "p_wrong_high": high,
    }
    run.write_samples(
        {**samples, "target": soft, "probability": soft, "true_class": TopK.from_dense(true_class, given)}
    )
    names = [str(name) for name in range(num_classes)]
    sizes = {"num_train": num_rows, "num_validation": 0, "input_shape": [1]}
    run.write_json("data.json", {"schema": SCHEMA_VERSION, "class_names": names, "fingerprint": "none", **sizes})
    (path / "done").touch()
    return run


if __name__ == "__main__":
    main()
