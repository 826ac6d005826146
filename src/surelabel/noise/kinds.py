"""The kinds of noise: how each draws labels, its options, and how the manifest describes it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.config import NoiseConfig
from surelabel.errors import ConfigError
from surelabel.noise.class_maps import ClassMap, map_by_blocks, map_by_groups, map_by_names, map_to_next
from surelabel.noise.clean_data import CleanData
from surelabel.noise.draw import (
    class_map_row,
    draw_by_class_map,
    draw_exact_counts,
    draw_independent,
    draw_symmetric,
    expected_rate,
    symmetric_row,
)
from surelabel.noise.files import match_rows, read_labels
from surelabel.noise.instance import SPREAD, draw_by_input

_ROW_SUM_TOLERANCE = 1e-6
"""How far the sum of a row of a transition matrix may be from 1, to allow for rounded entries."""
_INDEPENDENT = "each label drawn by itself"


@dataclass(frozen=True)
class NoisyLabels:
    """Labels, and what the manifest says about them."""

    given: np.ndarray
    """(N,) int64."""
    convention: str
    expected_rate: float
    overrides: dict[str, Any] = field(default_factory=dict)
    """Further fields of the manifest, which take precedence over those of the configuration."""


Kind = Callable[[CleanData, NoiseConfig, int], NoisyLabels]


def mode_of(config: NoiseConfig) -> str:
    """Return the configured mode, or the default of this kind of noise."""
    return config.mode or ("bernoulli" if config.kind in ("matrix", "instance") else "exact")


def _symmetric(data: CleanData, config: NoiseConfig, seed: int) -> NoisyLabels:
    included, rng = config.include_true_class, _generator(seed)
    row = symmetric_row(data.num_classes, config.rate, included)
    if mode_of(config) == "exact":
        given = draw_symmetric(data.clean, data.num_classes, config.rate, included, rng)
    else:
        given = draw_independent(data.clean, row, rng)
    how = f"true class {'included' if included else 'excluded'}, {_describe_mode(config, 'exact count')}"
    return NoisyLabels(given, how, expected_rate(data.clean, row))


def _asymmetric(data: CleanData, config: NoiseConfig, seed: int) -> NoisyLabels:
    class_map, origin = map_by_names(config.class_map, data.class_names)
    how = f"by {origin}, {_describe_mode(config, 'exact count per source class')}"
    return _draw_along_map(class_map, data, config, seed, how)


def _superclass(data: CleanData, config: NoiseConfig, seed: int) -> NoisyLabels:
    class_map, origin = map_by_groups(config.groups, data.class_names)
    return _draw_along_map(class_map, data, config, seed, f"circular within {origin}, {_describe_mode(config)}")


def _block(data: CleanData, config: NoiseConfig, seed: int) -> NoisyLabels:
    how = f"circular within blocks of {config.block_size} class numbers, {_describe_mode(config)}"
    return _draw_along_map(map_by_blocks(data.num_classes, config.block_size), data, config, seed, how)


def _pair(data: CleanData, config: NoiseConfig, seed: int) -> NoisyLabels:
    how = f"each class to the next, {_describe_mode(config)}"
    return _draw_along_map(map_to_next(data.num_classes), data, config, seed, how)


def _draw_along_map(class_map: ClassMap, data: CleanData, config: NoiseConfig, seed: int, how: str) -> NoisyLabels:
    """Draw labels that follow a class map."""
    row, rng = class_map_row(data.num_classes, class_map, config.rate), _generator(seed)
    if mode_of(config) == "exact":
        given = draw_by_class_map(data.clean, class_map, config.rate, rng)
    else:
        given = draw_independent(data.clean, row, rng)
    names = {data.class_names[old]: data.class_names[new] for old, new in sorted(class_map.items())}
    return NoisyLabels(given, how, expected_rate(data.clean, row), {"class_map": names})


def _matrix(data: CleanData, config: NoiseConfig, seed: int) -> NoisyLabels:
    matrix, exact = _check_matrix(config.matrix, data), mode_of(config) == "exact"
    rng, row = _generator(seed), matrix.__getitem__
    given = draw_exact_counts(data.clean, matrix, rng) if exact else draw_independent(data.clean, row, rng)
    rate = expected_rate(data.clean, row)
    how = f"transition matrix, {_describe_mode(config, 'exact counts per class')}"
    return NoisyLabels(given, how, rate, {"nominal_rate": rate})


def _instance(data: CleanData, config: NoiseConfig, seed: int) -> NoisyLabels:
    if data.inputs is None:
        raise ConfigError("noise.kind: instance noise depends on the inputs, but there are none here")
    scale = config.instance_scale
    given, flip, digest = draw_by_input(data.clean, data.num_classes, config.rate, scale, data.inputs, seed)
    how = f"by input as Xia 2020, {scale} values, flip rates of deviation {SPREAD}, {_INDEPENDENT}"
    return NoisyLabels(given, how, float(flip.mean()) if len(flip) else 0.0, {"inputs_sha256": digest})


def _file(data: CleanData, config: NoiseConfig, _seed: int) -> NoisyLabels:
    if config.path is None:
        raise ConfigError("noise.path: file noise needs one: an .npy, a .csv with id and label, or a run directory")
    file = read_labels(Path(config.path), data.class_names)
    given, digest = match_rows(file, data, config.seed)
    rate = float((given != data.clean).mean()) if len(given) else 0.0
    manifest, name = file.manifest, Path(config.path).name
    overrides: dict[str, Any] = {"mode": None, "seed": None, "nominal_rate": rate}
    if manifest is None:
        return NoisyLabels(given, f"{name}, without a manifest", rate, overrides)
    overrides |= {"seed": manifest.seed, "nominal_rate": manifest.nominal_rate, "class_map": manifest.class_map}
    overrides["inputs_sha256"] = digest
    expected = manifest.nominal_rate if manifest.expected_rate is None else manifest.expected_rate
    return NoisyLabels(given, f"{name}: {manifest.kind}, {manifest.convention}", expected, overrides)


KINDS: dict[str, Kind] = {
    "symmetric": _symmetric,
    "asymmetric": _asymmetric,
    "superclass": _superclass,
    "block": _block,
    "pair": _pair,
    "matrix": _matrix,
    "instance": _instance,
    "file": _file,
}

_WITH_CLASS_MAP = ("asymmetric", "superclass", "block", "pair")
_OPTIONS = {
    "rate": ("symmetric", *_WITH_CLASS_MAP, "instance"),
    "mode": ("symmetric", *_WITH_CLASS_MAP, "matrix"),
    "include_true_class": ("symmetric",),
    "class_map": ("asymmetric",),
    "groups": ("superclass",),
    "block_size": ("block",),
    "matrix": ("matrix",),
    "instance_scale": ("instance",),
    "path": ("file",),
}
"""The kinds of noise that each option applies to."""


def check_options(config: NoiseConfig) -> None:
    """Raise ConfigError if an option is set that does not apply to this kind of noise."""
    for option, kinds in _OPTIONS.items():
        default = NoiseConfig.model_fields[option].default
        if getattr(config, option) != default and config.kind not in kinds:
            raise ConfigError(f"noise.{option}: does not apply to {config.kind} noise, only to {', '.join(kinds)}")


def _describe_mode(config: NoiseConfig, exact: str = "exact count per class") -> str:
    return exact if mode_of(config) == "exact" else _INDEPENDENT


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def _check_matrix(matrix: tuple[tuple[float, ...], ...] | None, data: CleanData) -> np.ndarray:
    num_classes = data.num_classes
    if not matrix:
        raise ConfigError(f"noise.matrix: matrix noise needs one, {num_classes} x {num_classes}")
    if len(matrix) != num_classes:
        raise ConfigError(f"noise.matrix: {len(matrix)} rows for {num_classes} classes; expected one for each")
    for name, row in zip(data.class_names, matrix, strict=True):
        if len(row) != num_classes:
            raise ConfigError(f"noise.matrix: the row of {name!r} has {len(row)} entries for {num_classes} classes")
        if not all(entry >= 0 for entry in row) or not abs(sum(row) - 1) <= _ROW_SUM_TOLERANCE:
            raise ConfigError(
                f"noise.matrix: the row of {name!r} must have entries >= 0 that sum to 1; "
                f"the smallest is {min(row):g}, the sum {sum(row):g}"
            )
    return np.array(matrix)
