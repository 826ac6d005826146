"""The kinds of noise: how each draws labels, how the manifest describes it, how a user writes it.

Members of a class are always looked up in the CLEAN labels. Several published implementations look
in labels that they have already changed: cats that became dogs then turn back, and 24 % of the cats
are wrong instead of 40 %.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.config import NoiseConfig
from surelabel.errors import ConfigError
from surelabel.noise.class_maps import (
    BUILT_IN_GROUPS,
    BUILT_IN_MAPS,
    ClassMap,
    map_by_blocks,
    map_by_groups,
    map_by_names,
    map_to_next,
)
from surelabel.noise.clean_data import CleanData
from surelabel.noise.files import match_rows, read_labels
from surelabel.noise.instance import SPREAD, draw_by_input

_ROW_SUM_TOLERANCE = 1e-6
"""How far the sum of a row of a transition matrix may be from 1, to allow for rounded entries."""
_INDEPENDENT = "each label drawn by itself"


@dataclass(frozen=True)
class Drawn:
    """Labels, and what the manifest says about them."""

    given: np.ndarray
    """(N,) int64."""
    convention: str
    expected_rate: float
    overrides: dict[str, Any] = field(default_factory=dict)
    """Further fields of the manifest, which take precedence over those of the configuration."""


Kind = Callable[[CleanData, NoiseConfig, int], Drawn]


def mode_of(config: NoiseConfig) -> str:
    """Return the configured mode, or the default of this kind of noise."""
    return config.mode or ("bernoulli" if config.kind in ("matrix", "instance") else "exact")


def _symmetric(data: CleanData, config: NoiseConfig, seed: int) -> Drawn:
    included, rng = config.include_true_class, _generator(seed)
    matrix = symmetric_matrix(data.num_classes, config.rate, included)
    if mode_of(config) == "exact":
        given = draw_symmetric(data.clean, data.num_classes, config.rate, included, rng)
    else:
        given = draw_independent(data.clean, matrix, rng)
    how = f"true class {'included' if included else 'excluded'}, {_describe_mode(config, 'exact count')}"
    return Drawn(given, how, _expected_rate(data.clean, matrix))


def _asymmetric(data: CleanData, config: NoiseConfig, seed: int) -> Drawn:
    class_map, origin = map_by_names(config.class_map, data.class_names)
    how = f"by {origin}, {_describe_mode(config, 'exact count per source class')}"
    return _follow(class_map, data, config, seed, how)


def _superclass(data: CleanData, config: NoiseConfig, seed: int) -> Drawn:
    class_map, origin = map_by_groups(config.groups, data.class_names)
    return _follow(class_map, data, config, seed, f"circular within {origin}, {_describe_mode(config)}")


def _block(data: CleanData, config: NoiseConfig, seed: int) -> Drawn:
    how = f"circular within blocks of {config.block_size} class numbers, {_describe_mode(config)}"
    return _follow(map_by_blocks(data.num_classes, config.block_size), data, config, seed, how)


def _pair(data: CleanData, config: NoiseConfig, seed: int) -> Drawn:
    how = f"each class to the next, {_describe_mode(config)}"
    return _follow(map_to_next(data.num_classes), data, config, seed, how)


def _follow(class_map: ClassMap, data: CleanData, config: NoiseConfig, seed: int, how: str) -> Drawn:
    """Draw labels that follow a class map."""
    matrix, rng = class_map_matrix(data.num_classes, class_map, config.rate), _generator(seed)
    if mode_of(config) == "exact":
        given = draw_by_class_map(data.clean, class_map, config.rate, rng)
    else:
        given = draw_independent(data.clean, matrix, rng)
    names = {data.class_names[old]: data.class_names[new] for old, new in sorted(class_map.items())}
    return Drawn(given, how, _expected_rate(data.clean, matrix), {"class_map": names})


def _matrix(data: CleanData, config: NoiseConfig, seed: int) -> Drawn:
    matrix, exact = _check_matrix(config.matrix, data), mode_of(config) == "exact"
    given = (draw_exact_counts if exact else draw_independent)(data.clean, matrix, _generator(seed))
    rate = _expected_rate(data.clean, matrix)
    how = f"transition matrix, {_describe_mode(config, 'exact counts per class')}"
    return Drawn(given, how, rate, {"nominal_rate": rate})


def _instance(data: CleanData, config: NoiseConfig, seed: int) -> Drawn:
    if data.inputs is None:
        raise ConfigError("noise.kind: instance noise depends on the inputs, and none were handed over")
    scale = config.instance_scale
    given, flip, digest = draw_by_input(data.clean, data.num_classes, config.rate, scale, data.inputs, seed)
    how = f"by input as Xia 2020, {scale} values, flip rates of deviation {SPREAD}, {_INDEPENDENT}"
    return Drawn(given, how, float(flip.mean()) if len(flip) else 0.0, {"inputs_sha256": digest})


def _file(data: CleanData, config: NoiseConfig, _seed: int) -> Drawn:
    if config.path is None:
        raise ConfigError("noise.path: file noise needs one: an .npy, a .csv with id and label, or a run directory")
    file = read_labels(Path(config.path), data.class_names)
    given, digest = match_rows(file, data, config.seed)
    rate = float((given != data.clean).mean()) if len(given) else 0.0
    manifest, name = file.manifest, Path(config.path).name
    overrides: dict[str, Any] = {"mode": None, "seed": None, "nominal_rate": rate}
    if manifest is None:
        return Drawn(given, f"{name}, without a manifest", rate, overrides)
    overrides |= {"seed": manifest.seed, "nominal_rate": manifest.nominal_rate, "class_map": manifest.class_map}
    overrides["inputs_sha256"] = digest
    expected = manifest.nominal_rate if manifest.expected_rate is None else manifest.expected_rate
    return Drawn(given, f"{name}: {manifest.kind}, {manifest.convention}", expected, overrides)


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
            raise ConfigError(f"noise.{option}: not for {config.kind} noise; it belongs to {', '.join(kinds)}")


def _describe_mode(config: NoiseConfig, exact: str = "exact count per class") -> str:
    return exact if mode_of(config) == "exact" else _INDEPENDENT


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def _expected_rate(clean: np.ndarray, matrix: np.ndarray) -> float:
    """Return the fraction of labels that a transition matrix makes wrong on average."""
    per_class = np.bincount(clean, minlength=len(matrix))
    return float(per_class @ (1 - np.diag(matrix))) / max(1, len(clean))


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


def draw_symmetric(
    clean: np.ndarray, num_classes: int, rate: float, include_true_class: bool, rng: np.random.Generator
) -> np.ndarray:
    """Give exactly round(rate N) rows another class, or with `include_true_class` any class."""
    given = clean.copy()
    rows = rng.choice(len(clean), round(rate * len(clean)), replace=False)
    if include_true_class:
        given[rows] = rng.integers(0, num_classes, len(rows))
    else:
        # One of the K - 1 others: draw from 0..K-2, then add one from the true class on to skip it.
        other = rng.integers(0, num_classes - 1, len(rows))
        given[rows] = other + (other >= clean[rows])
    return given


def draw_by_class_map(
    clean: np.ndarray, class_map: Mapping[int, int], rate: float, rng: np.random.Generator
) -> np.ndarray:
    """Relabel exactly round(rate n) of the n rows of each class in the map."""
    given = clean.copy()
    for old in sorted(class_map):
        members = np.flatnonzero(clean == old)
        given[rng.choice(members, round(rate * len(members)), replace=False)] = class_map[old]
    return given


def draw_independent(clean: np.ndarray, matrix: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw the label of each row independently, from the transition matrix's row for its class."""
    cumulated = np.cumsum(matrix, axis=1)
    # The last value is then exactly 1, so that rounding never selects a class of probability 0.
    cumulated /= cumulated[:, -1:]
    given, uniform = clean.copy(), rng.random(len(clean))
    for old in range(len(matrix)):
        members = np.flatnonzero(clean == old)
        given[members] = np.searchsorted(cumulated[old], uniform[members], side="right")
    return given


