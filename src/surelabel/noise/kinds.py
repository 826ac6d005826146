"""The kinds of noise: for each, how it draws and how that is told."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.config import NoiseConfig
from surelabel.errors import ConfigError
from surelabel.noise.class_maps import READY_GROUPS, READY_MAPS, Arrows, by_block, by_groups, by_map, by_pair
from surelabel.noise.clean_data import CleanData
from surelabel.noise.files import matched, read_labels
from surelabel.noise.instance import SPREAD, instance

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


Kind = Callable[[CleanData, NoiseConfig, int], Drawn]


def mode_of(config: NoiseConfig) -> str:
    """The configured mode or the kind's usual one."""
    return config.mode or ("bernoulli" if config.kind in ("matrix", "instance") else "exact")


def _symmetric(data: CleanData, config: NoiseConfig, seed: int) -> Drawn:
    included, rng = config.include_true_class, _generator(seed)
    matrix = symmetric_matrix(data.num_classes, config.rate, included)
    if mode_of(config) == "exact":
        given = draw_symmetric(data.clean, data.num_classes, config.rate, included, rng)
    else:
        given = draw_independent(data.clean, matrix, rng)
    how = f"true class {'included' if included else 'excluded'}, {_counted(config, 'exact count')}"
    return Drawn(given, how, _wrong_share(data.clean, matrix))


def _asymmetric(data: CleanData, config: NoiseConfig, seed: int) -> Drawn:
    arrows, whose = by_map(config.class_map, data.class_names)
    how = f"by {whose}, {_counted(config, 'exact count per source class')}"
    return _along(arrows, data, config, seed, how)


def _superclass(data: CleanData, config: NoiseConfig, seed: int) -> Drawn:
    arrows, whose = by_groups(config.groups, data.class_names)
    return _along(arrows, data, config, seed, f"circular within {whose}, {_counted(config)}")


def _block(data: CleanData, config: NoiseConfig, seed: int) -> Drawn:
    how = f"circular within blocks of {config.block_size} class numbers, {_counted(config)}"
    return _along(by_block(data.num_classes, config.block_size), data, config, seed, how)


def _pair(data: CleanData, config: NoiseConfig, seed: int) -> Drawn:
    return _along(by_pair(data.num_classes), data, config, seed, f"each class to the next, {_counted(config)}")


def _along(arrows: Arrows, data: CleanData, config: NoiseConfig, seed: int, how: str) -> Drawn:
    """Labels that follow arrows between classes."""
    matrix, rng = arrow_matrix(data.num_classes, arrows, config.rate), _generator(seed)
    if mode_of(config) == "exact":
        given = draw_along(data.clean, arrows, config.rate, rng)
    else:
        given = draw_independent(data.clean, matrix, rng)
    names = {data.class_names[old]: data.class_names[new] for old, new in sorted(arrows.items())}
    return Drawn(given, how, _wrong_share(data.clean, matrix), {"class_map": names})


def _matrix(data: CleanData, config: NoiseConfig, seed: int) -> Drawn:
    matrix, exact = _checked_matrix(config.matrix, data), mode_of(config) == "exact"
    given = (draw_apportioned if exact else draw_independent)(data.clean, matrix, _generator(seed))
    wrong = _wrong_share(data.clean, matrix)
    return Drawn(
        given, f"transition matrix, {_counted(config, 'exact counts per class')}", wrong, {"nominal_rate": wrong}
    )


def _instance(data: CleanData, config: NoiseConfig, seed: int) -> Drawn:
    if data.inputs is None:
        raise ConfigError("noise.kind: instance noise depends on the inputs, and none were handed over")
    scale = config.instance_scale
    given, flip, digest = instance(data.clean, data.num_classes, config.rate, scale, data.inputs, seed)
    how = f"by input as Xia 2020, {scale} values, flip rates of deviation {SPREAD}, {_BY_ITSELF}"
    return Drawn(given, how, float(flip.mean()) if len(flip) else 0.0, {"inputs_sha256": digest})


def _file(data: CleanData, config: NoiseConfig, _seed: int) -> Drawn:
    if config.path is None:
        raise ConfigError("noise.path: file noise needs one: an .npy, a .csv with id and label, or a run directory")
    file = read_labels(Path(config.path), data.class_names)
    given, digest = matched(file, data, config.seed)
    wrong = float((given != data.clean).mean()) if len(given) else 0.0
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


def _checked_matrix(matrix: tuple[tuple[float, ...], ...] | None, data: CleanData) -> np.ndarray:
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
    """Exactly round(rate N) rows get another class, or with `include_true_class` any class."""
    given = clean.copy()
    rows = rng.choice(len(clean), round(rate * len(clean)), replace=False)
    if include_true_class:
        given[rows] = rng.integers(0, num_classes, len(rows))
    else:
        # One of the K - 1 others: the numbers from the true one on move up by one.
        other = rng.integers(0, num_classes - 1, len(rows))
        given[rows] = other + (other >= clean[rows])
    return given


