"""Judge what commands do on bad inputs: `judge` in a process of its own, `judge_here` in this one.

Right is an error of one line, or a result that the command says something about. Anything else is
wrong: a traceback, a process killed by a signal, no end in time, or success with nothing said.

    python tests/faults/judge_inputs.py --seed 0 --count 300 [--here]
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bad_input import BadInput

SECONDS = 30
"""How long a command may take."""


@dataclass(frozen=True)
class Verdict:
    """Whether a command did right, and what it said or how it failed."""

    is_right: bool
    said: str


def _verdict(code: int, out: str, error: str) -> Verdict:
    last = (error.strip() or out.strip() or "nothing").splitlines()[-1][:400]
    if "Traceback (most recent call last)" in error:
        return Verdict(False, f"traceback: {last}")
    if code < 0:
        return Verdict(False, f"killed by signal {-code}: {last}")
    if code == 0:
        return Verdict(bool(out.strip()), out.strip().splitlines()[-1][:200] if out.strip() else "nothing said")
    errors = [line for line in error.splitlines() if line.startswith("error: ")]
    return Verdict(len(errors) == 1 and error.splitlines()[-1] == errors[0], last)


def judge(case: "BadInput", folder: Path) -> Verdict:
    """Run a command on the input in an empty folder, in a process of its own."""
    case.write(folder)
    command = [sys.executable, "-m", "surelabel", *map(os.fsencode, case.arguments)]
    environment = {**os.environ, "SURELABEL_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=SECONDS, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return Verdict(False, f"no end within {SECONDS} s")
    return _verdict(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def judge_here(case: "BadInput", folder: Path) -> Verdict:
    """Run a command on the input in an empty folder, in this process."""
    from typer.testing import CliRunner

    from surelabel.cli import app

    def stop(*_: object) -> None:
        raise TimeoutError(f"no end within {SECONDS} s")

    case.write(folder)
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        with contextlib.chdir(folder):
            result = CliRunner().invoke(app, list(case.arguments), prog_name="surelabel")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        where = traceback.extract_tb(result.exception.__traceback__)[-1]
        text = " ".join(str(result.exception).split())[:200]
        return Verdict(False, f"{type(result.exception).__name__}: {text} ({where.filename}:{where.lineno})")
    return _verdict(result.exit_code, result.stdout, result.stderr)


def main() -> int:
    """Judge generated inputs, and list those that went wrong."""
    from bad_inputs import generate  # beside this script

    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--count", type=int, default=300)
    options.add_argument("--here", action="store_true", help="in this process: fast")
    chosen = options.parse_args()
    counts: Counter[bool] = Counter()
    for number, case in enumerate(generate(chosen.seed, chosen.count)):
        with tempfile.TemporaryDirectory() as folder:
            verdict = (judge_here if chosen.here else judge)(case, Path(folder))
        counts[verdict.is_right] += 1
        if not verdict.is_right:
            sys.stdout.write(f"{number}: {case.name!a}: {verdict.said!a}\n")
            sys.stdout.flush()
    sys.stdout.write(f"tried {sum(counts.values())}, right {counts[True]}, wrong {counts[False]}\n")
    return min(1, counts[False])


if __name__ == "__main__":
    sys.exit(main())
