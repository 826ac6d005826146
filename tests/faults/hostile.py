"""Hostile run directories, outputs onto inputs, hostile requests: existing tests, counted."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from processes import SOURCE, environment_of
from tally import Options, Tally

TESTS = {
    "hostile run directory": ("tests/runs/test_hostile_run.py",),
    "hostile encoder": ("tests/encoding/test_hostile_encoder.py",),
    "outputs onto inputs": ("tests/cli/test_overwriting.py",),
    "hostile requests": (
        "tests/reviewing/test_access.py",
        "tests/reviewing/test_server.py",
        "tests/reviewing/test_limits.py",
    ),
}


def run_hostile(options: Options) -> Tally:
    """Run the tests of hostile files and requests; each test is a case."""
    tally = Tally("hostile")
    for name, files in TESTS.items():
        result = options.folder / f"{files[0].replace('/', '-')}.xml"
        present = [file for file in files if (SOURCE.parent / file).exists()]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={result}", *present]
        subprocess.run(command, cwd=SOURCE.parent, env=environment_of(options.folder), capture_output=True)
        if not result.exists():
            tally.judge(name, f"pytest did not run: {' '.join(present)}")
            continue
        for case in ElementTree.parse(result).iter("testcase"):
            _count(tally, name, case)
    return tally


def _count(tally: Tally, name: str, case: ElementTree.Element) -> None:
    """Count a test: passed is right, skipped is not run, anything else is wrong."""
    where = f"{name}: {Path(*case.get('classname', '').split('.'))}.py::{case.get('name')}"
    failed = next((each for each in case if each.tag in ("failure", "error")), None)
    skipped = case.find("skipped")
    if skipped is not None:
        tally.leave_out(where, skipped.get("message", ""))
    else:
        tally.judge(where, None if failed is None else failed.get("message", "failed").splitlines()[0][:300])
