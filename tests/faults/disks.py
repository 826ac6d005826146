"""Full disks, limits on file sizes, read-only folders: one line says so, and nothing is lost."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import scenes
from comparison import differing_files
from processes import Ended, copy, run
from tally import Options, Tally

SIZES = (1_000, 4_000, 8_000, 16_000, 24_000)
"""Bytes that a file may have, as RLIMIT_FSIZE has it."""
SPACES = (32, 48, 64, 96, 128)
"""KiB of disks that soon are full."""
AFTER = ("audit run", "report run", "export run --accept all", "predict run data.npz")
"""Commands that write into a finished run."""


def run_disks(options: Options) -> Tally:
    """Let commands meet full and read-only disks; `count` limits the cases of each kind."""
    tally, most = Tally("disks"), options.count
    scene, whole = _make_scenes(options.folder)
    for size in SIZES[:most]:
        tally.judge(f"fit with files of at most {size} bytes", _try_limit(size, scene, whole, options.folder))
    if not _can_mount(options.folder):
        reason = "needs root and mount"
        for kind in ("full disks", "read-only folders"):
            tally.leave_out(kind, reason)
        return tally
    for space in SPACES[:most]:
        tally.judge(f"fit on a disk of {space} KiB", _try_space(space, scene, whole, options.folder))
    for command in AFTER[:most]:
        tally.judge(f"{command} on a full disk", _try_full(command, whole, options.folder))
        tally.judge(f"{command} in a read-only folder", _try_read_only(command, whole, options.folder))
    tally.judge("fit in a read-only folder", _try_read_only(" ".join(_fit()[:1]), scene, options.folder, _fit()))
    return tally


def _fit() -> list[str]:
    return [*scenes.fit_words("car"), "--set", "train.second_opinion=false"]


def _make_scenes(folder: Path) -> tuple[Path, Path]:
    """Make a folder with data, and the same after an undisturbed run."""
    scene = folder / "scene"
    scene.mkdir()
    scenes.write_blobs(scene / "data.npz")
    whole = copy(scene, folder / "whole")
    ended = run(_fit(), whole)
    assert ended.code == 0, ended.describe()
    return scene, whole


def _try_limit(size: int, scene: Path, whole: Path, folder: Path) -> str | None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as a shell's ulimit with trap; writes then fail
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    place = copy(scene, folder / "limited")
    ended = run(_fit(), place, save_every=0, prepare=limit)
    return _refused(ended, "too large") or _ends_equal(place, whole)


def _try_space(space: int, scene: Path, whole: Path, folder: Path) -> str | None:
    disk = folder / "disk"
    with _mounted(disk, f"size={space}k"):
        (disk / "data.npz").write_bytes((scene / "data.npz").read_bytes())
        ended = run(_fit(), disk, save_every=0)
        place = copy(disk, folder / "rescued")
    return _refused(ended, "no space left") or _ends_equal(place, whole)


def _ends_equal(place: Path, whole: Path) -> str | None:
    """Go on with room enough, and compare with the undisturbed run."""
    words = ["resume", "run"] if (place / "run" / "data.json").exists() else _fit()
    ended = run(words, place)
    if ended.code != 0:
        return f"then {ended.describe()}"
    different = differing_files(place / "run", whole / "run")
    return f"then {words[0]} differs: {', '.join(different)}" if different else None


def _try_full(command: str, whole: Path, folder: Path) -> str | None:
    disk = folder / "disk"
    with _mounted(disk, "size=2m"):
        shutil.copytree(whole, disk, dirs_exist_ok=True)
        with contextlib.suppress(OSError), (disk / "filler").open("wb") as file:
            while True:
                file.write(bytes(4096))
                file.flush()
        return _check_unchanged(command.split(), disk, whole, "no space left")


def _try_read_only(name: str, whole: Path, folder: Path, words: list[str] | None = None) -> str | None:
    place = copy(whole, folder / "read_only")
    with _mounted(place, "remount,bind,ro", bind=place):
        return _check_unchanged(words or name.split(), place, whole, "read-only")


def _check_unchanged(words: list[str], place: Path, whole: Path, reason: str) -> str | None:
    cache = {"SURELABEL_CACHE": str(place.parent / "cache")}
    ended = run(words, place, environment=cache)
    if fault := _refused(ended, reason):
        return fault
    if (whole / "run").exists() and (different := differing_files(place / "run", whole / "run")):
        return f"changed {', '.join(different)}"
    return None


def _refused(ended: Ended, reason: str) -> str | None:
    """Return what is wrong unless the command ended well, or with one line that says `reason`."""
    if fault := ended.fault():
        return fault
    if ended.code != 0 and reason not in ended.stderr.lower():
        return f"does not say {reason!r}: {ended.describe()}"
    return None


def _can_mount(folder: Path) -> bool:
    try:
        with _mounted(folder / "probe", "size=64k"):
            return os.geteuid() == 0
    except (OSError, subprocess.CalledProcessError):
        return False


@contextlib.contextmanager
def _mounted(place: Path, options: str, bind: Path | None = None) -> Iterator[None]:
    """Mount a new disk at `place`, or `bind` again with other options."""
    place.mkdir(exist_ok=True)
    steps: list[list[str]] = [["mount", "-t", "tmpfs", "-o", options, "surelabel-faults", str(place)]]
    if bind is not None:
        steps = [["mount", "--bind", str(bind), str(place)], ["mount", "-o", options, str(place)]]
    _call(steps[0])
    try:
        for step in steps[1:]:
            _call(step)
        yield
    finally:
        _call(["umount", str(place)])


def _call(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)
