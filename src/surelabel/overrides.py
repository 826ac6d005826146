"""Settings as people write them: YAML and JSON files, and assignments to dotted names."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from surelabel.config import MethodConfig, ModelConfig
from surelabel.errors import ConfigError


class _YamlLoader(yaml.SafeLoader):
    """Loads plain data only, and reads 1e-3 as a number as JSON does; YAML 1.1 would read text."""


_YamlLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _from_yaml(text: str) -> Any:
    return yaml.load(text, _YamlLoader)


def read_config(path: Path) -> dict[str, Any]:
    """Read the mapping in a YAML or JSON file."""
    kind, parse = ("JSON", json.loads) if path.suffix == ".json" else ("YAML", _from_yaml)
    try:
        content = parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such configuration file") from None
    except (yaml.YAMLError, ValueError, OSError) as error:
        raise ConfigError(f"{path}: not readable as {kind}: {' '.join(str(error).split())}") from None
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
    except yaml.YAMLError:
        raise ConfigError(f"--set {assignment}: the value is not readable as YAML") from None
