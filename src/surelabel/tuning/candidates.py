"""The settings that a search compares: values of a method's options, the default first."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surelabel import methods
from surelabel.config import MethodConfig, RunConfig
from surelabel.errors import ConfigError

MOST_COMBINED = 8
"""Up to this many combinations all are tried; of more, only those that change one option."""
Values = Mapping[str, Sequence[Any]]
"""Options and the values to try, the usual one first."""


@dataclass(frozen=True)
class Candidate:
    """Values of the options that a search is about."""

    options: Mapping[str, Any]

    def __str__(self) -> str:
        """Describe the candidate as assignments."""
        return ", ".join(f"{name}={_value_text(value)}" for name, value in self.options.items())

    def apply(self, config: RunConfig) -> RunConfig:
        """Return the configuration with these options; its other options stay."""
        method = MethodConfig(name=config.method.name, options={**config.method.options, **self.options})
        return config.model_copy(update={"method": method})


def _value_text(value: Any) -> str:
    if value is None:
        return "default"
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def list_candidates(config: RunConfig, values: Values | None = None) -> list[Candidate]:
    """Return the candidates for the configured method, the usual one first.

    `values` replaces those that the method declares. Options that the configuration sets keep
    their values.
    """
    name, fixed = config.method.name, config.method.options
    methods.validate_options(name, fixed)
    for option in values or {}:
        if option in fixed:
            raise ConfigError(f"method.{option}: is both set to {fixed[option]!r} and listed to be tried; choose one")
    declared = methods.find(name).candidates.values if values is None else values
    options = combine({option: tried for option, tried in declared.items() if option not in fixed})
    found = list({str(candidate): candidate for candidate in map(Candidate, options)}.values())
    for candidate in found:
        methods.validate_options(name, dict(candidate.options))
    if len(found) < 2:
        raise ConfigError(_say_nothing_to_try(name, declared, fixed))
    return found


def _say_nothing_to_try(name: str, declared: Values, fixed: Mapping[str, Any]) -> str:
    if declared and all(option in fixed for option in declared):
        return f"method: nothing is left to try for {name}, because {', '.join(declared)} are set"
    return f"method: there is nothing to try for {name}; name values, for example --try OPTION=VALUE,VALUE"


def combine(values: Values) -> list[dict[str, Any]]:
    """Return all combinations if they are few, else those that change one option of the first."""
    if math.prod(len(options) for options in values.values()) <= MOST_COMBINED:
        return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]
    usual = {name: options[0] for name, options in values.items()}
    changed = [{**usual, name: value} for name, options in values.items() for value in options[1:]]
    return [usual, *changed]
