"""Some of a table's cells: `method=car,noise=symmetric:0.4`."""

from collections.abc import Collection, Mapping, Sequence

from surelabel.errors import ConfigError
from surelabel.jobs.trial import Trial


def parse_only(text: str) -> dict[str, list[str]]:
    """By key, the values that are wanted; a key that stands there twice means either. Commas and semicolons divide."""
    wanted: dict[str, list[str]] = {}
    for part in filter(None, (part.strip() for part in text.replace(";", ",").split(","))):
        key, sign, value = (word.strip() for word in part.partition("="))
        if not sign or not key or not value:
            raise ConfigError(f"only: {part!r}: expected KEY=VALUE, for example method=car,noise=symmetric:0.4")
        wanted.setdefault(key, []).append(value)
    return wanted


def selected(trials: Sequence[Trial], only: Mapping[str, Collection[str]] | None) -> list[Trial]:
    """The trials whose cell has one of the wanted values at every wanted key; seed is a key too."""
    kept = list(trials)
    for key, values in (only or {}).items():
        _refuse_unknown(trials, key, values)
        kept = [trial for trial in kept if _words(trial).get(key) in values]
    if trials and not kept:
        raise ConfigError(f"only: no cell has all of {_shown(only or {})}; each is there, but not together")
    return kept


def _words(trial: Trial) -> dict[str, str]:
    return {**trial.cell, "seed": str(trial.seed)}


def _refuse_unknown(trials: Sequence[Trial], key: str, values: Collection[str]) -> None:
    cells = [_words(trial) for trial in trials]
    keys = dict.fromkeys(name for cell in cells for name in cell)
    if key not in keys:
        raise ConfigError(f"only: there is no key {key!r}; there are {', '.join(keys)}")
    there = dict.fromkeys(cell[key] for cell in cells if key in cell)
    for value in values:
        if value not in there:
            raise ConfigError(f"only: {key} has no value {value!r}; there are {', '.join(there)}")


def _shown(only: Mapping[str, Collection[str]]) -> str:
    return ", ".join(f"{key}={'|'.join(values)}" for key, values in only.items())
