"""Wrong labels on purpose: drawn once, from the clean labels, as a vector with a record of what was done."""

import hashlib
from collections.abc import Sequence

import numpy as np

from surelabel.config import NoiseConfig, Part
from surelabel.errors import ConfigError, DataError

_ROW_SUM_TOLERANCE = 1e-6
"""By how much a row of a transition matrix may miss 1, for numbers typed with few digits' rounding."""


class Manifest(Part):
    """What was injected, by which convention, and what came of it."""

    kind: str
    """As in the configuration."""
    convention: str
    """How rows and new labels were chosen."""
    seed: int
    """Of the draw."""
    nominal_rate: float
    """As asked for; for a matrix, the wrong share that it implies on these labels."""
    realised_rate: float
    """Share of labels that are wrong now."""
    realised_matrix: tuple[tuple[float, ...], ...]
    """(K, K): row = clean class, column = given class, fractions; zeros for a class without samples."""
    num_changed: int
    """Labels that are wrong now."""
    num_samples: int
    """N."""
    class_names: tuple[str, ...]
    """In the order of the class numbers."""
    labels_sha256: str
    """Of the resulting labels as little-endian int64."""
    clean_sha256: str
    """Of the clean labels, likewise."""

    def to_dict(self) -> dict[str, object]:
        """For JSON; `Manifest.model_validate` reads it back."""
        return self.model_dump(mode="json")

    def describe(self) -> str:
        """One line for the screen."""
        return (
            f"{self.kind} noise, {self.nominal_rate:.1%} nominal ({self.convention}): "
            f"{self.num_changed} of {self.num_samples} labels are wrong ({self.realised_rate:.1%}), seed {self.seed}"
        ).replace("%", " %")


def inject(
    clean: np.ndarray, class_names: Sequence[str], config: NoiseConfig, seed: int
) -> tuple[np.ndarray, Manifest]:
    """Labels (N,) int64 with noise, and the record; `seed` is the run's, used where `config` has none."""
    clean = np.asarray(clean, dtype=np.int64)
    _check(clean, class_names, config)
    seed = seed if config.seed is None else config.seed
    if seed < 0:
        raise ConfigError(f"noise.seed: expected 0 or more, got {seed}")
    rng = np.random.Generator(np.random.PCG64(seed))
    draw, convention = _KINDS[config.kind]
    given = draw(clean, class_names, config, rng)
    truth = "included" if config.include_true_class else "excluded"
    return given, _manifest(clean, given, class_names, config, seed, convention.format(truth=truth))


def verify(labels: np.ndarray, manifest: Manifest) -> None:
    """Nothing, or an error when these are not the labels that the manifest describes."""
    found = _sha256(labels)
    if len(labels) != manifest.num_samples or found != manifest.labels_sha256:
        raise DataError(
            f"labels do not match their noise manifest: {len(labels)} labels with SHA-256 {found[:12]}, expected "
            f"{manifest.num_samples} with {manifest.labels_sha256[:12]}"
        )


def _symmetric(
    clean: np.ndarray, class_names: Sequence[str], config: NoiseConfig, rng: np.random.Generator
) -> np.ndarray:
    given, num_classes = clean.copy(), len(class_names)
    rows = rng.choice(len(clean), round(config.rate * len(clean)), replace=False)
    if config.include_true_class:
        given[rows] = rng.integers(0, num_classes, len(rows))
    else:
        # One of the K - 1 others: the numbers from the true one on move up by one.
        other = rng.integers(0, num_classes - 1, len(rows))
        given[rows] = other + (other >= clean[rows])
    return given


def _asymmetric(
    clean: np.ndarray, class_names: Sequence[str], config: NoiseConfig, rng: np.random.Generator
) -> np.ndarray:
    number = {name: position for position, name in enumerate(class_names)}
    assert config.class_map is not None
    return _flipped(clean, {number[old]: number[new] for old, new in config.class_map.items()}, config.rate, rng)


def _pair(clean: np.ndarray, class_names: Sequence[str], config: NoiseConfig, rng: np.random.Generator) -> np.ndarray:
    num_classes = len(class_names)
    return _flipped(clean, {old: (old + 1) % num_classes for old in range(num_classes)}, config.rate, rng)


def _flipped(clean: np.ndarray, new_class: dict[int, int], rate: float, rng: np.random.Generator) -> np.ndarray:
    """Members are looked up in the clean labels: in the changed ones, cats that became dogs would turn back."""
    given = clean.copy()
    for old in sorted(new_class):
        members = np.flatnonzero(clean == old)
        given[rng.choice(members, round(rate * len(members)), replace=False)] = new_class[old]
    return given


