"""Compare all methods on digits, with the same network, settings and number of epochs.

    python benchmarks/leaderboard.py --folder runs/leaderboard [--workers 2]
        trains what is missing and prints the tables
    python benchmarks/leaderboard.py --folder runs/leaderboard --write docs/results
        also writes them as Markdown and CSV
    python benchmarks/leaderboard.py --folder runs/leaderboard --tune
        chooses the entries of CHOSEN
    python benchmarks/leaderboard.py --folder runs/leaderboard --explain --only forward
        prints memorisation and estimates of finished runs

The noise is 40 % symmetric (true class excluded) or 30 % pair flip. Seeds are 0, 1 and 2; the four
methods with the best test accuracy in the last epoch also get seeds 3 and 4. Finished runs are
kept in the folder, and interrupted ones are resumed.

Hyperparameters are the published ones unless CHOSEN overrides them. Its entries were chosen from
the candidates that methods declare (at most three then; six for sop), on seed 0, by the
accuracy of the last epoch on a NOISY validation split of a tenth (mean over both noises), so no
clean label was used. Ties are broken by the mean over the last ten epochs.
"""

import argparse
import csv
import json
import statistics
from collections.abc import Iterator
from pathlib import Path

from training_runs import measure, slug, train_all

from surelabel import methods

EPOCHS = 100
NOISES = {"symmetric 40 %": {"kind": "symmetric", "rate": 0.4}, "pair 30 %": {"kind": "pair", "rate": 0.3}}
SETTINGS = {
    "data": {"source": "digits"},
    "model": {"name": "mlp", "options": {"widths": [256, 256], "norm": "batch"}},
    "optimiser": {"name": "sgd", "rate": 0.05, "weight_decay": 5e-4, "schedule": {"kind": "cosine"}},
    "train": {"epochs": EPOCHS, "batch_size": 64, "threads": 1, "device": "cpu", "second_opinion": False},
}
CHOSEN: dict[str, dict] = {
    "beta_mixture": {"variant": "dynamic"},
    "bootstrap": {"target": "soft"},
    "car": {"penalty_weight": 0.2},
    "dac": {"warm_up": 0},
    "elr": {"regularisation": 7},
    "elr_plus": {"regularisation": 7},
    "gce": {"truncated": True},
    "imae": {"temperature": 16.0},
    "joint_optimization": {"begin": 5},
    "mentornet": {"percentile": 0.5},
    "mixup": {"alpha": 8.0},
    "nce": {"active": "nfl"},
    "noise_adaptation": {"patience": 2},
    "pencil": {"backbone": 3, "label_rate": 4000.0},
    "sat": {"correction_start": 2},
    "selc": {"correction_start": 2},
    "sl": {"forward_weight": 0.01},
    "sop": {"u_rate": 10.0, "v_rate": 100.0},
    "ssr": {"relabel_threshold": 0.8},
}
"""The choices of `--tune` that are not the default."""
NUM_BEST, MORE_SEEDS = 4, (3, 4)
COLUMNS = ("method", "seeds", "test", "std", "best_oracle", "auroc", "correction", "memorised", "passes")
ORIGIN = (
    "    python benchmarks/leaderboard.py --folder runs/leaderboard --write docs/results",
    "",
    "1,438 training digits, MLP 256-256, 100 epochs, on 2 CPU cores; what the columns mean and how options were",
    "chosen: [the leaderboard](index.md#the-leaderboard).",
)
"""What stands above a table."""


def make_config(method: str, noise: str, seed: int, options: dict, validation: float = 0.0) -> dict:
    """Return the configuration of one run."""
    return {
        **SETTINGS,
        "data": {**SETTINGS["data"], "validation_fraction": validation},
        "noise": NOISES[noise],
        "method": {"name": method, "options": options},
        "train": {**SETTINGS["train"], "seed": seed},
    }


def run_folder(folder: Path, method: str, noise: str, seed: int) -> str:
    """Return the folder of a run of the table."""
    return str(folder / f"{method}--{slug(noise)}--{seed}")


def count_passes(method: str) -> str:
    """Return the forward and backward passes of a training step, as the method declares them."""
    found = methods.find(method)
    return f"{found.forward_passes:g} + {found.backward_passes:g}"


def make_table(folder: Path, noise: str, names: list[str]) -> list[dict]:
    """Return one row per method, sorted by test accuracy in the last epoch."""
    rows = []
    for name in names:
        runs = [f for seed in range(5) if (Path(f := run_folder(folder, name, noise, seed)) / "done").exists()]
        if not runs:
            continue
        figures = [measure(run) for run in runs]
        mean = {key: statistics.fmean(figure[key] for figure in figures) for key in figures[0]}
        std = statistics.stdev([f["test"] for f in figures]) if len(figures) > 1 else 0.0
        rows.append({"method": name, "seeds": len(runs), "std": std, **mean, "passes": count_passes(name)})
    return sorted(rows, key=lambda row: -row["test"])


