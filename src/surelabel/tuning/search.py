"""Search a method's options: train candidates without a fold of the rows, and keep the best."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from surelabel import api
from surelabel.config import RunConfig
from surelabel.data.protected_files import list_configured_files
from surelabel.errors import ConfigError, RunError
from surelabel.files import refuse_overwriting
from surelabel.jobs import Backend, LocalBackend, Outcome, Overview, ProgressDisplay, Trial, claimed, run_all
from surelabel.runs.run_dir import RunDir
from surelabel.tuning.candidates import Candidate, Values, list_candidates
from surelabel.tuning.rungs import HELD_OUT, choose, join, plan_rungs, rank


@dataclass
class Result:
    """What a search knows of a candidate."""

    candidate: Candidate
    hits: list[np.ndarray] = field(default_factory=list)
    """For each fold, whether (N,) held-out rows were predicted as given."""
    fits: list[float] = field(default_factory=list)
    """For each fold, the fraction of the training rows that were predicted as given."""
    seconds: float = 0.0
    """Training time."""
    failure: str | None = None
    """Why a run failed; the candidate is then out."""

    def gap(self, num_folds: int) -> float:
        """Return how much better labels are predicted that were trained on, in the first folds."""
        gaps = [fit - hits.mean() for fit, hits in zip(self.fits[:num_folds], self.hits[:num_folds], strict=True)]
        return float(np.mean(gaps))


@dataclass(frozen=True)
class Tuning:
    """The outcome of a search."""

    config: RunConfig
    """The configuration that was tuned."""
    results: dict[str, Result]
    """By candidate, in the order of the candidates."""
    num_rungs: int
    """Rungs that all their candidates have ended; later results do not count."""
    is_complete: bool
    """Whether the search came to its end within the budget."""
    folder: Path

    def compared(self) -> dict[str, np.ndarray]:
        """Return the candidates of the last rung that counts, with all their rows that count."""
        return _compared(self.results, self.num_rungs)

    @property
    def chosen(self) -> str | None:
        """The best candidate by held-out labels, as `rungs.choose` has it; None without any."""
        hits = self.compared()
        return choose(hits, {name: self.results[name].gap(self.num_rungs) for name in hits})

    @property
    def best(self) -> RunConfig:
        """The configuration with the chosen candidate."""
        if self.chosen is None:
            raise RunError(f"{self.folder}: no candidate has been trained yet")
        return self.results[self.chosen].candidate.apply(self.config)


def result_files(folder: Path) -> list[Path]:
    """Return the files of the table and of the chosen settings."""
    return [folder / name for name in ("table.csv", "table.md", "best.yaml")]


def tune(
    data: Any,
    out: str | Path,
    *,
    settings: Mapping[str, Any] | None = None,
    candidates: Values | None = None,
    workers: int = 1,
    backend: Backend | None = None,
    budget: float | None = None,
    progress: ProgressDisplay | None = None,
) -> Tuning:
    """Search the options of a method by its accuracy on given labels that were held out.

    `data` and `settings` are those of `fit`, but data in memory cannot be tuned on. `candidates`
    maps options to values and replaces those that the method declares. Runs are kept in `out`: the
    same call resumes a search. After `budget` minutes no further run starts. `backend` says where
    to train, by default in `workers` processes on this machine.

    >>> import numpy as np
    >>> import surelabel
    >>> y = np.arange(60) % 3
    >>> np.savez("data.npz", x=4 * np.eye(3)[y], y=y)
    >>> gce = {"settings": {"method": "gce"}, "candidates": {"q": [0.3, 0.7]}}
    >>> tuning = surelabel.tune("data.npz", "tuning", **gce, budget=1e-9)
    >>> list(tuning.results), tuning.is_complete  # no time to train any; call it again with more
    (['q=0.3', 'q=0.7'], False)

    In the end `tuning.best` is a configuration for `fit`.
    """
    if not isinstance(data, str | Path | RunConfig) and not (isinstance(data, Mapping) and "data" in data):
        raise ConfigError(
            "data: data in memory cannot be tuned on; save them, for example as an .npz file, and pass its path"
        )
    if budget is not None and not budget > 0:
        raise ConfigError(f"budget: got {budget:g}; expected minutes, more than 0")
    config = api.make_config(data, settings)
    if config.train.warm_start is not None:
        raise ConfigError("train.warm_start: that run may have seen the labels that a search holds out; leave it out")
    refuse_overwriting(result_files(Path(out)), list_configured_files(config), "--out")
    found = list_candidates(config, candidates)
    end = None if budget is None else time.monotonic() + 60 * budget
    search = _Search(config, found, Path(out), backend or LocalBackend(workers), progress or ProgressDisplay())
    with claimed(Path(out)):
        return search.run(lambda: end is None or time.monotonic() < end)


def trial_config(config: RunConfig, candidate: Candidate, fold: int) -> RunConfig:
    """Return the configuration of one run: as it will be used, but without the rows of a fold."""
    chosen = candidate.apply(config)
    data = chosen.data.model_copy(update={"validation_fraction": HELD_OUT, "validation_fold": fold})
    # Only the last epoch is evaluated, and no verdict on the labels is needed.
    spared = {"evaluate_every": config.train.epochs, "second_opinion": False, "folds": 0}
    return chosen.model_copy(update={"data": data, "train": chosen.train.model_copy(update=spared)})


class _Search:
    """The rungs of a search, one after the other."""

    def __init__(
        self,
        config: RunConfig,
        candidates: list[Candidate],
        folder: Path,
        backend: Backend,
        progress: ProgressDisplay,
    ) -> None:
        self.config, self.folder, self.backend = config, folder, backend
        self.progress = _WithoutTests(progress)
        self.results = {str(candidate): Result(candidate) for candidate in candidates}
        self.num_rungs = 0

    def run(self, may_start: Callable[[], bool]) -> Tuning:
        sizes = plan_rungs(len(self.results))
        for fold, size in enumerate(sizes):
            names = rank(_compared(self.results, fold))[:size] if fold else list(self.results)
            if fold and len(names) < 2:
                break
            self.progress.note(f"rung {fold + 1} of {len(sizes)}: {len(names)} candidates")
            if not self._run_rung(names, fold, may_start):
                return self._end(is_complete=False)
        return self._end(is_complete=True)

    def _end(self, is_complete: bool) -> Tuning:
        failures = {result.failure for result in self.results.values()}
        if None not in failures and len(failures) == 1:
            raise RunError(f"every candidate failed: {failures.pop()}")
        while self.num_rungs > 1 and not _compared(self.results, self.num_rungs):
            self.num_rungs -= 1  # all of the last rung failed: those that were dropped before it are left
        return Tuning(self.config, self.results, self.num_rungs, is_complete, self.folder)

    def _run_rung(self, names: list[str], fold: int, may_start: Callable[[], bool]) -> bool:
        """Train candidates without a fold; return whether all of them have ended."""
        trials = {
            name: Trial({"candidate": name}, trial_config(self.config, self.results[name].candidate, fold))
            for name in names
        }
        outcome = run_all(
            trials.values(), self.folder, backend=self.backend, progress=self.progress, may_start=may_start
        )
        self._read(trials, outcome)
        # An unfinished rung does not count, except the first, before which there is none.
        if not outcome.waiting or fold == 0:
            self.num_rungs = fold + 1
        return not outcome.waiting

    def _read(self, trials: Mapping[str, Trial], outcome: Outcome) -> None:
        ids: np.ndarray | None = None
        for name, trial in trials.items():
            result, run = self.results[name], RunDir(self.folder / "runs" / trial.name)
            if trial.name in outcome.waiting:
                continue
            result.failure = outcome.failed.get(trial.name)
            if result.failure is None:
                result.seconds += sum(row["seconds"] for row in run.metrics())
                rows, hits, fit = read_hits(run)
                result.hits.append(hits)
                result.fits.append(fit)
                if ids is not None and not np.array_equal(ids, rows):
                    raise RunError(f"{run.path}: its held-out rows are not those of the other candidates; move it away")
                ids = rows


def _compared(results: Mapping[str, Result], num_rungs: int) -> dict[str, np.ndarray]:
    """Return the rows of the first rungs, of the candidates that have ended all of these."""
    return {
        name: join(result.hits[:num_rungs])
        for name, result in results.items()
        if result.failure is None and num_rungs and len(result.hits) >= num_rungs
    }


def read_hits(run: RunDir) -> tuple[np.ndarray, np.ndarray, float]:
    """Return ids of held-out rows, whether each was predicted as given, and how many others."""
    samples = run.samples().select(["id", "split", "given", "prediction"])
    is_held_out = np.array(samples["split"].to_pylist()) == "validation"
    hits = samples["given"].to_numpy() == samples["prediction"].to_numpy()
    return np.array(samples["id"].to_pylist())[is_held_out], hits[is_held_out], float(hits[~is_held_out].mean())


class _WithoutTests(ProgressDisplay):
    """Passes progress on, but not the accuracy of runs, which may be on clean test labels."""

    def __init__(self, display: ProgressDisplay) -> None:
        self.display = display

    def note(self, text: str) -> None:
        self.display.note(text)

    def update(self, overview: Overview) -> None:
        overview.running = {name: replace(run, accuracy="") for name, run in overview.running.items()}
        self.display.update(overview)

    def ended(self, overview: Overview, name: str, reason: str | None) -> None:
        self.display.ended(overview, name, reason)
