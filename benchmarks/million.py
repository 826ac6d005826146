"""Measure every command on many labels: seconds and peak memory by rows and classes.

    python benchmarks/million.py --rows 10000 100000 1000000 --classes 10 1000

Rows are points around random centres in 16 dimensions, one centre per class; a tenth of the labels
are wrong. Each command is a process of its own: `plan`, `fit` for one epoch, `audit`, `report`,
`review` until it prints its address, the page until it has the first suspects, and `export`. A cell
has seconds, in brackets seconds of processor time, and the largest resident set of that process. A
process is stopped when its address space would exceed --most-gigabytes.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

NUM_FEATURES = 16
WRONG = 0.1
SPREAD = 0.35
"""Of the points around their centre, which are normal with deviation 1."""


class Cost(NamedTuple):
    """What a command took; `note` is the size of what it wrote, or why it failed."""

    seconds: float
    cpu: float
    gigabytes: float
    note: str = ""

    def __str__(self) -> str:
        times = f"{self.seconds:.1f} s ({self.cpu:.1f})"
        return f"{times}, {self.gigabytes:.2f} GB" + (f", {self.note}" if self.note else "")


COMMANDS = ("plan", "fit", "audit", "report", "review", "page", "export")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--method", default="car")
    parser.add_argument("--set", action="append", default=[], help="a setting of fit and plan")
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=COMMANDS)
    parser.add_argument("--most-gigabytes", type=float, default=12, help="address space of a process")
    parser.add_argument("--folder", type=Path, help="keep data and runs here, and reuse them")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {options.method} {' '.join(options.set)}")
    print(f"| rows | classes | {' | '.join(options.only)} |")
    print("|---" * (len(options.only) + 2) + "|")
    with tempfile.TemporaryDirectory(prefix="surelabel-million-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for num_classes in options.classes:
            for num_rows in options.rows:
                cells = measure(folder, num_rows, num_classes, options)
                print(f"| {num_rows:,} | {num_classes:,} | {' | '.join(map(str, cells))} |", flush=True)


def make_data(file: Path, num_rows: int, num_classes: int) -> None:
    """Write points around one centre per class, with wrong labels among them."""
    rng = np.random.default_rng(0)
    centre = rng.normal(size=(num_classes, NUM_FEATURES)).astype(np.float32)
    label = rng.integers(num_classes, size=num_rows)
    x = centre[label] + SPREAD * rng.normal(size=(num_rows, NUM_FEATURES)).astype(np.float32)
    is_wrong = rng.random(num_rows) < WRONG
    label[is_wrong] = rng.integers(num_classes, size=int(is_wrong.sum()))
    np.savez(file, x=x, y=label)


def measure(folder: Path, num_rows: int, num_classes: int, options: argparse.Namespace) -> list[Cost]:
    """Run the commands one after the other on data of this size."""
    data, run = folder / f"{num_rows}x{num_classes}.npz", folder / f"run-{num_rows}x{num_classes}"
    if not data.exists():
        make_data(data, num_rows, num_classes)
    settings = [word for setting in options.set for word in ("--set", setting)]
    training = [str(data), "--epochs", "1", "--batch-size", "512", "--method", options.method, *settings]
    commands = {
        "plan": ["plan", *training],
        "fit": ["fit", *training, "--out", str(run)],
        "audit": ["audit", str(run)],
        "report": ["report", str(run)],
        "export": ["export", str(run)],
    }
    found: dict[str, Cost] = {}
    for name in COMMANDS:
        if name not in options.only:
            continue
        if name in ("review", "page"):
            if name not in found:
                found["review"], found["page"] = open_review(run, options.most_gigabytes)
        else:
            found[name] = run_command(commands[name], options.most_gigabytes)
        if name == "report" and (file := run / "report.html").exists():
            found[name] = found[name]._replace(note=f"{file.stat().st_size / 1e6:.1f} MB")
    return [found[name] for name in options.only]


def start(words: Sequence[str], most_gigabytes: float) -> "subprocess.Popen[str]":
    most = int(most_gigabytes * 1e9)
    return subprocess.Popen(
        [sys.executable, "-m", "surelabel", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
    )


def run_command(words: Sequence[str], most_gigabytes: float) -> Cost:
    """Run a command to its end."""
    began = time.perf_counter()
    process = start(words, most_gigabytes)
    assert process.stdout is not None
    assert process.stderr is not None
    with tempfile.TemporaryFile("w+") as errors:
        process.stdout.read()
        errors.write(process.stderr.read())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        last = (errors.read().strip().splitlines() or [""])[-1]
    note = "" if process.returncode == 0 else f"FAILED {last[:100]}"
    return Cost(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9, note)


def open_review(run: Path, most_gigabytes: float) -> tuple[Cost, Cost]:
    """Start the review; return the cost up to its address, and of the page up to its suspects."""
    began = time.perf_counter()
    process = start(["review", str(run), "--no-open"], most_gigabytes)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    ready = Cost(time.perf_counter() - began, cpu(process.pid), peak(process.pid), "" if address else "FAILED")
    page = Cost(*[float("nan")] * 3)
    if address:
        root, key = address.split("#key=")
        opener = urllib.request.build_opener()
        opener.addheaders = [("x-surelabel-key", key)]
        began = time.perf_counter()
        opener.open(root).read()
        json.load(opener.open(f"{root}api/run"))
        rows = json.load(opener.open(f"{root}api/rows"))["rows"]
        spent = cpu(process.pid) - ready.cpu
        page = Cost(time.perf_counter() - began, spent, peak(process.pid), f"{len(rows)} suspects")
        json.load(opener.open(f"{root}api/progress"))
    process.terminate()
    process.communicate(timeout=60)
    return ready, page


def cpu(pid: int) -> float:
    """Return the processor time of a running process so far, in seconds."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak(pid: int) -> float:
    """Return the largest resident set of a running process so far, in gigabytes."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return float("nan")
    sizes = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    return sizes[0] * 1024 / 1e9 if sizes else float("nan")


if __name__ == "__main__":
    main()
