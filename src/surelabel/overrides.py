"""Settings as people write them: YAML and JSON files, and assignments to dotted names."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from surelabel.config import MethodConfig, ModelConfig, shorten
from surelabel.errors import ConfigError, did_you_mean
from surelabel.files import refuse_special_file

_MAX_DEPTH = 50
"""Levels of nesting that settings may have; the deepest of our own have 5."""
_MAX_REPEATED = 100_000
"""Values that anchors may add to a file by repeating it; a few lines could otherwise make 10^9."""

COMMON = {
    "method": "method",
    "model": "model",
    "features": "model.features",
    "feature_size": "model.feature_size",
    "epochs": "train.epochs",
    "batch_size": "train.batch_size",
    "rate": "optimiser.rate",
    "seed": "train.seed",
    "noise": "noise",
    "test": "data.test",
    "labels": "data.labels",
    "trusted": "data.trusted",
    "merge_classes": "data.merge_classes",
    "root": "data.root",
    "image_root": "data.image_root",
    "label_column": "data.label_column",
    "text_column": "data.text_column",
    "group": "data.group",
    "unreadable": "data.unreadable",
    "folds": "train.folds",
    "warm_start": "train.warm_start",
    "device": "train.device",
    "devices": "train.devices",
    "threads": "train.threads",
    "precision": "train.precision",
    "cache": "data.cache",
}
"""The settings that `fit` takes as keywords and the command line as options."""

RECIPES: dict[str, dict[str, Any]] = {
    "fast": {
        "model.name": "fast_cnn",
        "model.options.whiten": True,
        "model.mirror": True,
        "train.epochs": 16,
        "train.batch_size": 256,
        "train.flip": "alternate",
        "train.crop_padding": 2,
        "optimiser.rate": 0.2,
        "optimiser.bias_rate": 16.0,
        "optimiser.schedule": {"kind": "one_cycle"},
    },
}
"""Settings that belong together, by the name of `--recipe`; other options override them.

fast trains small photos, such as CIFAR's, in few epochs: docs/results/speed.md.
"""


def recipe(name: str) -> dict[str, Any]:
    """Return the settings of a recipe by dotted name."""
    if name not in RECIPES:
        raise ConfigError(f"recipe: there is no {name!r}; {did_you_mean(name, RECIPES)}available: {', '.join(RECIPES)}")
    return RECIPES[name]


class _YamlLoader(yaml.SafeLoader):
    """Loads plain data only, and what JSON reads as a number or text as JSON does.

    YAML 1.1 would read 1e-3 as text and 2020-01-01 as a date.
    """

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Copy what `<<` names into a mapping, which a few lines of anchors could make huge."""
        super().flatten_mapping(node)
        if len(node.value) > _MAX_REPEATED:
            raise ValueError(f"it merges more than {_MAX_REPEATED:,} values")


_YamlLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_YamlLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _from_yaml(text: str) -> Any:
    return _check_plain(yaml.load(text, _YamlLoader))


def _from_json(text: str) -> Any:
    return _check_plain(json.loads(text))


def _check_plain(content: Any) -> Any:
    """Return the content; raise ValueError if it is too deep, too large or not as JSON has it."""
    sizes: dict[int, int] = {}
    _count_values(content, sizes, ())
    distinct = sum(len(inner) for inner in _containers(content))
    if sizes.get(id(content), 0) - distinct > _MAX_REPEATED:
        raise ValueError(f"its anchors repeat more than {_MAX_REPEATED:,} values")
    return content


def _count_values(value: Any, sizes: dict[int, int], above: tuple[int, ...]) -> int:
    """Return the number of values inside, counting repeated ones again; `sizes` keeps results."""
    if not isinstance(value, dict | list):
        if value is not None and not isinstance(value, str | int | float):
            raise ValueError(f"a {type(value).__name__} is not a setting; expected numbers, text, lists and mappings")
        return 0
    if id(value) in above:
        raise ValueError("an anchor refers to itself")
    if len(above) >= _MAX_DEPTH:
        raise ValueError(f"nested too deeply; at most {_MAX_DEPTH} levels are allowed")
    if id(value) not in sizes:
        inner = value.values() if isinstance(value, dict) else value
        sizes[id(value)] = sum(1 + _count_values(one, sizes, (*above, id(value))) for one in inner)
    return sizes[id(value)]


def _containers(content: Any) -> Iterator[dict[Any, Any] | list[Any]]:
    """Yield each mapping and list once, however often anchors repeat it."""
    seen: set[int] = set()
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list) and id(value) not in seen:
            seen.add(id(value))
            yield value
            waiting += value.values() if isinstance(value, dict) else value


def read_config(path: Path) -> dict[str, Any]:
    """Read the mapping in a YAML or JSON file."""
    kind, parse = ("JSON", _from_json) if path.suffix == ".json" else ("YAML", _from_yaml)
    if not (path.is_fifo() and path.is_relative_to("/dev")):  # --config <(...) of a shell
        refuse_special_file(path, ConfigError)
    try:
        content = parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such configuration file") from None
    except RecursionError:
        raise ConfigError(f"{path}: not readable as {kind}: nested too deeply") from None
    except (yaml.YAMLError, ValueError, OSError) as error:
        raise ConfigError(f"{path}: not readable as {kind}: {shorten(' '.join(str(error).split()))}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected a mapping like `train: {{epochs: 100}}`, got {type(content).__name__}")
    return content


def set_field(content: dict[str, Any], name: str, value: Any) -> None:
    """Set a dotted name in nested mappings; method.X and model.X may be options."""
    keys = name.strip().split(".")
    own = {"method": MethodConfig.model_fields, "model": ModelConfig.model_fields}.get(keys[0])
    if own is not None and len(keys) == 2 and keys[1] not in own:
        keys.insert(1, "options")
    place = content
    for depth, key in enumerate(keys[:-1], 1):
        inner = {} if place.get(key) is None else place[key]
        if isinstance(inner, str) and keys[:depth] in (["method"], ["model"]):
            inner = {"name": inner}
        if not isinstance(inner, dict):
            raise ConfigError(f"{'.'.join(keys[:depth])}: expected a mapping of settings, got {inner!r}")
        place[key] = dict(inner)
        place = place[key]
    place[keys[-1]] = value


def dotted(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all fields by dotted name, as `set_field` takes them."""
    for name, value in content.items():
        if isinstance(value, Mapping):
            yield from dotted(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def parsed_assignment(assignment: str) -> tuple[str, Any]:
    """Split `a.b=value` into name and value, which is read as YAML."""
    name, sign, text = assignment.partition("=")
    if not sign or not all(name.strip().split(".")):
        raise ConfigError(f"--set {assignment}: expected FIELD=VALUE, for example train.epochs=100")
    try:
        return name, _from_yaml(text)
    except (yaml.YAMLError, RecursionError):
        raise ConfigError(f"--set {shorten(assignment)}: the value is not readable as YAML") from None
    except ValueError as error:
        raise ConfigError(f"--set {shorten(assignment)}: {shorten(str(error))}") from None
