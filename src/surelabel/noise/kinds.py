"""The kinds of noise: for each, how it draws and how that is told."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.config import NoiseConfig
from surelabel.errors import ConfigError
from surelabel.noise import draws
from surelabel.noise.class_maps import Arrows, by_block, by_groups, by_map, by_pair
from surelabel.noise.files import read_labels
from surelabel.noise.instance import SPREAD, instance
from surelabel.noise.matching import matched
from surelabel.noise.truth import Truth

_ROW_SUM_TOLERANCE = 1e-6
"""By how much a row of a transition matrix may miss 1, for numbers typed with few digits' rounding."""
_BY_ITSELF = "each label drawn by itself"


@dataclass(frozen=True)
class Drawn:
    """Labels, and what the manifest should say of them."""

    given: np.ndarray
    """(N,) int64."""
    convention: str
    expected_rate: float
    facts: dict[str, Any] = field(default_factory=dict)
    """Further fields of the manifest, which go over what the configuration says."""


Kind = Callable[[Truth, NoiseConfig, int], Drawn]


def mode_of(config: NoiseConfig) -> str:
    """The configured mode or the kind's usual one."""
    return config.mode or ("bernoulli" if config.kind in ("matrix", "instance") else "exact")


def _symmetric(truth: Truth, config: NoiseConfig, seed: int) -> Drawn:
    included, rng = config.include_true_class, _generator(seed)
    matrix = draws.symmetric_matrix(truth.num_classes, config.rate, included)
    if mode_of(config) == "exact":
        given = draws.symmetric(truth.clean, truth.num_classes, config.rate, included, rng)
    else:
        given = draws.independent(truth.clean, matrix, rng)
    how = f"true class {'included' if included else 'excluded'}, {_counted(config, 'exact count')}"
    return Drawn(given, how, _wrong_share(truth.clean, matrix))


def _asymmetric(truth: Truth, config: NoiseConfig, seed: int) -> Drawn:
    arrows, whose = by_map(config.class_map, truth.class_names)
    how = f"by {whose}, {_counted(config, 'exact count per source class')}"
    return _along(arrows, truth, config, seed, how)


def _superclass(truth: Truth, config: NoiseConfig, seed: int) -> Drawn:
    arrows, whose = by_groups(config.groups, truth.class_names)
    return _along(arrows, truth, config, seed, f"circular within {whose}, {_counted(config)}")


def _block(truth: Truth, config: NoiseConfig, seed: int) -> Drawn:
    how = f"circular within blocks of {config.block_size} class numbers, {_counted(config)}"
    return _along(by_block(truth.num_classes, config.block_size), truth, config, seed, how)


def _pair(truth: Truth, config: NoiseConfig, seed: int) -> Drawn:
    return _along(by_pair(truth.num_classes), truth, config, seed, f"each class to the next, {_counted(config)}")


def _along(arrows: Arrows, truth: Truth, config: NoiseConfig, seed: int, how: str) -> Drawn:
    """Labels that follow arrows between classes."""
    matrix, rng = draws.arrow_matrix(truth.num_classes, arrows, config.rate), _generator(seed)
    if mode_of(config) == "exact":
        given = draws.flipped(truth.clean, arrows, config.rate, rng)
    else:
        given = draws.independent(truth.clean, matrix, rng)
    names = {truth.class_names[old]: truth.class_names[new] for old, new in sorted(arrows.items())}
    return Drawn(given, how, _wrong_share(truth.clean, matrix), {"class_map": names})


def _matrix(truth: Truth, config: NoiseConfig, seed: int) -> Drawn:
    matrix, exact = _checked_matrix(config.matrix, truth), mode_of(config) == "exact"
    given = (draws.apportioned if exact else draws.independent)(truth.clean, matrix, _generator(seed))
    wrong = _wrong_share(truth.clean, matrix)
    return Drawn(
        given, f"transition matrix, {_counted(config, 'exact counts per class')}", wrong, {"nominal_rate": wrong}
    )


