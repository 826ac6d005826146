"""Outputs onto inputs and onto files of the user: every command, output option, link and spelling.

A file in the place of an output that is an input, or that surelabel did not write, is refused in
one line before anything is written. An earlier output is replaced.
"""

import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import scenes
from PIL import Image
from processes import Ended, copy, run
from tally import Options, Tally

from surelabel.files import replace_bytes

Start = Callable[[list[str], Path], Ended]
"""Runs a command in a folder."""


@dataclass(frozen=True)
class Output:
    """What an option of a command writes."""

    words: str
    """The command without the option."""
    value: str
    """A value of the option, relative to the place."""
    files: tuple[str, ...] = ("",)
    """Files it writes, relative to the value; an empty text is the value itself."""
    codes: tuple[int, ...] = (0,)
    """Exit codes of success; empty if it takes too long to try here."""
    is_new_folder: bool = False
    """Whether the value is a folder that must be new, empty or an unchanged export."""


TUNE = "--method gce --try q=0.3,0.7 --budget 1e-9"
NOISE = "--noise symmetric:0.3"
OUTPUTS: Mapping[tuple[str, str], Output] = {
    ("audit", "--out"): Output("audit {scene}/run", "x.csv"),
    ("predict", "--out"): Output("predict {scene}/run {scene}/data.csv", "x.csv"),
    ("noise", "--out"): Output(f"noise {{scene}}/data.csv {NOISE}", "x.csv", ("", "../x.json")),
    ("report", "--out"): Output("report {scene}/run", "x.html"),
    ("report", "--figures"): Output(
        "report {scene}/run --out {place}/r.html", "x", ("density.png", "memorisation.svg", "transitions.png")
    ),
    ("figures", "--out"): Output(
        "figures all {scene}/run", "x", tuple(f"memorisation-data-symmetric-30.{kind}" for kind in ("png", "svg", "md"))
    ),
    ("export", "--out"): Output("export {scene}/run", "x", ("cleaned.csv", "export.json", "mine.txt"), (), True),
    ("export", "--onnx"): Output("export {scene}/run", "x.onnx"),
    ("gate", "--junit"): Output("gate {scene}/run --max-wrong 0.5", "x.xml", codes=(0, 1, 3)),
    ("gate", "--markdown"): Output("gate {scene}/run --max-wrong 0.5", "x.md", codes=(0, 1, 3)),
    ("tune", "--out"): Output(f"tune {{scene}}/data.csv {TUNE}", "x", ("table.csv", "table.md", "best.yaml"), (1,)),
    ("reproduce", "--out"): Output(
        "reproduce memorisation --scale tiny --data {scene}",
        "x",
        tuple(f"tables/memorisation.{kind}" for kind in ("md", "csv", "tex")),
        (),
    ),
    ("demo", "--out"): Output("demo --epochs 1 --figure {place}/f.png", "x", ("car/config.json", "mine.txt"), (), True),
    ("demo", "--figure"): Output("demo --epochs 1", "x.png", codes=()),
    ("fit", "--out"): Output("fit {scene}/data.csv --epochs 1", "x", ("config.json", "mine.txt"), (), True),
}
"""By command and option."""

ONTO_INPUTS = (
    (f"tune {{v}} {TUNE} --out {{f}}", "data.csv", "table.csv"),
    (f"tune {{scene}}/data.csv --labels {{v}} {TUNE} --out {{f}}", "labels.csv", "table.csv"),
    (f"tune {{scene}}/data.csv --trusted {{v}} {TUNE} --out {{f}}", "labels.csv", "table.csv"),
    (f"tune --config {{v}} {TUNE} --out {{f}}", "config.json", "best.yaml"),
    (f"noise {{v}} {NOISE} --out {{v}}", "data.csv", "x.csv"),
    (f"noise {{scene}}/data.csv --labels {{v}} {NOISE} --out {{v}}", "labels.csv", "x.csv"),
    (f"noise {{scene}}/data.csv --trusted {{v}} {NOISE} --out {{v}}", "labels.csv", "x.csv"),
    (f"noise --config {{v}} {NOISE} --out {{f}}/x.csv", "config.json", "x.json"),
    ("predict {scene}/run {v} --out {v}", "data.csv", "x.csv"),
    ("audit {scene}/run --data {v} --out {v}", "data.csv", "x.csv"),
    ("report {scene}/run --scores {v} --out {v}", "scores.csv", "x.html"),
    ("report {scene}/image_run --out {place}/r.html --figures {scene}/pictures", "pictures/density.png", ""),
    ("figures all {scene}/image_run --out {scene}/pictures", "pictures/corrected-images-car.png", ""),
    ("export {scene}/run --out {scene}/cleaned", "cleaned/cleaned.csv", ""),
    ("audit {scene}/run --out {scene}/cleaned/cleaned.csv", "cleaned/cleaned.csv", ""),
    ("gate {scene}/run --max-wrong 0.5 --junit {scene}/data.csv", "data.csv", ""),
    ("export {scene}/run --onnx {scene}/run/model.safetensors", "run/model.safetensors", ""),
)
"""Commands, a file of the scene, and its name in the folder {f}, where it is {v}; else it stays."""

