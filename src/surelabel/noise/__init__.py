"""Inject label noise into clean labels, with a manifest that records what was done."""

from collections.abc import Sequence

import numpy as np

from surelabel.config import NoiseConfig
from surelabel.errors import ConfigError
from surelabel.noise.clean_data import Inputs, make_clean_data
from surelabel.noise.files import check_writable, manifest_path, save
from surelabel.noise.kinds import KINDS, check_options, mode_of
from surelabel.noise.manifest import (
    Manifest,
    describe_differences,
    ids_sha256,
    read_manifest,
    restate,
    summarise,
    verify,
)
from surelabel.noise.syntax import parse_noise

__all__ = [
    "Inputs",
    "Manifest",
    "check_writable",
    "describe_differences",
    "ids_sha256",
    "inject",
    "manifest_path",
    "parse_noise",
    "read_manifest",
    "restate",
    "save",
    "verify",
]


def inject(
    clean: np.ndarray,
    class_names: Sequence[str],
    config: NoiseConfig,
    seed: int,
    *,
    ids: Sequence[str] | np.ndarray | None = None,
    inputs: Inputs | None = None,
) -> tuple[np.ndarray, Manifest]:
    """Return the noisy labels, (N,) int64, and their manifest.

    `seed` is the seed of the run; `config.seed` takes precedence over it. `ids` (N,) name the rows:
    the manifest records them, and labels from a file are matched by them. `inputs` reads the inputs
    at ascending row numbers; only noise that depends on the inputs needs it.
    """
    data = make_clean_data(clean, class_names, ids, inputs)
    check_options(config)
    seed = seed if config.seed is None else config.seed
    if seed < 0:
        raise ConfigError(f"noise.seed: expected 0 or more, got {seed}")
    drawn = KINDS[config.kind](data, config, seed)
    record = {
        "kind": config.kind,
        "convention": drawn.convention,
        "mode": mode_of(config),
        "seed": seed,
        "nominal_rate": config.rate,
        "expected_rate": drawn.expected_rate,
        "class_names": data.class_names,
        "ids_sha256": None if data.ids is None else ids_sha256(data.ids),
        **summarise(data.clean, drawn.given, data.num_classes),
        **drawn.overrides,
    }
    return drawn.given, Manifest.model_validate(record)
