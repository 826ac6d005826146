"""Compare the audit's estimates of how many labels are wrong with the truth, which it never sees.

    python benchmarks/calibration.py --folder runs/calibration
        trains what is missing: digits with 20, 40 and 60 % symmetric noise
    python benchmarks/calibration.py --runs runs/leaderboard/*
        audits any finished runs with known clean labels, by method

The limits of the fit (src/surelabel/verdicts/calibration.py) were set on runs with seeds 0 to 2;
SEEDS are different ones. We promise for each run: the estimated rate is within 5 points of the
true one, the calibration error of P(wrong) over 10 bins of equal counts is at most 0.05, and the
expected number of wrong labels among the first 200, 400 and 600 is within 10 % of the real one.
"""

import argparse
import statistics
from pathlib import Path

from leaderboard import SETTINGS, train_all

import surelabel
from surelabel.runs.run_dir import RunDir

RATES, SEEDS, BUDGETS = (0.2, 0.4, 0.6), (3, 4, 5), (200, 400, 600)
EPOCHS = 200
ARMS: dict[str, dict] = {"car": {}, "car, lambda 0.2": {"penalty_weight": 0.2}}
"""Our default, and the choice of noisy validation on digits (docs/results/README.md)."""
HEADER = ["run", "true rate", "estimated", "interval", "calibration error", "AUROC", *(f"first {n}" for n in BUDGETS)]


def make_jobs(folder: Path) -> list[tuple[dict, str]]:
    """Return configurations and run folders."""
    return [
        (
            {
                **SETTINGS,
                "noise": {"kind": "symmetric", "rate": rate},
                "method": {"name": "car", "options": options},
                "train": {**SETTINGS["train"], "epochs": EPOCHS, "seed": seed},
            },
            str(folder / f"{name.replace(', ', '-').replace(' ', '-')}--{rate:g}--{seed}"),
        )
        for name, options in ARMS.items()
        for rate in RATES
        for seed in SEEDS
    ]


def make_row(folder: str) -> tuple[list[str], bool]:
    """Return the estimates of one run, and whether all promises hold."""
    audit = surelabel.audit(folder)
    found, (low, high) = audit.measures(), audit.noise_rate.interval or (0.0, 0.0)
    is_wrong = audit.columns["given"] != audit.columns["clean"]
    counts = [(audit.expected(size).num_wrong, int(is_wrong[:size].sum())) for size in BUDGETS if size <= len(audit)]
    true, estimated, error = (found[n] for n in ("wrong_labels", "estimated_wrong_labels", "calibration_error"))
    holds = abs(true - estimated) <= 0.05 and error <= 0.05
    holds = holds and all(abs(expected - real) <= 0.1 * real for expected, real in counts)
    cells = [Path(folder).name, f"{true:.3f}", f"{estimated:.3f}", f"{low:.2f} to {high:.2f}", f"{error:.3f}"]
    cells += [f"{found.get('quality_auroc', float('nan')):.4f}"]
    return [*cells, *(f"{expected:.0f} / {real}" for expected, real in counts)], holds


def summarise_by_method(folders: list[str]) -> list[str]:
    """Return a table by method and noise: means over runs, and intervals that hold the truth."""
    groups: dict[tuple[str, str], list[tuple[float, float, bool]]] = {}
    for folder in folders:
        audit, config = surelabel.audit(folder), RunDir.open(folder).config()
        found, (low, high) = audit.measures(), audit.noise_rate.interval or (0.0, 1.0)
        true = found["wrong_labels"]
        noise = "none" if config.noise is None else f"{config.noise.kind} {config.noise.rate:g}"
        values = abs(true - found["estimated_wrong_labels"]), found["calibration_error"], low <= true <= high
        groups.setdefault((config.method.name, noise), []).append(values)
    lines = [
        "| method | noise | runs | gap of the rate | calibration error | intervals that hold the truth |",
        f"|{'---|' * 6}",
    ]
    for (method, noise), rows in sorted(groups.items()):
        gap, error, held = (statistics.fmean(column) for column in zip(*rows, strict=True))
        lines.append(f"| `{method}` | {noise} | {len(rows)} | {gap:.3f} | {error:.3f} | {round(held * len(rows))} |")
    return lines


def check_promises(folders: list[str]) -> list[str]:
    """Return a table with one row per run, and the number of runs that keep all promises."""
    rows = [make_row(folder) for folder in folders]
    lines = [f"| {' | '.join(HEADER)} |", f"|{'---|' * len(HEADER)}"]
    lines += [f"| {' | '.join(cells)}{'' if holds else ' (missed)'} |" for cells, holds in rows]
    return [*lines, "", f"All that is promised holds in {sum(holds for _, holds in rows)} of {len(rows)} runs."]


def main() -> None:
    """Train, then print the table; `first N` is the expected / real number of wrong labels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("runs/calibration"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", nargs="+", metavar="RUN", help="finished runs to audit instead of training any")
    options = parser.parse_args()
    if options.runs is None:
        planned = make_jobs(options.folder)
        train_all(planned, options.workers)
        print("\n".join(check_promises([folder for _, folder in planned])))
    else:
        print("\n".join(summarise_by_method([folder for folder in options.runs if (Path(folder) / "done").is_file()])))


if __name__ == "__main__":
    main()
