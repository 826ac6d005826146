"""Tables from run directories: mean and deviation over seeds, and the published number beside. What was not run stays empty."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from surelabel.errors import SurelabelError
from surelabel.files import replace_text
from surelabel.jobs import find_state
from surelabel.paper.chosen_epoch import chosen_value
from surelabel.paper.published import published
from surelabel.paper.result_cells import Cell, Entry, Summary, Table
from surelabel.paper.result_formats import FORMATS
from surelabel.paper.tables import Measure, Preset, Published, Trial, preset_named
from surelabel.runs.run_dir import RunDir

__all__ = ["Entry", "Summary", "Table", "table", "write"]


def table(
    name: str,
    trials: Sequence[Trial],
    folder: Path,
    *,
    scale: str = "paper",
    protocol: str = "car",
    with_unplanned: bool = False,
) -> Table:
    """What the finished runs in `folder`/runs say of the cells of these trials.

    `with_unplanned` adds published cells that no trial is for, such as those of an original protocol that is not known.
    """
    preset = preset_named(name)
    numbers = published(preset.published) if preset.published is not None else []
    epochs: dict[str, list[dict[str, Any]] | None] = {}
    for trial in trials:
        if trial.name not in epochs:
            epochs[trial.name] = _epochs(trial, folder / "runs" / trial.name)
    entries = [
        _entry(
            preset, measure, cell, [epochs[trial.name] for trial in group], _beside(numbers, cell, measure, protocol)
        )
        for cell, group in [*_by_cell(trials), *(_unplanned(numbers, trials) if with_unplanned else [])]
        for measure in preset.measures
    ]
    return Table(preset, scale, protocol, tuple(entries))


def write(table: Table, folder: Path) -> list[Path]:
    """NAME.md, NAME.csv and NAME.tex in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for suffix, text in FORMATS.items():
        paths.append(folder / f"{table.preset.name}.{suffix}")
        replace_text(paths[-1], text(table))
    return paths


def _by_cell(trials: Sequence[Trial]) -> list[tuple[Cell, list[Trial]]]:
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


def _epochs(trial: Trial, path: Path) -> list[dict[str, Any]] | None:
    """The metrics of its finished run; None if there is none, or something else that whoever trains it complains of."""
    try:
        return RunDir(path).metrics() if find_state(trial, path) == "done" else None
    except SurelabelError:
        return None


def _entry(
    preset: Preset,
    measure: Measure,
    cell: Cell,
    runs: list[list[dict[str, Any]] | None],
    beside: tuple[Published, ...],
) -> Entry:
    done = [epochs for epochs in runs if epochs is not None]
    summaries = {rule: _summary([chosen_value(epochs, measure, rule) for epochs in done]) for rule in preset.rules}
    return Entry(cell, measure, len(runs), len(done), summaries, beside)


def _summary(values: list[float | None]) -> Summary | None:
    there = [value for value in values if value is not None]
    if not there:
        return None
    return Summary(statistics.fmean(there), statistics.stdev(there) if len(there) > 1 else None, len(there))


def _beside(numbers: list[Published], cell: Cell, measure: Measure, protocol: str) -> tuple[Published, ...]:
    """The published numbers of a cell, those of our own protocol first."""
    same = [number for number in numbers if number.cell == cell and number.measure == measure.key]
    return tuple(sorted(same, key=lambda number: number.protocol != protocol))