def draw_along(clean: np.ndarray, arrows: Mapping[int, int], rate: float, rng: np.random.Generator) -> np.ndarray:
    """Of each class that has an arrow, exactly round(rate n) rows follow it."""
    given = clean.copy()
    for old in sorted(arrows):
        members = np.flatnonzero(clean == old)
        given[rng.choice(members, round(rate * len(members)), replace=False)] = arrows[old]
    return given


def draw_independent(clean: np.ndarray, matrix: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each row by itself, from its class's row of the transition matrix."""
    cumulated = np.cumsum(matrix, axis=1)
    # The last value is exactly 1 then, so that rounding never gives a class of probability 0.
    cumulated /= cumulated[:, -1:]
    given, uniform = clean.copy(), rng.random(len(clean))
    for old in range(len(matrix)):
        members = np.flatnonzero(clean == old)
        given[members] = np.searchsorted(cumulated[old], uniform[members], side="right")
    return given


def draw_apportioned(clean: np.ndarray, matrix: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Of each class, the counts that the transition matrix says; which rows they fall on is drawn."""
    given = clean.copy()
    for old, row in enumerate(matrix):
        members = rng.permutation(np.flatnonzero(clean == old))
        given[members] = np.repeat(np.arange(len(row)), _shares(len(members), row))
    return given


def _shares(total: int, row: np.ndarray) -> np.ndarray:
    """Whole numbers near `total` times the row that sum to it: rounded down, then up where most was lost."""
    exact = total * row / row.sum()
    counts = np.floor(exact).astype(np.int64)
    lost = np.where(row > 0, exact - counts, -1.0)
    counts[np.argsort(-lost, kind="stable")[: total - counts.sum()]] += 1
    return counts


def symmetric_matrix(num_classes: int, rate: float, include_true_class: bool) -> np.ndarray:
    """(K, K): what symmetric noise does to a class."""
    others = rate / num_classes if include_true_class else rate / (num_classes - 1)
    matrix = np.full((num_classes, num_classes), others)
    np.fill_diagonal(matrix, 1 - rate + (others if include_true_class else 0.0))
    return matrix


def arrow_matrix(num_classes: int, arrows: Mapping[int, int], rate: float) -> np.ndarray:
    """(K, K): what arrows between classes do."""
    matrix = np.eye(num_classes)
    for old, new in arrows.items():
        matrix[old, old] -= rate
        matrix[old, new] += rate
    return matrix


_MODES: dict[str, dict[str, Any]] = {"bernoulli": {"mode": "bernoulli"}}
_WORDS: dict[str, dict[str, dict[str, Any]]] = {
    "symmetric": {"include": {"include_true_class": True}, **_MODES},
    "asymmetric": {**{name: {"class_map": name} for name in READY_MAPS}, **_MODES},
    "superclass": {**{name: {"groups": name} for name in READY_GROUPS}, **_MODES},
    "block": _MODES,
    "pair": _MODES,
    "instance": {},
}
"""What may follow the rate, and what it sets."""


def parse_noise(text: str) -> dict[str, Any]:
    """Settings of `symmetric:0.4:include`, `file:PATH` and the like, or one line that says what is possible."""
    kind, _, rest = text.partition(":")
    if kind == "file" and rest:
        return {"kind": kind, "path": rest}
    if kind not in _WORDS:
        raise ConfigError(f"--noise {text}: {_hint(kind)}")
    rate, *words = rest.split(":")
    settings = {"kind": kind, "rate": _rate(rate, text)}
    for word in words:
        if word not in _WORDS[kind] or words.count(word) > 1 or settings.keys() & _WORDS[kind][word].keys():
            raise ConfigError(f"--noise {text}: expected {form(kind)}, each word once")
        settings |= _WORDS[kind][word]
    return settings


def form(kind: str) -> str:
    """How a kind is written."""
    ready = [word for word, sets in _WORDS[kind].items() if sets.keys() & {"class_map", "groups"}]
    rest = [word for word in _WORDS[kind] if word not in ready]
    return f"{kind}:RATE" + "".join(f"[:{word}]" for word in ["|".join(ready)] * bool(ready) + rest)


def forms() -> str:
    """All that can be written."""
    return f"{', '.join(map(form, _WORDS))} or file:PATH"


def _hint(kind: str) -> str:
    if kind == "matrix":
        return 'matrix noise needs a matrix: --set noise.kind=matrix --set "noise.matrix=[[0.9, 0.1], [0.2, 0.8]]"'
    return f"expected {forms()}"


def _rate(rate: str, text: str) -> float:
    try:
        return float(rate)
    except ValueError:
        raise ConfigError(f"--noise {text}: {rate!r} is not a rate; expected a number in 0..1") from None
