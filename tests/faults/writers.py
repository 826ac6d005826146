"""Two commands that write into one folder at the same time: one is refused, or both are whole."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import scenes
from comparison import differing_files
from processes import Ended, copy, run
from tally import Options, Tally

COUNT = 40
KINDS = (*["fits"] * 4, *["resumes"] * 3, *["exports"] * 2, "tunes")
"""Kinds of pairs; each tenth case is a search, which takes longest."""
LONGEST_DELAY = {"fits": 4.0, "resumes": 3.0, "exports": 2.0, "tunes": 10.0}
"""Seconds between the two commands: about what one takes."""
FITS = {"car": scenes.fit_words("car"), "elr": scenes.fit_words("elr", seed=1)}
RESUME, EXPORT = ["resume", "run"], ["export", "run", "--accept", "all"]
TUNE = ["tune", "data.npz", "--method", "elr", "--try", "regularisation=3,7", "--out", "out", *scenes.TRAIN]


def run_writers(options: Options) -> Tally:
    """Try `count` pairs of commands."""
    tally = Tally("writers", planned=options.count or COUNT)
    stage = Stage(options.folder)
    for number in range(tally.planned):
        kind, random = KINDS[number % len(KINDS)], options.random("writers", number)
        delay = random.choice([0.0, random.uniform(0, LONGEST_DELAY[kind])])
        case = f"{kind}, {delay:.2f} s apart (pair {number} of seed {options.seed})"
        tally.judge(case, stage.judges[kind](delay, random.choice(list(FITS))))
    return tally


class Stage:
    """Undisturbed results, made on first use, and the judges that compare with them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.scene = folder, folder / "scene"
        self.scene.mkdir(parents=True)
        scenes.write_blobs(self.scene / "data.npz")
        self.judges: dict[str, Callable[[float, str], str | None]] = {
            "fits": self.judge_fits,
            "resumes": self.judge_resumes,
            "exports": self.judge_exports,
            "tunes": self.judge_tunes,
        }

    def after(self, name: str, words: list[str], scene: Path | None = None) -> Path:
        """Return the folder in which a command has ended undisturbed."""
        folder = self.folder / name
        if not folder.exists():
            copy(scene or self.scene, folder)
            ended = run(words, folder, save_every=0)
            assert ended.code == 0, ended.describe()
        return folder

    def pair(self, scene: Path, first: list[str], second: list[str], delay: float) -> tuple[Path, list[Ended]]:
        """Run two commands in a copy of a scene, the second some time after the first."""
        folder = copy(scene, self.folder / "pair")
        with ThreadPoolExecutor(2) as threads:
            running = [threads.submit(run, first, folder, name="-first", save_every=0)]
            time.sleep(delay)
            running.append(threads.submit(run, second, folder, name="-second", save_every=0))
            return folder, [one.result() for one in running]

    def judge_fits(self, delay: float, method: str) -> str | None:
        """Exactly one of two runs trains, and ends like an undisturbed one."""
        other = next(name for name in FITS if name != method)
        folder, ended = self.pair(self.scene, FITS[method], FITS[other], delay)
        winners = [name for name, one in zip((method, other), ended, strict=True) if one.code == 0]
        if len(winners) != 1:
            return f"{len(winners)} of two runs claim to have ended: {_describe(ended)}"
        return _fault(ended) or _differ(folder / "run", self.after(winners[0], FITS[winners[0]]) / "run")

    def judge_resumes(self, delay: float, method: str) -> str | None:
        """A run that is resumed is never replaced; the second command is refused, or ends too."""
        stopped = self.folder / f"stopped-{method}"
        if not stopped.exists():
            copy(self.scene, stopped)
            assert run(FITS[method], stopped, fatal="run/metrics.jsonl", save_every=0).was_killed
        second = RESUME if int(delay * 100) % 2 else FITS[method]
        folder, ended = self.pair(stopped, RESUME, second, delay)
        if second is not RESUME and ended[1].code != 2:
            return f"a fit onto a run was not refused: {_describe(ended)}"
        fault = _fault(ended) or (None if 0 in (ended[0].code, ended[1].code) else f"none ended: {_describe(ended)}")
        return fault or _differ(folder / "run", self.after(method, FITS[method]) / "run")

    def judge_exports(self, delay: float, method: str) -> str | None:
        """Exports wait for each other, and the place holds a whole one."""
        trained = self.after(method, FITS[method])
        folder, ended = self.pair(trained, EXPORT, EXPORT, delay)
        fault = _fault(ended) or (None if all(one.code == 0 for one in ended) else _describe(ended))
        return fault or _differ(folder / "run", self.after(f"export-{method}", EXPORT, trained) / "run")

    def judge_tunes(self, delay: float, _method: str) -> str | None:
        """At least one search ends, and its choice is that of an undisturbed one."""
        folder, ended = self.pair(self.scene, TUNE, TUNE, delay)
        fault = _fault(ended) or (None if 0 in (ended[0].code, ended[1].code) else f"none ended: {_describe(ended)}")
        best = [place / "out" / "best.yaml" for place in (folder, self.after("tuned", TUNE))]
        runs = [sorted(path.parent.name for path in file.parent.glob("runs/*/done")) for file in best]
        is_same = best[0].exists() and best[0].read_bytes() == best[1].read_bytes() and runs[0] == runs[1]
        return fault or (None if is_same else f"another choice or other runs: {_describe(ended)}")


def _fault(ended: list[Ended]) -> str | None:
    """Return what neither may do: anything but to end well, or to be refused in one line."""
    faults = [one.fault() or (one.describe() if one.code not in (0, 2) else None) for one in ended]
    return next((fault for fault in faults if fault), None)


def _differ(folder: Path, expected: Path) -> str | None:
    different = differing_files(folder, expected)
    return f"differ: {', '.join(different)}" if different else None


def _describe(ended: list[Ended]) -> str:
    return " / ".join(one.describe() for one in ended)
