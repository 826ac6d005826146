"""Runs that once hung, or could: resuming incv, and streamed images with Arrow already started."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import processes
import scenes
from comparison import differing_files
from processes import copy, num_changes, run
from tally import Options, Tally

COUNT = 100
"""Half of them resume incv, half stream images."""
SCRIPT = """
import sys
import pyarrow.parquet as pq
from surelabel.api import fit

pq.read_table("a.parquet", use_threads=True)  # starts Arrow's threads
fit({settings}, "run")
sys.stdout.write("end")
"""
"""No `if __name__ == "__main__"`: a worker that imported this script would train too."""


def run_hangs(options: Options) -> Tally:
    """Resume incv in fresh processes, and stream images in scripts that have started Arrow."""
    tally = Tally("hangs", planned=options.count or COUNT)
    _resume_incv(options, tally, tally.planned // 2)
    _stream_images(options, tally, tally.planned - tally.planned // 2)
    return tally


def _resume_incv(options: Options, tally: Tally, count: int) -> None:
    scene = options.folder / "incv"
    scene.mkdir(parents=True)
    scenes.write_blobs(scene / "data.npz")
    whole = copy(scene, options.folder / "whole")
    ended = run(scenes.fit_words("incv"), whole, is_counted=True, save_every=0)
    assert ended.code == 0, ended.describe()
    changes = num_changes(whole)
    for number in range(count):
        folder = copy(scene, options.folder / "resumed")
        fatal = options.random("incv", number).randint(changes // 3, changes)
        run(scenes.fit_words("incv"), folder, fatal=fatal, save_every=0)
        ended = run(["resume", "run"], folder, is_fresh=True)
        different = differing_files(folder / "run", whole / "run") if ended.code == 0 else []
        fault = ended.fault() or (ended.describe() if ended.code else None)
        fault = fault or (f"differ: {', '.join(different)}" if different else None)
        tally.judge(f"resume of incv killed at change {fatal} (number {number} of seed {options.seed})", fault)


def _stream_images(options: Options, tally: Tally, count: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    scene = options.folder / "streamed"
    scene.mkdir(parents=True)
    scenes.write_photos(scene / "photos")
    pq.write_table(pa.table({"a": list(range(1000))}), scene / "a.parquet")
    expected: Path | None = None
    for number in range(count):
        settings = scenes.settings("cross_entropy", "photos")
        settings["data"] |= {"decode": "stream", "workers": number % 3, "image_size": 20, "crop": 18}
        folder = copy(scene, options.folder / f"streaming{min(number, 1)}")
        (folder / "script.py").write_text(SCRIPT.format(settings=json.dumps(settings)))
        fault = _run_script(folder)
        if fault is None and expected is not None:
            different = set(differing_files(folder / "run", expected)) - {"config.json"}  # has data.workers
            fault = f"differ: {', '.join(sorted(different))}" if different else None
        expected = expected or folder / "run"
        tally.judge(f"{number % 3} workers stream images (number {number} of seed {options.seed})", fault)


def _run_script(folder: Path) -> str | None:
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "script.py"],
            cwd=folder,
            env=processes.environment_of(folder),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        is_hung = not processes.wait_for(process.poll, process.pid)
        if is_hung:
            process.send_signal(signal.SIGABRT)  # faulthandler says where it is
        process.wait()
    text = log.read_text(errors="replace")
    if is_hung:
        return f"hung: {' / '.join(line.strip() for line in text.splitlines() if line.startswith('  File'))[:2000]}"
    return None if text.endswith("end") else f"exit code {process.returncode}: {text.strip()[-300:]}"
