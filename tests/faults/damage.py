"""Damage every file of a run, and see that no command is fooled.

Right is the same result as without the damage, or an error or a warning that names the file.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from random import Random

import scenes
from comparison import differing_files
from processes import Ended, copy, run
from tally import Options, Tally

COMMANDS = {
    "audit": "audit run --out out/audit.csv",
    "report": "report run --out out/report.html",
    "export": "export run --accept all --out out/export",
    "predict": "predict run data.npz --out out/predicted.csv",
    "review": "review run --no-open",
    "resume": "resume run",
}
"""What reads a finished run; `review` in these processes opens the run and serves no page."""
COMMANDS_PER_CASE = 2


def _flip(content: bytes, random: Random, count: int = 1) -> bytes:
    changed = bytearray(content)
    for _ in range(count):
        place = random.randrange(8 * len(changed))
        changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


KINDS: dict[str, Callable[[bytes, Random], bytes]] = {
    "a flipped bit": _flip,
    "eight flipped bits": lambda content, random: _flip(content, random, 8),
    "flipped bits in the last quarter": lambda content, random: (
        content[: (cut := len(content) * 3 // 4)] + _flip(content[cut:], random, 8)
    ),
    "a lost end": lambda content, random: content[: random.randrange(len(content))],
    "zeros at the end": lambda content, random: (
        content[: (cut := random.randrange(len(content)))] + bytes(len(content) - cut)
    ),
    "garbage": lambda content, random: random.randbytes(len(content)),
    "nothing": lambda _content, _random: b"",
}
FOLDER, GONE = "a folder in its place", "a lost file"


def run_damage(options: Options) -> Tally:
    """Damage the files of a finished and of an unfinished run in every way."""
    finished, unfinished = make_runs(options.folder)
    cases = [
        (scene, path, kind)
        for scene in (finished, unfinished)
        for path in sorted((scene / "run").rglob("*"))
        if path.is_file() and path.stat().st_size
        for kind in (*KINDS, FOLDER, GONE)
    ]
    options.random("order").shuffle(cases)
    cases = cases[: options.count]
    tally = Tally("damage", planned=len(cases) * COMMANDS_PER_CASE)
    for scene, path, kind in cases:
        name = str(path.relative_to(scene))
        random = options.random(scene.name, name, kind)
        for command in _commands_for(scene, random):
            case = f"{kind} in {name} of the {scene.name} run, then {command} (seed {options.seed})"
            tally.judge(case, try_damage(scene, name, kind, command, options))
    return tally


def _commands_for(scene: Path, random: Random) -> list[str]:
    if scene.name == "unfinished":
        return ["resume", random.choice(["audit", "export"])]
    return random.sample(sorted(COMMANDS), COMMANDS_PER_CASE)


def make_runs(folder: Path) -> tuple[Path, Path]:
    """Make a folder with a finished run and its decisions, and one with an unfinished run."""
    from surelabel.runs.decisions import Journal, Wish
    from surelabel.runs.run_dir import RunDir

    finished, unfinished = folder / "finished", folder / "unfinished"
    for scene, fatal in ((finished, None), (unfinished, "run/state.safetensors")):
        (scene / "out").mkdir(parents=True)
        scenes.write_blobs(scene / "data.npz")
        ended = run(scenes.fit_words("car"), scene, fatal=fatal, save_every=0)
        assert ended.was_killed if fatal else ended.code == 0, ended.describe()
    labels = RunDir(finished / "run").labels().slice(0, 4).to_pylist()
    names = RunDir(finished / "run").data()["class_names"]
    journal = Journal(finished / "run" / "decisions.jsonl", "tester")
    for row in labels:
        journal.append([Wish(row["id"], names[row["given"]], "keep")])
    return finished, unfinished


def try_damage(scene: Path, name: str, kind: str, command: str, options: Options) -> str | None:
    """Damage a file, run a command, and return what is wrong, if anything."""
    expected, whole = _expect(scene, command)
    folder = copy(scene, options.folder / "damaged")
    _damage(folder / name, kind, options.random(scene.name, name, kind, "content"))
    ended = run(COMMANDS[command].split(), folder)
    if fault := ended.fault():
        return fault
    if _is_named(name, _complaints(ended)):
        return None
    if (name, kind) == ("run/done", GONE) and "this run has not ended" in ended.stderr:
        return None  # a run without that file has not ended
    if ended.code != whole.code:
        return f"does not name the file: {ended.describe()}"
    different = _differences(folder, expected, str(Path(name).relative_to("run")))
    return f"another result, without a word: {', '.join(different)}" if different else None


def _complaints(ended: Ended) -> str:
    """Return errors and warnings; `audit` writes its warnings to stdout, among its findings."""
    warnings = [line for line in ended.stdout.splitlines() if line.startswith("Warning: ")]
    return "\n".join([ended.stderr, *warnings])


def _is_named(name: str, complaints: str) -> bool:
    """Return whether an error or a warning names the file; `done` alone is a common word."""
    return name in complaints or ("." in Path(name).name and Path(name).name in complaints)


def _damage(path: Path, kind: str, random: Random) -> None:
    content = path.read_bytes()
    path.unlink()
    if kind == FOLDER:
        path.mkdir()
    elif kind != GONE:
        path.write_bytes(KINDS[kind](content, random))


@functools.cache
def _expect(scene: Path, command: str) -> tuple[Path, Ended]:
    """Return what the command makes of the undamaged run; each is run once."""
    folder = copy(scene, scene.with_name(f"expected-{scene.name}-{command}"))
    ended = run(COMMANDS[command].split(), folder)
    assert ended.fault() is None, ended.describe()
    return folder, ended


def _differences(folder: Path, expected: Path, damaged: str) -> list[str]:
    """Return the outputs that differ, and the files of a run apart from the damaged one."""
    inside = [name for name in differing_files(folder / "run", expected / "run") if name != damaged]
    return differing_files(folder / "out", expected / "out") + inside