def _by_matrix(
    clean: np.ndarray, class_names: Sequence[str], config: NoiseConfig, rng: np.random.Generator
) -> np.ndarray:
    cumulated = np.cumsum(np.array(config.matrix), axis=1)
    # The last value is exactly 1 then, so that rounding never gives a class of probability 0.
    cumulated /= cumulated[:, -1:]
    given, uniform = clean.copy(), rng.random(len(clean))
    for old in range(len(class_names)):
        members = np.flatnonzero(clean == old)
        given[members] = np.searchsorted(cumulated[old], uniform[members], side="right")
    return given


_KINDS = {
    "symmetric": (_symmetric, "true class {truth}, exact count"),
    "asymmetric": (_asymmetric, "by class map, exact count per source class"),
    "pair": (_pair, "each class to the next, exact count per class"),
    "matrix": (_by_matrix, "transition matrix, each label drawn by itself"),
}

_OPTIONS = {
    "rate": ("symmetric", "asymmetric", "pair"),
    "include_true_class": ("symmetric",),
    "class_map": ("asymmetric",),
    "matrix": ("matrix",),
}
"""Which kinds an option belongs to."""


def _check(clean: np.ndarray, class_names: Sequence[str], config: NoiseConfig) -> None:
    if len(class_names) < 2:
        raise DataError(f"noise needs at least 2 classes, there is {', '.join(class_names) or 'none'}")
    if len(clean) and not (clean.min() >= 0 and clean.max() < len(class_names)):
        raise DataError(f"labels must lie in 0..{len(class_names) - 1}, got {clean.min()}..{clean.max()}")
    for option, kinds in _OPTIONS.items():
        if getattr(config, option) and config.kind not in kinds:
            raise ConfigError(f"noise.{option}: not for {config.kind} noise; it belongs to {', '.join(kinds)}")
    if config.kind == "asymmetric":
        _check_class_map(config.class_map, class_names)
    if config.kind == "matrix":
        _check_matrix(config.matrix, class_names)


def _check_class_map(class_map: dict[str, str] | None, class_names: Sequence[str]) -> None:
    if not class_map:
        raise ConfigError("noise.class_map: asymmetric noise needs one, for example {cat: dog, dog: cat}")
    for name in (*class_map.keys(), *class_map.values()):
        if name not in class_names:
            raise ConfigError(f"noise.class_map: there is no class {name!r}; there are {', '.join(class_names)}")


def _check_matrix(matrix: tuple[tuple[float, ...], ...] | None, class_names: Sequence[str]) -> None:
    num_classes = len(class_names)
    if not matrix:
        raise ConfigError(f"noise.matrix: matrix noise needs one, {num_classes} x {num_classes}")
    if len(matrix) != num_classes:
        raise ConfigError(f"noise.matrix: {len(matrix)} rows for {num_classes} classes; expected one for each")
    for name, row in zip(class_names, matrix, strict=True):
        if len(row) != num_classes:
            raise ConfigError(f"noise.matrix: the row of {name!r} has {len(row)} entries for {num_classes} classes")
        if not all(entry >= 0 for entry in row) or not abs(sum(row) - 1) <= _ROW_SUM_TOLERANCE:
            raise ConfigError(
                f"noise.matrix: the row of {name!r} must have entries >= 0 that sum to 1; "
                f"the smallest is {min(row):g}, the sum {sum(row):g}"
            )


def _manifest(
    clean: np.ndarray, given: np.ndarray, class_names: Sequence[str], config: NoiseConfig, seed: int, convention: str
) -> Manifest:
    num_classes, num_samples = len(class_names), len(clean)
    counts = np.bincount(clean * num_classes + given, minlength=num_classes**2).reshape(num_classes, num_classes)
    per_class = counts.sum(1)
    num_changed = int((given != clean).sum())
    nominal = config.rate
    if config.matrix:
        nominal = float(per_class @ (1 - np.diag(np.array(config.matrix)))) / max(1, num_samples)
    return Manifest(
        kind=config.kind,
        convention=convention,
        seed=seed,
        nominal_rate=nominal,
        realised_rate=num_changed / max(1, num_samples),
        realised_matrix=(counts / np.maximum(per_class, 1)[:, None]).tolist(),
        num_changed=num_changed,
        num_samples=num_samples,
        class_names=tuple(class_names),
        labels_sha256=_sha256(given),
        clean_sha256=_sha256(clean),
    )


def _sha256(labels: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(labels, dtype="<i8").tobytes()).hexdigest()
