"""Measure what the checksum of a resume state costs when it is saved, and when it is read.

    python benchmarks/checksum_cost.py [--mib 1024] [--pairs 5] [--folder DIR]

A state of random numbers is saved with its checksum, as a run does it, and without, in pairs and in
random order within a pair. CPU seconds count all threads of the process; other programs on the
machine change them less than the seconds that pass. `verify` is what a reader does first.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from surelabel import files
from surelabel.engine.state_file import write_state
from surelabel.runs.run_dir import RunDir

NAME = "state.safetensors"


def measure(action: Callable[[], Any]) -> tuple[float, float]:
    """Return the CPU seconds and the seconds that an action takes."""
    began = time.process_time(), time.perf_counter()
    action()
    return time.process_time() - began[0], time.perf_counter() - began[1]


def main() -> None:
    """Print the medians as a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=1024, help="size of the state")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--folder", help="a folder on the disk to measure; by default one for temporary files")
    options = parser.parse_args()
    state = {"weights": torch.randn(options.mib, 2**18)}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder, NAME)

        def save(file: Any) -> None:
            write_state(file, state)

        actions = {
            "save without": lambda: files.replace_stream(path, save),
            "save with": lambda: RunDir(folder).write_stream(NAME, save),
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in (*actions, "verify")}
        for name in actions:
            actions[name]()  # the first of each is not measured
        for _ in range(options.pairs):
            for name in random.sample(list(actions), len(actions)):
                found[name].append(measure(actions[name]))
            actions["save with"]()
            found["verify"].append(measure(lambda: RunDir(folder).checked(NAME)))
    print(f"{options.mib} MiB, median of {options.pairs}\n\n| | CPU s | s |\n|---|---|---|")
    for name, times in found.items():
        cpu, passed = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"| {name} | {cpu:.2f} | {passed:.2f} |")


if __name__ == "__main__":
    main()