STATES = ("a file", "our file", "a link", "a hard link", "a changed output")
"""What is in the place of an output; links lead to an input."""
SPELLINGS = ("relative", "dotted", "absolute", "linked folder", "from inside", "other case")


def make_scene(folder: Path) -> Path:
    """Write a table, labels, settings, scores, pictures that are called like figures, and runs."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(24, 3)), np.arange(24) % 2
    rows = [f"{row},{a:.3f},{b:.3f},{c:.3f},{'ab'[y[row]]}" for row, (a, b, c) in enumerate(x)]
    (folder / "data.csv").write_text("\n".join(["id,a,b,c,label", *rows]) + "\n")
    (folder / "labels.csv").write_text("id,label\n" + "".join(f"{row},{'ab'[y[row]]}\n" for row in range(24)))
    (folder / "scores.csv").write_text("id,score\n" + "".join(f"{row},0.5\n" for row in range(24)))
    (folder / "config.json").write_text(f'{{"data": {{"source": "{folder / "data.csv"}"}}}}\n')
    (folder / "pictures").mkdir()
    names = ["density", "confidence", "corrected-images-car", *(f"p{row}" for row in range(21))]
    for name in names:
        Image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8)).save(folder / "pictures" / f"{name}.png")
    listed = [f"pictures/{name}.png,{'ab'[row % 2]}" for row, name in enumerate(names)]
    (folder / "images.csv").write_text("\n".join(["path,label", *listed]) + "\n")
    quick = [*scenes.TRAIN, "--set", "train.second_opinion=false"]
    # Relative paths, so that runs of a copy of the scene read the copy.
    _call(["fit", "data.csv", "--out", "first", *quick, *NOISE.split()], folder)
    _call(["export", "first", "--out", "cleaned"], folder)
    _call(["fit", "data.csv", "--labels", "cleaned/cleaned.csv", "--out", "run", *quick, *NOISE.split()], folder)
    _call(["fit", "images.csv", "--out", "image_run", *quick], folder)
    return folder


def _call(words: list[object], folder: Path) -> None:
    ended = run(words, folder)
    assert ended.code == 0, ended.describe()


def try_output(
    key: tuple[str, str], file: str, state: str, spelling: str, scene: Path, folder: Path, start: Start
) -> str | None:
    """Put something in the place of an output, run the command, and return what is wrong."""
    output = OUTPUTS[key]
    place = folder / "place"
    shutil.rmtree(place, ignore_errors=True)
    victim = Path(os.path.normpath(place / output.value / file))
    victim.parent.mkdir(parents=True)
    if state == "a link":
        victim.symlink_to(scene / "data.csv")
    elif state == "a hard link":
        victim.hardlink_to(scene / "data.csv")
    elif state == "our file":
        replace_bytes(victim, b"an earlier output\n")
    else:
        victim.write_bytes(b"precious\n")
        if state == "a changed output":
            victim.unlink()
            replace_bytes(victim, b"an earlier output\n")
            victim.write_bytes(b"an earlier output, and notes\n")
    value, cwd = spell(place / output.value, spelling, folder)
    words = [*output.words.format(scene=scene, place=folder).split(), key[1], value]
    if state == "our file":
        return _check_replaced(words, cwd, output, start)
    # Another case is another file, unless the file system ignores case.
    is_another = spelling == "other case" and not Path(value).exists()
    if is_another:
        before = victim.read_bytes()
        fault = start(words, cwd).fault()
        return fault or (None if victim.read_bytes() == before else f"changed {victim}")
    folder_name = output.value if value == "." and key[0] == "export" else str(Path(value))  # it resolves the dot
    folder_name += "/export.json" if file == "export.json" and key[0] == "export" else ""
    named = (f"{folder_name}:",) if output.is_new_folder else (key[1], victim.name)
    return check_refused(words, cwd, (scene, place), named, start)


def spell(path: Path, how: str, folder: Path) -> tuple[str, Path]:
    """Return a spelling of a path below `folder`/place, and the folder in which to use it."""
    link = folder / "around"
    if how == "linked folder" and not link.is_symlink():
        link.symlink_to(path.parent)
    return {
        "relative": (str(path.relative_to(folder)), folder),
        "dotted": (f"./place/../{path.relative_to(folder)}", folder),
        "absolute": (str(path), folder),
        "linked folder": (str(link / path.name), folder),
        "from inside": (".", path) if path.is_dir() else (path.name, path.parent),
        "other case": (str(path.with_stem(path.stem.swapcase())), folder),
    }[how]


def _check_replaced(words: list[str], cwd: Path, output: Output, start: Start) -> str | None:
    """Let a command replace an earlier output, and then its own."""
    for _ in range(2):
        ended = start(words, cwd)
        if fault := ended.fault() or (None if ended.code in output.codes else ended.describe()):
            return fault
    return None


def check_refused(
    words: list[str], cwd: Path, watched: tuple[Path, ...], named: tuple[str, ...], start: Start
) -> str | None:
    """Run a command that must be refused, in one line, without changing any file."""
    before = {folder / name: content for folder in watched for name, content in snapshot(folder).items()}
    ended = start(words, cwd)
    after = {folder / name: content for folder in watched for name, content in snapshot(folder).items()}
    changed = sorted(str(path) for path in before | after if before.get(path) != after.get(path))
    if changed:
        return f"changed {', '.join(changed)}: {ended.describe()}"
    if fault := ended.fault():
        return fault
    if ended.code != 2:
        return f"not refused: {ended.describe()}"
    missing = [text for text in named if text not in ended.stderr]
    return f"does not name {', '.join(missing)}: {ended.describe()}" if missing else None


def snapshot(folder: Path) -> dict[str, bytes | str]:
    """Return the content of every file in a folder, and where links lead."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file() and not name.startswith("cache"):
            found[name] = path.read_bytes()
    return found


