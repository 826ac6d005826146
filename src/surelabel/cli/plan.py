"""`surelabel plan`, or `surelabel fit --dry-run`: describe the data, memory and time."""

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from surelabel import console
from surelabel.cli.options import Json, app, takes_settings
from surelabel.config import RunConfig

if TYPE_CHECKING:
    from surelabel.training.cost_estimate import Plan

NUM_SHOWN = 5
"""Groups of duplicates to show, and largest and smallest classes."""


@app.command()
@takes_settings
def plan(settings: RunConfig, json: Json = False) -> None:
    """Describe the data that fit would train on, find duplicates, and estimate memory and time."""
    say_plan(settings, json)


def say_plan(settings: RunConfig, json: bool) -> None:
    """Print the plan."""
    from surelabel.training.cost_estimate import plan

    console.tell("looking at the data and timing a few steps ...")
    found = plan(settings)
    if json:
        groups = found.twins or []
        console.say_json(
            {
                **dataclasses.asdict(dataclasses.replace(found, twins=None)),
                "duplicates": None if found.twins is None else len(groups),
                "conflicts": None if found.twins is None else [dataclasses.asdict(g) for g in groups if g.disagree],
            }
        )
        return
    for line in _describe_plan(settings, found):
        console.say_prose(line)


def _describe_plan(settings: RunConfig, found: "Plan") -> Iterator[str]:
    parts = ", ".join(f"{count:,} {name}" for name, count in found.sizes.items())
    yield f"Data: {settings.data.source}: {parts}; inputs {' x '.join(map(str, found.input_shape))}"
    yield from _describe_classes(found)
    yield from _describe_duplicates(found)
    memory = ", ".join(f"{name} {_size_text(size)}" for name, size in found.bytes.items())
    on_disk = "" if found.is_in_memory else "; the inputs stay on disk"
    yield f"Memory: {memory}; about {_size_text(found.peak_bytes)} at most{on_disk}"
    if found.feature_rows:
        pace = f"{found.feature_rows / found.feature_seconds:,.0f} a second"
        needed = f"{_duration_text(found.feature_seconds)} (once, {pace})"
        yield f"Features: {found.pretrained}, of {found.feature_rows:,} rows: about {needed}"
    pace = f"{found.epochs} epochs of {found.batches:,} steps, {1000 * found.step_seconds:.0f} ms each"
    if settings.train.num_folds:
        pace += f", then {settings.train.num_folds} folds"
    besides = f"start and verdict {_duration_text(found.other_seconds)}"
    total = _duration_text(found.total_seconds)
    yield f"Time: about {total} ({settings.method.name}: {pace}, as the first steps went; {besides})"
    for text in found.warnings:
        yield f"Note: {text}"


def _describe_classes(found: "Plan") -> Iterator[str]:
    counts = sorted(found.class_counts.items(), key=lambda item: -item[1])
    shown = counts if len(counts) <= 2 * NUM_SHOWN else [*counts[:NUM_SHOWN], ("...", 0), *counts[-NUM_SHOWN:]]
    text = ", ".join(name if name == "..." else f"{name} {count:,}" for name, count in shown)
    yield f"Classes: {len(counts)}; given labels: {text}"
    empty = [name for name, count in counts if not count]
    if empty:
        yield f"Note: no training row has the label {', '.join(empty)}"


def _describe_duplicates(found: "Plan") -> Iterator[str]:
    if found.twins is None or found.leaked is None:
        yield "Duplicates: not looked for, because the inputs are many and not in memory"
        return
    conflicts = [group for group in found.twins if group.disagree]
    rows = sum(len(group.ids) for group in found.twins)
    differ = f"{len(conflicts)} carry different labels"
    yield f"Duplicates: {len(found.twins)} inputs occur more than once ({rows} rows); {differ}"
    names = list(found.class_counts)
    for group in conflicts[:NUM_SHOWN]:
        yield "  " + ", ".join(f"{i} ({names[label]})" for i, label in zip(group.ids, group.labels, strict=True))
    for name, ids in found.leaked.items():
        some = f": {', '.join(ids[:NUM_SHOWN])}{', ...' if len(ids) > NUM_SHOWN else ''}" if ids else ""
        yield f"Rows of the {name} set that are also trained on: {len(ids)}{some}"


def _size_text(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _duration_text(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