def draw_exact_counts(clean: np.ndarray, matrix: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Give each class the counts of the transition matrix, to rows that are drawn."""
    given = clean.copy()
    for old, row in enumerate(matrix):
        members = rng.permutation(np.flatnonzero(clean == old))
        given[members] = np.repeat(np.arange(len(row)), _round_to_total(len(members), row))
    return given


def _round_to_total(total: int, row: np.ndarray) -> np.ndarray:
    """Return whole numbers close to `total` times the row, with the sum `total`.

    All are rounded down; those with the largest remainders are then raised by one.
    """
    exact = total * row / row.sum()
    counts: np.ndarray = np.floor(exact).astype(np.int64)
    remainder = np.where(row > 0, exact - counts, -1.0)
    counts[np.argsort(-remainder, kind="stable")[: total - counts.sum()]] += 1
    return counts


def symmetric_matrix(num_classes: int, rate: float, include_true_class: bool) -> np.ndarray:
    """Return the (K, K) transition matrix of symmetric noise."""
    others = rate / num_classes if include_true_class else rate / (num_classes - 1)
    matrix = np.full((num_classes, num_classes), others)
    np.fill_diagonal(matrix, 1 - rate + (others if include_true_class else 0.0))
    return matrix


def class_map_matrix(num_classes: int, class_map: Mapping[int, int], rate: float) -> np.ndarray:
    """Return the (K, K) transition matrix of noise that follows a class map."""
    matrix = np.eye(num_classes)
    for old, new in class_map.items():
        matrix[old, old] -= rate
        matrix[old, new] += rate
    return matrix


_MODES: dict[str, dict[str, Any]] = {"bernoulli": {"mode": "bernoulli"}}
_WORDS: dict[str, dict[str, dict[str, Any]]] = {
    "symmetric": {"include": {"include_true_class": True}, **_MODES},
    "asymmetric": {**{name: {"class_map": name} for name in BUILT_IN_MAPS}, **_MODES},
    "superclass": {**{name: {"groups": name} for name in BUILT_IN_GROUPS}, **_MODES},
    "block": _MODES,
    "pair": _MODES,
    "instance": {},
}
"""The words that may follow the rate of each kind on the command line, and the options they set."""


def parse_noise(text: str) -> dict[str, Any]:
    """Return the settings for `KIND:RATE[:WORD...]` or `file:PATH` from the command line."""
    kind, _, rest = text.partition(":")
    if kind == "file" and rest:
        return {"kind": kind, "path": rest}
    if kind not in _WORDS:
        raise ConfigError(f"--noise {text}: {_hint(kind)}")
    rate, *words = rest.split(":")
    settings = {"kind": kind, "rate": _parse_rate(rate, text)}
    for word in words:
        if word not in _WORDS[kind] or words.count(word) > 1 or settings.keys() & _WORDS[kind][word].keys():
            raise ConfigError(f"--noise {text}: expected {syntax(kind)}, each word once")
        settings |= _WORDS[kind][word]
    return settings


def syntax(kind: str) -> str:
    """Return how a kind of noise is written on the command line."""
    maps = [word for word, sets in _WORDS[kind].items() if sets.keys() & {"class_map", "groups"}]
    rest = [word for word in _WORDS[kind] if word not in maps]
    return f"{kind}:RATE" + "".join(f"[:{word}]" for word in ["|".join(maps)] * bool(maps) + rest)


def _hint(kind: str) -> str:
    if kind == "matrix":
        return 'matrix noise needs a matrix: --set noise.kind=matrix --set "noise.matrix=[[0.9, 0.1], [0.2, 0.8]]"'
    return f"expected {', '.join(map(syntax, _WORDS))} or file:PATH"


def _parse_rate(rate: str, text: str) -> float:
    try:
        return float(rate)
    except ValueError:
        raise ConfigError(f"--noise {text}: {rate!r} is not a rate; expected a number in 0..1") from None