def _instance(truth: Truth, config: NoiseConfig, seed: int) -> Drawn:
    if truth.inputs is None:
        raise ConfigError("noise.kind: instance noise depends on the inputs, and none were handed over")
    scale = config.instance_scale
    given, flip, digest = instance(truth.clean, truth.num_classes, config.rate, scale, truth.inputs, seed)
    how = f"by input as Xia 2020, {scale} values, flip rates of deviation {SPREAD}, {_BY_ITSELF}"
    return Drawn(given, how, float(flip.mean()) if len(flip) else 0.0, {"inputs_sha256": digest})


def _file(truth: Truth, config: NoiseConfig, _seed: int) -> Drawn:
    if config.path is None:
        raise ConfigError("noise.path: file noise needs one: an .npy, a .csv with id and label, or a run directory")
    file = read_labels(Path(config.path), truth.class_names)
    given, digest = matched(file, truth, config.seed)
    wrong = float((given != truth.clean).mean()) if len(given) else 0.0
    told, name = file.manifest, Path(config.path).name
    facts: dict[str, Any] = {"mode": None, "seed": None, "nominal_rate": wrong}
    if told is None:
        return Drawn(given, f"{name}, without a manifest", wrong, facts)
    facts |= {"seed": told.seed, "nominal_rate": told.nominal_rate, "class_map": told.class_map}
    facts["inputs_sha256"] = digest
    expected = told.nominal_rate if told.expected_rate is None else told.expected_rate
    return Drawn(given, f"{name}: {told.kind}, {told.convention}", expected, facts)


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

_ARROWS = ("asymmetric", "superclass", "block", "pair")
_OPTIONS = {
    "rate": ("symmetric", *_ARROWS, "instance"),
    "mode": ("symmetric", *_ARROWS, "matrix"),
    "include_true_class": ("symmetric",),
    "class_map": ("asymmetric",),
    "groups": ("superclass",),
    "block_size": ("block",),
    "matrix": ("matrix",),
    "instance_scale": ("instance",),
    "path": ("file",),
}
"""Which kinds an option belongs to."""


def check_options(config: NoiseConfig) -> None:
    """An error for an option that this kind does not have."""
    for option, kinds in _OPTIONS.items():
        default = NoiseConfig.model_fields[option].default
        if getattr(config, option) != default and config.kind not in kinds:
            raise ConfigError(f"noise.{option}: not for {config.kind} noise; it belongs to {', '.join(kinds)}")


def _counted(config: NoiseConfig, exact: str = "exact count per class") -> str:
    return exact if mode_of(config) == "exact" else _BY_ITSELF


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def _wrong_share(clean: np.ndarray, matrix: np.ndarray) -> float:
    """The share of labels that a transition matrix makes wrong in the mean."""
    per_class = np.bincount(clean, minlength=len(matrix))
    return float(per_class @ (1 - np.diag(matrix))) / max(1, len(clean))


def _checked_matrix(matrix: tuple[tuple[float, ...], ...] | None, truth: Truth) -> np.ndarray:
    num_classes = truth.num_classes
    if not matrix:
        raise ConfigError(f"noise.matrix: matrix noise needs one, {num_classes} x {num_classes}")
    if len(matrix) != num_classes:
        raise ConfigError(f"noise.matrix: {len(matrix)} rows for {num_classes} classes; expected one for each")
    for name, row in zip(truth.class_names, matrix, strict=True):
        if len(row) != num_classes:
            raise ConfigError(f"noise.matrix: the row of {name!r} has {len(row)} entries for {num_classes} classes")
        if not all(entry >= 0 for entry in row) or not abs(sum(row) - 1) <= _ROW_SUM_TOLERANCE:
            raise ConfigError(
                f"noise.matrix: the row of {name!r} must have entries >= 0 that sum to 1; "
                f"the smallest is {min(row):g}, the sum {sum(row):g}"
            )
    return np.array(matrix)