def try_input(number: int, is_ours: bool, scene: Path, folder: Path, start: Start) -> str | None:
    """Let a command write onto one of its inputs; `is_ours` says that surelabel wrote that."""
    words, source, name = ONTO_INPUTS[number]
    place = folder / "place"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    victim = place / name if name else scene / source
    content = (scene / source).read_bytes()
    if is_ours:
        victim.unlink(missing_ok=True)
        replace_bytes(victim, content)
    else:
        victim.write_bytes(content)
    texts = words.format(v=victim, f=place, scene=scene, place=folder).split()
    is_folder = texts[0] == "export" and "--out" in texts
    named = ("cleaned:",) if is_folder else (next(word for word in texts[::-1] if word.startswith("--")), victim.name)
    return check_refused(texts, scene, (scene, place), named, start)


def list_cases() -> Iterator[tuple[tuple[str, str], str, str, str]]:
    """Yield every option, file, state and spelling."""
    for key, output in OUTPUTS.items():
        for file, state, spelling in itertools.product(output.files, STATES, SPELLINGS):
            if output.codes or (state != "our file" and spelling != "other case"):  # else it trains
                yield key, file, state, spelling


def run_outputs(options: Options) -> Tally:
    """Try all commands onto their inputs, and outputs onto other files, drawn at random."""
    tally = Tally("outputs", planned=options.count or 150)
    whole = make_scene(options.folder / "whole")
    random: Random = options.random("outputs")
    onto = list(itertools.product(range(len(ONTO_INPUTS)), (False, True)))
    onto = random.sample(onto, min(tally.planned // 3, len(onto)))
    cases = random.sample(list(list_cases()), tally.planned - len(onto))
    folder = options.folder / "case"
    for case in cases:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        tally.judge(repr(case), try_output(*case, whole, folder, run))
    for number, is_ours in onto:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        scene = copy(whole, options.folder / "scene")  # some of its files become ours
        name = f"{ONTO_INPUTS[number][0]} ({'our' if is_ours else 'a'} file)"
        tally.judge(name, try_input(number, is_ours, scene, folder, run))
    return tally
