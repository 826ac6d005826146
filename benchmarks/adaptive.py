"""A laboratory: any methods and options over a fixed grid of tasks, resumable.

    python benchmarks/adaptive.py --folder DIR --seeds 10 11 --tasks digits40 pair30
        trains what is missing of the grid and prints the tables
    python benchmarks/adaptive.py --folder DIR --seeds 10 --only cross_entropy car@penalty_weight=2
        some entries: a method at its defaults, or with options behind @, separated by commas
    python benchmarks/adaptive.py --folder DIR --seeds 0 1 2 --cifar10 F --cifar100 F --news F
        the whole grid, with the data of the Hugging Face hub and NoisyAG-News
    python benchmarks/adaptive.py --list
        the tasks

Choices are made on seeds 10 to 12; reported figures come from seeds 0 to 2. Figures are those of
the last epoch; "best" is the best epoch by test labels, which no user has. Ranks are means over
the tasks that are not costly, among the entries that have finished all of them; of the grid of
penalty weights of car only the default counts. Costly tasks are trained for COSTLY only.
"""

import argparse
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from adaptive_tasks import TASKS, Task
from training_runs import measure, slug, train_all

from surelabel.overrides import parsed_assignment

CAR_GRID = tuple(f"car@penalty_weight={weight}" for weight in ("0.2", "0.5", "0.9", "2", "10"))
COSTLY = ("cross_entropy", "elr", "sop", "selc", "car", "adaptive_car", *CAR_GRID)
FIGURES = ("test", "best_oracle", "auroc", "correction", "memorised")
Row = dict[str, float]


def parse_entry(entry: str) -> dict[str, Any]:
    """Return the method of an entry such as car@penalty_weight=2,momentum=0.8."""
    name, _, options = entry.partition("@")
    return {"name": name, "options": dict(map(parsed_assignment, options.split(",") if options else []))}


def run_folder(folder: Path, task: Task, entry: str, seed: int) -> str:
    """Return the folder of a run."""
    return str(folder / "runs" / f"{task.name}--{slug(entry)}--{seed}")


def make_jobs(options: argparse.Namespace, tasks: list[Task]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the runs that are missing."""
    for task in tasks:
        for entry in options.only:
            if task.is_costly and not options.costly and entry not in COSTLY:
                continue
            for seed in options.seeds:
                folder = run_folder(options.folder, task, entry, seed)
                if (Path(folder) / "done").exists():
                    continue
                config = task.config(options.folder, vars(options))
                train = {"threads": 1, "device": "cpu", "second_opinion": False, "seed": seed, **config["train"]}
                yield {**config, "method": parse_entry(entry), "train": train}, folder


def make_rows(options: argparse.Namespace, task: Task) -> dict[str, Row]:
    """Return the mean figures of each entry with all seeds finished, the best first."""
    rows = {}
    for entry in options.only:
        runs = [run_folder(options.folder, task, entry, seed) for seed in options.seeds]
        if all((Path(run) / "done").exists() for run in runs):
            figures = [measure(run) for run in runs]
            rows[entry] = {name: statistics.fmean(f[name] for f in figures) for name in FIGURES}
    return dict(sorted(rows.items(), key=lambda pair: -pair[1]["test"]))


def rank(rows: dict[str, Row]) -> dict[str, float]:
    """Return the rank of each entry by test accuracy, the mean rank for equal ones."""
    tests = [row["test"] for row in rows.values()]
    return {
        name: 1 + sum(test > row["test"] for test in tests) + (tests.count(row["test"]) - 1) / 2
        for name, row in rows.items()
    }


def print_tables(options: argparse.Namespace, tasks: list[Task]) -> None:
    """Print a table for each task, and the mean ranks."""
    tables = {task.name: make_rows(options, task) for task in tasks}
    for name, rows in tables.items():
        print(f"\n## {name}, seeds {' '.join(map(str, options.seeds))}\n")
        print("| entry | test | best (oracle) | AUROC | correction | memorised |\n|---|---|---|---|---|---|")
        for entry, row in rows.items():
            print(f"| {entry} |", " | ".join(f"{row[figure]:.3f}" for figure in FIGURES), "|")
    ranked = [task.name for task in tasks if not task.is_costly]
    entries = [e for e in options.only if e not in CAR_GRID and all(e in tables[name] for name in ranked)]
    ranks = [rank({entry: tables[name][entry] for entry in entries}) for name in ranked]
    means = {entry: statistics.fmean(one[entry] for one in ranks) for entry in entries} if ranks else {}
    print("\n## Mean rank over", *ranked, "\n")
    for entry, value in sorted(means.items(), key=lambda pair: pair[1]):
        print(f"{value:6.2f}  {entry}")


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    from surelabel import methods

    single = [name for name in methods.names() if methods.find(name).forward_passes <= 1]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/adaptive"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[10])
    parser.add_argument("--tasks", nargs="+", choices=[task.name for task in TASKS], metavar="TASK")
    parser.add_argument("--only", nargs="+", metavar="ENTRY", default=[*single, *CAR_GRID])
    parser.add_argument("--costly", action="store_true", help="train costly tasks for all entries")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    for name in ("cifar10", "cifar100", "news"):
        parser.add_argument(f"--{name}", type=Path, metavar="FOLDER")
    return parser.parse_args()


def main() -> None:
    """Train what is missing and print the tables."""
    options = parse()
    if options.list:
        print("\n".join(f"{task.name:12}{task.source:16}{'costly' if task.is_costly else ''}" for task in TASKS))
        return
    tasks = [task for task in TASKS if options.tasks is None or task.name in options.tasks]
    for task in tasks:
        if task.needs and getattr(options, task.needs) is None:
            print(f"(no {task.name}: it needs --{task.needs} FOLDER)")
    tasks = [task for task in tasks if not task.needs or getattr(options, task.needs)]
    jobs = list(make_jobs(options, tasks))
    if jobs:
        train_all(jobs, options.workers)
    print_tables(options, tasks)


if __name__ == "__main__":
    main()
