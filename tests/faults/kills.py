"""Kill commands at random moments, repeat or resume them, and compare with undisturbed ones."""

import functools
import time
from dataclasses import dataclass
from pathlib import Path

import scenes
from comparison import differing_files
from processes import copy, num_changes, run
from tally import Options, Tally

from surelabel.files import TEMPORARY_SUFFIX

COUNT = 100
VERDICT_CHANGES = 16
"""About as many changes come after the last epoch: the verdict, weights, `done`."""
MOMENTS = ("first write", "any write", "any write", "verdict", "any time", "twice")
"""How the moment of a kill is drawn."""
OTHERS = ("export", "cache", "reproduce", "folds")
"""Kinds of commands that each get a tenth of the kills; the methods share the rest."""
REPRODUCE = ["reproduce", "toy", "--workers", "2", "--out", "out"]


@dataclass(frozen=True)
class Target:
    """A command that was run undisturbed once: what it leaves, how long it took."""

    words: list[str]
    scene: Path
    """The folder before the command."""
    after: Path
    """The folder after it."""
    num_changes: int
    seconds: float
    compared: str
    """Pattern of the folders that must be equal."""

    def copy_scene(self, folder: Path) -> Path:
        """Make a folder in which the command can be run."""
        return copy(self.scene, folder)


def run_kills(options: Options) -> Tally:
    """Kill `count` commands of all methods and kinds."""
    from surelabel import methods

    names = methods.names()
    options.random("methods").shuffle(names)
    tally = Tally("kills", planned=options.count or COUNT)
    target_of = functools.cache(lambda kind: make_target(kind, options.folder / kind))
    for number in range(tally.planned):
        tenth = number % 10
        kind = OTHERS[tenth] if tenth < len(OTHERS) else names[(number - (number // 10 + 1) * len(OTHERS)) % len(names)]
        moment = options.random("moment", number).choice(MOMENTS)
        case = f"{kind}, {moment} (kill {number} of seed {options.seed})"
        tally.judge(case, kill_and_repeat(target_of(kind), moment, options, number))
    return tally


def make_target(kind: str, folder: Path) -> Target:
    """Run the command of this kind undisturbed: a method's name, or one of OTHERS."""
    scene = folder / "scene"
    scene.mkdir(parents=True)
    words, compared = _prepare(kind, scene)
    after = copy(scene, folder / "after")
    began = time.monotonic()
    ended = run(words, after, is_counted=True, save_every=0)
    assert ended.code == 0, ended.describe()
    return Target(words, scene, after, num_changes(after), time.monotonic() - began, compared)


def _prepare(kind: str, scene: Path) -> tuple[list[str], str]:
    """Write what the command needs; return the command and the pattern of what it makes."""
    scenes.write_blobs(scene / "data.npz")
    if kind == "cache":
        scenes.write_photos(scene / "photos")
        return scenes.fit_words("cross_entropy", data="photos"), "run"
    if kind == "folds":
        return [*scenes.fit_words("cross_entropy"), "--folds", "2"], "run"
    if kind == "reproduce":
        return REPRODUCE, "out/runs/*"
    if kind == "export":
        ended = run(scenes.fit_words("car"), scene)
        assert ended.code == 0, ended.describe()
        return ["export", "run", "--accept", "all"], "run/export"
    return scenes.fit_words(kind), "run"


def kill_and_repeat(target: Target, moment: str, options: Options, number: int) -> str | None:
    """Kill a command once or twice, bring it to its end, and return what is wrong, if anything."""
    random = options.random("kill", number)
    folder = target.copy_scene(options.folder / "killed")
    story = []
    for _ in range(2 if moment == "twice" else 1):
        fatal, kill_after = _draw(moment, target, random)
        words, save_every = _next_words(target, folder), random.choice([0, 0.1, 20])
        ended = run(words, folder, fatal=fatal, kill_after=kill_after, save_every=save_every)
        when = f"at change {fatal}" if fatal else f"after {kill_after:.2f} s"
        story.append(f"{words[0]} {'' if ended.was_killed else 'not '}killed {when}, saving every {save_every} s")
        if not ended.was_killed and (ended.fault() or ended.code):
            return f"{'; '.join(story)}; {ended.describe()}"
    fault = repeat_until_done(target, folder)
    return f"{'; '.join(story)}; {fault}" if fault else None


def repeat_until_done(target: Target, folder: Path) -> str | None:
    """Resume or repeat a command that was killed, and return how its end differs, if it does."""
    words = _next_words(target, folder)
    ended = run(words, folder)
    if ended.code != 0 or ended.fault():
        return f"{ended.fault()}: {ended.describe()}" if ended.fault() else ended.describe()
    for expected in sorted(target.after.glob(target.compared)):
        place = expected.relative_to(target.after)
        if not (folder / place).is_dir():
            return f"{words[0]}: {place} is missing"
        if different := differing_files(folder / place, expected):
            return f"{words[0]}: differ in {place}: {', '.join(different)}"
    if left := [str(path.relative_to(folder)) for path in folder.rglob(f".*{TEMPORARY_SUFFIX}")]:
        return f"{words[0]}: left behind: {', '.join(left)}"
    return None


def _draw(moment: str, target: Target, random) -> tuple[int | None, float | None]:
    if moment == "any time":
        return None, random.uniform(0.05, target.seconds)
    if moment == "first write":
        return random.randint(1, 3), None
    first = max(1, target.num_changes - VERDICT_CHANGES) if moment == "verdict" else 1
    return random.randint(first, target.num_changes), None


def _next_words(target: Target, folder: Path) -> list[str]:
    """Return what a user would do next: resume a run that has begun, or repeat the command."""
    has_begun = target.words[0] == "fit" and (folder / "run" / "data.json").exists()
    return ["resume", "run"] if has_begun else target.words
