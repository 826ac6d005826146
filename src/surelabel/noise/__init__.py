"""Wrong labels on purpose: drawn once, from the clean labels, as a vector with a record of what was done."""

from collections.abc import Sequence

import numpy as np

from surelabel.config import NoiseConfig
from surelabel.errors import ConfigError
from surelabel.noise.clean_data import make_clean_data
from surelabel.noise.files import check_writable, manifest_path, save
from surelabel.noise.instance import Inputs
from surelabel.noise.kinds import KINDS, check_options, mode_of, parse_noise
from surelabel.noise.manifest import Manifest, describe_differences, ids_sha256, outcome, read_manifest, restate, verify

__all__ = [
    "Inputs",
    "Manifest",
    "check_writable",
    "describe_differences",
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
    """Labels (N,) int64 with noise, and the record; `seed` is the run's, used where `config` has none.

    `ids` (N,) name the rows, for the record and for labels from a file; `inputs` hands over the inputs at rising row numbers, for noise
    that depends on them.
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
        **outcome(data.clean, drawn.given, data.num_classes),
        **drawn.facts,
    }
    return drawn.given, Manifest.model_validate(record)
