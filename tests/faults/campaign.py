"""The long campaign of faults: `make faults SEED=0`.

    python tests/faults/campaign.py --seed 0 [--only kills,hangs] [--count 20] [--keep FOLDER]

Prints a table (part, tried, right, wrong, not run) and every wrong case with what repeats it; exits
with 1 if any is wrong. `--only` chooses parts, `--count` the number of cases of each.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from bad_inputs import generate
from clock import run_clock
from damage import run_damage
from disks import run_disks
from environment import run_environment
from hangs import run_hangs
from hostile import run_hostile
from judge_inputs import judge
from kills import run_kills
from label_types import run_types
from outputs import run_outputs
from paths import run_paths
from services import run_services
from side_files import run_side_files
from tally import Options, Tally
from writers import run_writers


def run_inputs(options: Options) -> Tally:
    """Try bad data, configurations and options, each in a process of its own."""
    tally = Tally("inputs", planned=options.count or 300)
    for number, case in enumerate(generate(options.seed, tally.planned)):
        folder = options.folder / str(number)
        folder.mkdir(parents=True)
        verdict = judge(case, folder)
        tally.judge(
            f"{case.name!a} (input {number} of seed {options.seed})", None if verdict.is_right else verdict.said
        )
        shutil.rmtree(folder, ignore_errors=True)
    return tally


PARTS: dict[str, Callable[[Options], Tally]] = {
    "kills": run_kills,
    "inputs": run_inputs,
    "damage": run_damage,
    "clock": run_clock,
    "disks": run_disks,
    "hostile": run_hostile,
    "hangs": run_hangs,
    "services": run_services,
    "writers": run_writers,
    "environment": run_environment,
    "outputs": run_outputs,
    "types": run_types,
    "side_files": run_side_files,
    "paths": run_paths,
}


def main() -> int:
    """Run the parts, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(description="A campaign of faults against surelabel.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, of {','.join(PARTS)}")
    parser.add_argument("--count", type=int, help="cases of each part; by default each has its own number")
    parser.add_argument("--keep", type=Path, help="keep the files of the last case of each part in this folder")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: no such part; there are {', '.join(PARTS)}")
    commit = _commit()  # now: it may be another when the last part ends
    with tempfile.TemporaryDirectory(prefix="surelabel-faults-") as temporary:
        tallies = []
        for name in chosen:
            folder = (arguments.keep or Path(temporary)).resolve() / name
            folder.mkdir(parents=True)
            began = time.monotonic()
            tally = PARTS[name](Options(arguments.seed, arguments.count, folder))
            sys.stderr.write(f" in {time.monotonic() - began:.0f} s\n")
            tallies.append(tally)
    sys.stdout.write(format_table(tallies, arguments.seed, commit))
    return 1 if any(tally.wrong for tally in tallies) else 0


def format_table(tallies: list[Tally], seed: int, commit: str) -> str:
    """Return the table as Markdown, then every wrong case and everything that was not run."""
    lines = [
        f"Seed {seed}, commit {commit}",
        "",
        "| part | tried | right | wrong | not run |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {t.part} | {t.tried} | {t.right} | {len(t.wrong)} | {len(t.not_run)} |" for t in tallies]
    total = [sum(map(len, (t.wrong for t in tallies))), sum(t.right for t in tallies)]
    lines += [f"| all | {sum(total)} | {total[1]} | {total[0]} | {sum(len(t.not_run) for t in tallies)} |", ""]
    lines += [f"wrong: {t.part}: {case}" for t in tallies for case in t.wrong]
    lines += [f"not run: {t.part}: {case}" for t in tallies for case in t.not_run]
    return "\n".join(lines).rstrip() + "\n"


def _commit() -> str:
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=Path(__file__).parent
    )
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
