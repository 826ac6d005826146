"""A clock that goes backwards between two commands, or stands a day behind: nothing changes."""

import os
from pathlib import Path

import scenes
from comparison import differing_files
from processes import Ended, copy, run
from tally import Options, Tally

LIBRARIES = ("libfaketime.so.1", "*/faketime/libfaketime.so.1")
SHIFTS = ("-1d", "-20y", "+20y", "-3s")
"""What the clock of the second command differs by from that of the first."""
AFTER = ("audit run", "report run", "export run --accept all", "predict run data.npz")


def run_clock(options: Options) -> Tally:
    """Resume, repeat and read runs with clocks that are behind those that wrote them."""
    tally, library = Tally("clock"), find_library()
    shifts = SHIFTS[: options.count]
    if library is None:
        for shift in shifts:
            tally.leave_out(f"clock {shift}", "libfaketime is not installed (Debian: faketime)")
        return tally
    scene = options.folder / "scene"
    scene.mkdir()
    scenes.write_blobs(scene / "data.npz")
    scenes.write_photos(scene / "photos")
    whole = copy(scene, options.folder / "whole")
    assert run(scenes.fit_words("car"), whole, save_every=0).code == 0
    for shift in shifts:
        shifted = {"LD_PRELOAD": str(library), "FAKETIME": shift, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        tally.judge(f"resume with the clock at {shift}", _resume(scene, whole, options.folder / "resumed", shifted))
        tally.judge(f"a cache from the future, clock at {shift}", _reuse(scene, options.folder / "reused", shifted))
        for words in AFTER:
            folder = copy(whole, options.folder / "read")
            run(words.split(), folder)
            fault = _fault(run(words.split(), folder, is_fresh=True, environment=shifted))
            tally.judge(f"{words} again with the clock at {shift}", fault)
    return tally


def find_library() -> Path | None:
    """Return libfaketime: $LIBFAKETIME, or where Debian installs it."""
    if named := os.environ.get("LIBFAKETIME"):
        return Path(named)
    return next((path for pattern in LIBRARIES for path in Path("/usr/lib").glob(pattern)), None)


def _resume(scene: Path, whole: Path, folder: Path, shifted: dict[str, str]) -> str | None:
    copy(scene, folder)
    run(scenes.fit_words("car"), folder, fatal="run/state.safetensors", save_every=0)
    ended = run(["resume", "run"], folder, is_fresh=True, environment=shifted)
    return _fault(ended) or _differs(folder, whole)


def _reuse(scene: Path, folder: Path, shifted: dict[str, str]) -> str | None:
    copy(scene, folder)
    words = scenes.fit_words("cross_entropy", data="photos", out="first")
    if fault := _fault(run(words, folder)):
        return fault
    words = scenes.fit_words("cross_entropy", data="photos", out="second")
    ended = run(words, folder, is_fresh=True, environment=shifted)
    different = differing_files(folder / "second", folder / "first") if ended.code == 0 else []
    return _fault(ended) or (f"differ: {', '.join(different)}" if different else None)


def _fault(ended: Ended) -> str | None:
    return ended.fault() or (ended.describe() if ended.code else None)


def _differs(folder: Path, whole: Path) -> str | None:
    different = differing_files(folder / "run", whole / "run")
    return f"differ: {', '.join(different)}" if different else None
