"""The presets by name, and the trials of a preset at a scale, or of some of its cells."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from surelabel.errors import ConfigError
from surelabel.jobs import Trial
from surelabel.paper.tables.cifar_tables import ABLATION, CORRECTION_ACCURACY, STRATEGIES, TABLE1
from surelabel.paper.tables.figure_runs import CONFIDENCE, MEMORISATION, SENSITIVITY
from surelabel.paper.tables.preset import Plan, Preset
from surelabel.paper.tables.real_world import TABLE2, TABLE3
from surelabel.paper.tables.scales import find_scale

PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        TABLE1,
        TABLE2,
        TABLE3,
        ABLATION,
        STRATEGIES,
        CORRECTION_ACCURACY,
        MEMORISATION,
        CONFIDENCE,
        SENSITIVITY,
    )
}


def find_preset(name: str) -> Preset:
    """Return a preset, or raise an error that lists all."""
    if name not in PRESETS:
        raise ConfigError(f"there is no table or figure {name!r} to reproduce; available: {', '.join(PRESETS)}")
    return PRESETS[name]


def plan_trials(
    name: str,
    *,
    scale: str = "paper",
    protocol: str = "car",
    car: str = "paper",
    only: Mapping[str, Collection[str]] | None = None,
    data: Path | None = None,
    folder: Path = Path("reproduction"),
) -> list[Trial]:
    """Return the trials of a preset; a run that several cells show is listed for each of them.

    `data` holds a folder for each data set; `folder` holds prepared data and runs.
    """
    preset = find_preset(name)
    chosen = find_scale(scale)
    if scale not in preset.scales:
        raise ConfigError(f"scale: {name} has no {scale!r}; it has {', '.join(preset.scales)}")
    if protocol not in preset.protocols:
        raise ConfigError(f"protocol: {name} has no {protocol!r}; it has {', '.join(preset.protocols)}")
    if not chosen.is_published and protocol in preset.protocols[1:]:
        raise ConfigError(f"protocol: {protocol} is for scale paper; at scale {scale} all methods train alike: car")
    if car not in preset.car_versions:
        raise ConfigError(f"car: {name} has no {car!r}; it has {', '.join(preset.car_versions)}")
    return select_trials(preset.trials(Plan(chosen, protocol, car, data, folder)), only)


def parse_only(text: str) -> dict[str, list[str]]:
    """Parse `method=car,noise=symmetric:0.4` into the wanted values of each key.

    Commas and semicolons separate; a key with several values matches any of them.
    """
    wanted: dict[str, list[str]] = {}
    for part in filter(None, (part.strip() for part in text.replace(";", ",").split(","))):
        key, sign, value = (word.strip() for word in part.partition("="))
        if not sign or not key or not value:
            raise ConfigError(f"only: {part!r}: expected KEY=VALUE, for example method=car,noise=symmetric:0.4")
        wanted.setdefault(key, []).append(value)
    return wanted


def select_trials(trials: Sequence[Trial], only: Mapping[str, Collection[str]] | None) -> list[Trial]:
    """Return the trials whose cell has a wanted value for each key of `only`, which may be seed."""
    kept = list(trials)
    for key, values in (only or {}).items():
        _refuse_unknown(trials, key, values)
        kept = [trial for trial in kept if _keys(trial).get(key) in values]
    if trials and not kept:
        shown = ", ".join(f"{key}={'|'.join(values)}" for key, values in (only or {}).items())
        raise ConfigError(f"only: no cell matches all of {shown}, although each of them occurs")
    return kept


def _keys(trial: Trial) -> dict[str, str]:
    return {**trial.cell, "seed": str(trial.seed)}


def _refuse_unknown(trials: Sequence[Trial], key: str, values: Collection[str]) -> None:
    cells = [_keys(trial) for trial in trials]
    keys = dict.fromkeys(name for cell in cells for name in cell)
    if key not in keys:
        raise ConfigError(f"only: there is no key {key!r}; available: {', '.join(keys)}")
    known = dict.fromkeys(cell[key] for cell in cells if key in cell)
    for value in values:
        if value not in known:
            raise ConfigError(f"only: {key} has no value {value!r}; available: {', '.join(known)}")
