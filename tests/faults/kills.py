"""Kill commands at random moments, repeat or resume them, and compare with undisturbed ones."""

import functools
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import scenes
from comparison import differing_files
from processes import Ended, copy, num_changes, run
from tally import Options, Tally
from victim import SECOND_EPOCH

from surelabel.files import TEMPORARY_SUFFIX
from surelabel.runs.run_dir import RunDir

COUNT = 100
VERDICT_CHANGES = 16
"""About as many changes come after the last epoch: the verdict, weights, `done`."""
MOMENTS = ("first write", "any write", "any write", "verdict", "any time", "twice")
"""How the moment of a kill is drawn."""
SAVES = {"every epoch": 0, "every second epoch": SECOND_EPOCH, "never": 1e6}
"""How often a killed command saves; none depends on the clock, so that changes can be counted."""
ATTEMPTS = 20
"""Draws of a case whose command ends before it is killed, which is no case."""
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
    seconds: float
    compared: str
    """Pattern of the folders that must be equal."""
    counts: dict[str, int] = field(default_factory=dict)
    """Changes that the command makes, by how often it saves, as far as they have been counted."""

    def copy_scene(self, folder: Path) -> Path:
        """Make a folder in which the command can be run."""
        return copy(self.scene, folder)

    def count(self, saves: str) -> int:
        """Return how many changes the command makes if it saves so often."""
        if saves not in self.counts:
            folder = self.copy_scene(self.scene.with_name("counted"))
            self.counts[saves] = count_changes(self.words, folder, saves)
        return self.counts[saves]


class WentWrong(Exception):
    """Raised where a command that nothing has disturbed yet fails."""


class EndedByItself(Exception):
    """Raised where a command ended before it was killed."""


def count_changes(words: list[str], folder: Path, saves: str) -> int:
    """Return how many changes a command makes in `folder`, which is put back afterwards."""
    before = copy(folder, folder.with_name(f"{folder.name}-before"))
    _check(run(words, folder, is_counted=True, save_every=SAVES[saves]))
    count = num_changes(folder)
    copy(before, folder)
    return count


def _check(ended: Ended) -> None:
    """Raise if a command has failed."""
    if ended.code != 0 or ended.fault():
        raise WentWrong(f"{ended.fault()}: {ended.describe()}" if ended.fault() else ended.describe())


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
    _check(run(words, after))
    return Target(words, scene, after, time.monotonic() - began, compared)


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
    """Kill a command once or twice, bring it to its end, and return what is wrong, if anything.

    Only real kills count: the moment is drawn again if the command has ended before.
    """
    random = options.random("kill", number)
    for _ in range(ATTEMPTS):
        folder = target.copy_scene(options.folder / "killed")
        story: list[str] = []
        try:
            for _ in range(2 if moment == "twice" else 1):
                _kill(target, moment, folder, random, story)
        except EndedByItself:
            continue
        except WentWrong as error:
            return "; ".join([*story, str(error)])
        fault = repeat_until_done(target, folder)
        return "; ".join([*story, fault]) if fault else None
    return f"ended before it was killed, {ATTEMPTS} times: {story[-1]}"


def _kill(target: Target, moment: str, folder: Path, random: Random, story: list[str]) -> None:
    """Kill the command, or the one that a user would give next, and add that to the story."""
    words, saves = _next_words(target, folder), random.choice(list(SAVES))
    if moment == "any time":
        kill_after = random.uniform(0.05, target.seconds)
        story.append(f"{words[0]} killed after {kill_after:.2f} s, saving {saves}")
        ended = run(words, folder, kill_after=kill_after, save_every=SAVES[saves])
    else:
        story.append(f"{words[0]} to be killed, saving {saves}")
        count = count_changes(words, folder, saves) if len(story) > 1 else target.count(saves)
        if count == 0:  # only a run that was killed after its last change
            raise EndedByItself
        fatal = _draw(moment, count, random)
        story[-1] = f"{words[0]} killed at change {fatal} of {count}, saving {saves}"
        ended = run(words, folder, fatal=fatal, save_every=SAVES[saves])
    if not ended.was_killed:
        _check(ended)
        raise EndedByItself


def repeat_until_done(target: Target, folder: Path) -> str | None:
    """Resume or repeat a command that was killed, and return how its end differs, if it does."""
    words = _next_words(target, folder)
    try:
        _check(run(words, folder))
    except WentWrong as error:
        return str(error)
    for expected in sorted(target.after.glob(target.compared)):
        place = expected.relative_to(target.after)
        if not (folder / place).is_dir():
            return f"{words[0]}: {place} is missing"
        if different := differing_files(folder / place, expected):
            return f"{words[0]}: differ in {place}: {', '.join(different)}"
    if left := [str(path.relative_to(folder)) for path in folder.rglob(f".*{TEMPORARY_SUFFIX}")]:
        return f"{words[0]}: left behind: {', '.join(left)}"
    return None


def _draw(moment: str, count: int, random: Random) -> int:
    """Return the change at which a command that makes `count` of them is killed."""
    if moment == "first write":
        return random.randint(1, min(3, count))
    return random.randint(max(1, count - VERDICT_CHANGES) if moment == "verdict" else 1, count)


def _next_words(target: Target, folder: Path) -> list[str]:
    """Return what a user would do next: resume a run that has begun, or repeat the command."""
    has_begun = target.words[0] == "fit" and RunDir(folder / "run").has_begun
    return ["resume", "run"] if has_begun else target.words
