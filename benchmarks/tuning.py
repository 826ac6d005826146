"""Compare what `surelabel tune` chooses with the best candidate by clean test labels.

    python benchmarks/tuning.py --folder runs/tuning [--methods elr] [--seeds 10 11] [--workers 2]
        digits with 30 % pair flips, the network and settings of the leaderboard
    python benchmarks/tuning.py --folder runs/tuning --tiny ROOT
        the `tiny` scale of `surelabel reproduce` with 40 % asymmetric noise; ROOT/cifar10 has the
        images

It tunes each method on each seed. Only afterwards does it train every candidate on all rows and
read the test accuracy of the last epoch. `lost` is the best candidate's test accuracy minus that of
the chosen one, and `cost` the training time of the search over that of one run on all rows.
Finished runs are kept in the folder.
"""

import argparse
import statistics
from pathlib import Path

from leaderboard import make_config

from surelabel import tune
from surelabel.config import MethodConfig, RunConfig, validate
from surelabel.jobs import Trial, run_all
from surelabel.runs.run_dir import RunDir
from surelabel.tuning import Tuning, write_results

COLUMNS = ("method", "seed", "chosen", "test", "best by test", "test", "lost", "cost", "tests of all candidates")


def make_tiny_config(method: str, seed: int, root: Path, folder: Path) -> RunConfig:
    """Return the configuration of CAR's row at scale `tiny`, with another method; make its data."""
    from surelabel.paper.prepare_data import prepare
    from surelabel.paper.tables import plan_trials

    cells = {"data": ["cifar10"], "noise": ["asymmetric:0.4"], "method": ["car"], "seed": ["0"]}
    (trial,) = plan_trials("table1", scale="tiny", only=cells, data=root.absolute(), folder=folder.absolute())
    for reason in prepare("tiny", root.absolute(), folder.absolute(), [trial], print).values():
        raise SystemExit(reason)
    train = trial.config.train.model_copy(update={"seed": seed, "second_opinion": False})
    return trial.config.model_copy(update={"method": MethodConfig(name=method), "train": train})


def train_candidates(tuning: Tuning, folder: Path, workers: int) -> tuple[dict[str, float], float]:
    """Return each candidate's test accuracy after training on all rows, and seconds per run."""
    trials = {
        name: Trial({"candidate": name}, result.candidate.apply(tuning.config))
        for name, result in tuning.results.items()
    }
    outcome = run_all(trials.values(), folder, workers=workers)
    accuracies, seconds = {}, []
    for name, trial in trials.items():
        if trial.name not in outcome.failed:
            rows = RunDir.open(folder / "runs" / trial.name).metrics()
            accuracies[name] = rows[-1]["tests"]["test"]["top1"]
            seconds.append(sum(row["seconds"] for row in rows))
    return accuracies, statistics.fmean(seconds)


def measure(config: RunConfig, folder: Path, workers: int) -> list[str]:
    """Tune, then train all candidates, and return the cells of the table."""
    tuning = tune(config, folder / f"{config.method.name}-{config.train.seed}", workers=workers)
    write_results(tuning)
    accuracies, seconds = train_candidates(tuning, folder, workers)
    chosen, best = tuning.chosen, max(accuracies, key=accuracies.get)
    cost = sum(result.seconds for result in tuning.results.values()) / seconds
    shown = "; ".join(f"{name}: {accuracy:.3f}" for name, accuracy in accuracies.items())
    results = [chosen, f"{accuracies[chosen]:.3f}", best, f"{accuracies[best]:.3f}"]
    lost = accuracies[best] - accuracies[chosen]
    return [config.method.name, str(config.train.seed), *results, f"{lost:.3f}", f"{cost:.1f}", shown]


def main() -> None:
    """Measure every method on every seed, and print the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", default=["elr", "car"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--tiny", type=Path, metavar="ROOT", help="CIFAR-10 features instead of digits")
    arguments = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|", sep="\n", flush=True)
    for method in arguments.methods:
        for seed in arguments.seeds:
            if arguments.tiny is None:
                config = validate(make_config(method, "pair 30 %", seed, {}))
            else:
                config = make_tiny_config(method, seed, arguments.tiny, arguments.folder)
            print(f"| {' | '.join(measure(config, arguments.folder, arguments.workers))} |", flush=True)


if __name__ == "__main__":
    main()
