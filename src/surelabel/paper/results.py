"""Make tables from run directories: mean and deviation over seeds, beside the published numbers."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surelabel.errors import SurelabelError
from surelabel.jobs import find_state
from surelabel.paper.tables import Measure, Preset, Published, Trial, find_preset, read_published
from surelabel.paper.tables.preset import BEST_CLEAN_VALIDATION, BEST_TEST, BEST_VALIDATION, LAST
from surelabel.runs.run_dir import RunDir

Cell = Mapping[str, str]
Epoch = dict[str, Any]
"""A row of metrics.jsonl."""
CLEAN_VALIDATION = "clean_validation"
"""The test set that chooses the epoch on Clothing1M."""


@dataclass(frozen=True)
class Summary:
    """The mean and deviation over seeds, in percent."""

    mean: float
    std: float | None
    """The sample standard deviation; None for one seed."""
    num_seeds: int


@dataclass(frozen=True)
class Entry:
    """One measure in one cell."""

    cell: Cell
    measure: Measure
    num_planned: int
    num_done: int
    summaries: Mapping[str, Summary | None]
    """By rule; None if no finished run has what the rule needs."""
    published: tuple[Published, ...] = ()
    """Published numbers, first the one to compare with."""

    def difference(self, rule: str) -> float | None:
        """Return our mean minus the published one."""
        ours, theirs = self.summaries[rule], self.published[0].mean if self.published else None
        return None if ours is None or theirs is None else ours.mean - theirs


@dataclass(frozen=True)
class Table:
    """All entries of a preset, in the order of its trials."""

    preset: Preset
    scale: str
    protocol: str
    car: str
    """The version of CAR, which the text or the code defines."""
    entries: tuple[Entry, ...]

    @property
    def rule(self) -> str:
        """The rule of the published numbers."""
        return self.preset.rules[0]


def make_table(
    name: str,
    trials: Sequence[Trial],
    folder: Path,
    *,
    scale: str = "paper",
    protocol: str = "car",
    car: str = "paper",
    with_unplanned: bool = False,
) -> Table:
    """Return the results of the finished runs in folder/runs, for the cells of these trials.

    `with_unplanned` adds published cells without a trial, such as those whose original protocol is
    not known.
    """
    preset = find_preset(name)
    numbers = read_published(preset.published) if preset.published is not None else []
    epochs: dict[str, list[Epoch] | None] = {}
    for trial in trials:
        if trial.name not in epochs:
            epochs[trial.name] = _read_epochs(trial, folder / "runs" / trial.name)
    entries = [
        _make_entry(
            preset,
            measure,
            cell,
            [epochs[trial.name] for trial in group],
            _published_for(numbers, cell, measure, protocol),
        )
        for cell, group in [*_group_by_cell(trials), *(_unplanned(numbers, trials) if with_unplanned else [])]
        for measure in preset.measures
    ]
    return Table(preset, scale, protocol, car, tuple(entries))


def _group_by_cell(trials: Sequence[Trial]) -> list[tuple[Cell, list[Trial]]]:
    groups: dict[tuple[tuple[str, str], ...], list[Trial]] = {}
    for trial in trials:
        groups.setdefault(tuple(trial.cell.items()), []).append(trial)
    return [(dict(key), group) for key, group in groups.items()]


def _unplanned(numbers: list[Published], trials: Sequence[Trial]) -> list[tuple[Cell, list[Trial]]]:
    seen = [dict(trial.cell) for trial in trials]
    found: list[tuple[Cell, list[Trial]]] = []
    for number in numbers:
        if dict(number.cell) not in seen:
            seen.append(dict(number.cell))
            found.append((number.cell, []))
    return found


def _read_epochs(trial: Trial, path: Path) -> list[Epoch] | None:
    """Return the metrics of a finished run, or None."""
    try:
        return RunDir(path).metrics() if find_state(trial, path) == "done" else None
    except SurelabelError:
        return None


def _make_entry(
    preset: Preset,
    measure: Measure,
    cell: Cell,
    runs: list[list[Epoch] | None],
    published: tuple[Published, ...],
) -> Entry:
    done = [epochs for epochs in runs if epochs is not None]
    summaries = {rule: _summarise([choose_value(epochs, measure, rule) for epochs in done]) for rule in preset.rules}
    return Entry(cell, measure, len(runs), len(done), summaries, published)


def _summarise(values: list[float | None]) -> Summary | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Summary(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None, len(known))


def _published_for(numbers: list[Published], cell: Cell, measure: Measure, protocol: str) -> tuple[Published, ...]:
    """Return the published numbers of a cell, those of our protocol first."""
    same = [number for number in numbers if number.cell == cell and number.measure == measure.key]
    return tuple(sorted(same, key=lambda number: number.protocol != protocol))


def choose_value(epochs: list[Epoch], measure: Measure, rule: str) -> float | None:
    """Return the measure in percent at the epoch that the rule chooses, if the run has both."""
    # Only the last stage counts: earlier ones train other things, such as an estimate of noise.
    measured = [e for e in epochs if e.get("stage") == epochs[-1].get("stage") and _value(e, measure) is not None]
    score = _SCORES[rule]
    scored = [(found, epoch) for epoch in measured if (found := score(epoch, measure)) is not None]
    if not scored:
        return None
    _, best = max(scored, key=lambda pair: pair[0])  # the first of equals
    value = _value(best, measure)
    return None if value is None else 100 * value


def _value(epoch: Epoch, measure: Measure) -> float | None:
    place = epoch if measure.test is None else _accuracies(epoch, measure.test)
    return place.get(measure.metric)


def _accuracies(epoch: Epoch, test: str) -> dict[str, Any]:
    return (epoch.get("tests") or {}).get(test) or {}


_SCORES: Mapping[str, Callable[[Epoch, Measure], float | None]] = {
    LAST: lambda epoch, _: epoch["epoch"],
    BEST_VALIDATION: lambda epoch, _: (epoch.get("validation") or {}).get("top1"),
    # By top-1 for top-5 too: all numbers of a row are of one network.
    BEST_TEST: lambda epoch, measure: _accuracies(epoch, measure.test or "test").get("top1"),
    BEST_CLEAN_VALIDATION: lambda epoch, _: _accuracies(epoch, CLEAN_VALIDATION).get("top1"),
}
"""By rule, the score whose maximum chooses the epoch."""