def as_markdown(rows: list[dict]) -> Iterator[str]:
    """Yield the lines of the table in Markdown."""
    yield (
        "| method | seeds | test, last epoch | test, best epoch (oracle) | AUROC of verdict | correction | memorised "
        "| passes |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        yield (
            f"| {row['method']} | {row['seeds']} | {row['test']:.3f} ± {row['std']:.3f} | {row['best_oracle']:.3f} | "
            f"{row['auroc']:.3f} | {row['correction']:.3f} | {row['memorised']:.3f} | {row['passes']} |"
        )


def explain(folder: Path, names: list[str]) -> None:
    """Print memorised false labels under symmetric noise, and the estimates that methods noted."""
    from surelabel.runs.run_dir import RunDir

    noise = next(iter(NOISES))
    for name in names:
        rows = [RunDir.open(run_folder(folder, name, noise, seed)).metrics() for seed in (0, 1, 2)]
        memorised = [run[-1]["false_labels"]["memorised"] for run in rows]
        print(
            f"{name}: memorised false labels in the last epoch, seeds 0, 1, 2:",
            *(f"{fraction:.3f}" for fraction in memorised),
        )
        noted = [row for row in rows[0] if "estimates" in row]
        for row in noted[:: max(1, len(noted) // 10)]:
            estimates = {key: diagonal_mean(value) for key, value in row["estimates"].items()}
            fraction = row.get("false_labels", {}).get("memorised", float("nan"))
            print(f"    seed 0, epoch {row['epoch']}, memorised {fraction:.3f}:", estimates)


def diagonal_mean(value: object) -> object:
    """Return the mean of a matrix's diagonal; anything else unchanged."""
    if isinstance(value, list) and value and isinstance(value[0], list):
        return statistics.fmean(value[i][i] for i in range(len(value)))
    return value


def list_options(method: str) -> list[dict]:
    """Return the options of the candidates that a method declares, the default first."""
    from surelabel.config import validate
    from surelabel.tuning import list_candidates

    if not methods.find(method).candidates.values:
        return []
    found = list_candidates(validate({**SETTINGS, "method": method}))
    return [dict(candidate.options) for candidate in found]


def tune(folder: Path, names: list[str], workers: int) -> None:
    """Train every candidate on seed 0 with a noisy validation split, and print the winners."""
    candidates = {name: list_options(name) for name in names}
    jobs = {
        (name, number, noise): (
            make_config(name, noise, 0, options, 0.1),
            str(folder / f"tune-{name}-{number}-{slug(noise)}"),
        )
        for name in names
        for number, options in enumerate(candidates[name])
        for noise in NOISES
    }
    train_all(list(jobs.values()), workers)
    from surelabel.runs.run_dir import RunDir

    for name in names:
        scores = []
        for number, options in enumerate(candidates[name]):
            runs = [RunDir.open(jobs[name, number, noise][1]).metrics() for noise in NOISES]
            last, late = (
                statistics.fmean(row["validation"]["top1"] for rows in runs for row in rows[-count:])
                for count in (1, 10)
            )
            scores.append((last, late, -number, options))
        if scores:
            shown = ", ".join(f"{json.dumps(options)}: {last:.4f} ({late:.4f})" for last, late, _, options in scores)
            print(f"{name}: {json.dumps(max(scores, key=lambda s: s[:3])[3])}   (noisy validation accuracy {shown})")


def main() -> None:
    """Train what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=methods.names())
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--explain", action="store_true", help="memorisation and estimates of finished runs")
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.explain:
        explain(arguments.folder, arguments.only)
        return
    if arguments.tune:
        tune(arguments.folder, arguments.only, arguments.workers)
        return
    seeds = {(name, noise): [0, 1, 2] for name in arguments.only for noise in NOISES}
    for _ in range(2):  # once for all methods, then with more seeds for the best
        jobs = [
            (make_config(name, noise, seed, CHOSEN.get(name, {})), run_folder(arguments.folder, name, noise, seed))
            for (name, noise), wanted in seeds.items()
            for seed in wanted
        ]
        train_all([job for job in jobs if not (Path(job[1]) / "done").exists()], arguments.workers)
        for noise in NOISES:
            for row in make_table(arguments.folder, noise, arguments.only)[:NUM_BEST]:
                seeds[row["method"], noise] = [0, 1, 2, *MORE_SEEDS]
    for noise in NOISES:
        rows = make_table(arguments.folder, noise, arguments.only)
        print(f"\n## {noise}\n", *as_markdown(rows), sep="\n")
        if arguments.write:
            arguments.write.mkdir(parents=True, exist_ok=True)
            name = f"leaderboard-{slug(noise).strip('-')}"
            page = [f"# Leaderboard: digits, {noise}", "", *ORIGIN, "", *as_markdown(rows), ""]
            (arguments.write / f"{name}.md").write_text("\n".join(page), encoding="utf-8")
            with (arguments.write / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, COLUMNS)
                writer.writeheader()
                writer.writerows({key: row[key] for key in COLUMNS} for row in rows)


if __name__ == "__main__":
    main()
