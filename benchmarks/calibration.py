"""Does the audit know how many labels are wrong? Its estimates beside the truth, which it never sees.

    python benchmarks/calibration.py --folder runs/calibration                 # digits, symmetric 20, 40 and 60 %: train what is missing
    python benchmarks/calibration.py --folder runs/calibration --write docs/results
    python benchmarks/calibration.py --runs runs/leaderboard/*                 # any finished runs whose clean labels are known

The limits of the fit (src/surelabel/verdicts/curve.py) were set on runs with seeds 0 to 2; SEEDS here are others.
Promised for each run: estimated rate within 5 points of the true one; calibration error of P(wrong) over 10 bins of equal counts at
most 0.05; expected number of wrong labels among the first 200, 400 and 600 within 10 % of the real one.
"""

import argparse
from pathlib import Path

from leaderboard import SETTINGS, train_all

import surelabel

RATES, SEEDS, BUDGETS = (0.2, 0.4, 0.6), (3, 4, 5), (200, 400, 600)
EPOCHS = 200
ARMS: dict[str, dict] = {"car": {}, "car, lambda 0.2": {"penalty_weight": 0.2}}
"""Our default, and what noisy validation chose on digits (docs/results/README.md)."""
HEADER = ["run", "true rate", "estimated", "interval", "calibration error", "AUROC", *(f"first {n}" for n in BUDGETS)]


def jobs(folder: Path) -> list[tuple[dict, str]]:
    """Configurations and folders."""
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


def row(folder: str) -> tuple[list[str], bool]:
    """One run's estimates, and whether all that was promised holds."""
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


def main() -> None:
    """Train, then print the table; first N: expected / real number of wrong labels among them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("runs/calibration"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", nargs="+", metavar="RUN", help="finished runs to audit instead of training any")
    parser.add_argument("--write", type=Path, metavar="DIR", help="write the table there as calibration.md")
    options = parser.parse_args()
    folders = options.runs
    if folders is None:
        planned = jobs(options.folder)
        train_all(planned, options.workers)
        folders = [folder for _, folder in planned]
    rows = [row(folder) for folder in folders if (Path(folder) / "done").is_file()]
    lines = [f"| {' | '.join(HEADER)} |", f"|{'---|' * len(HEADER)}"]
    lines += [f"| {' | '.join(cells)}{'' if holds else ' (missed)'} |" for cells, holds in rows]
    lines += ["", f"All promised holds in {sum(holds for _, holds in rows)} of {len(rows)} runs."]
    print("\n".join(lines))
    if options.write:
        text = f"# Calibration\n\n    python benchmarks/calibration.py --folder {options.folder}\n\n"
        (options.write / "calibration.md").write_text(text + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
