"""The public functions: train, load, judge."""

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from surelabel import noise
from surelabel.config import RunConfig, validate
from surelabel.console import Silent, is_further_process
from surelabel.data.corpus import Corpus
from surelabel.data.input_files import configured_files
from surelabel.data.sources import objects
from surelabel.engine.loop import Interrupted, Progress
from surelabel.errors import ConfigError, RunError
from surelabel.files import refuse_overwriting
from surelabel.overrides import set_field
from surelabel.runs.locate import config_from_here
from surelabel.runs.run_dir import RunDir
from surelabel.training import build
from surelabel.training.predictor import TrainedModel
from surelabel.training.session import train
from surelabel.verdicts import Audit
from surelabel.verdicts import audit as audit

CHANGEABLE = ("train.device", "train.devices", "train.threads", "optimiser.rate", "optimiser.clip")
"""What may be another in the rest of a run."""


def make_config(data: Any, settings: Mapping[str, Any] | None = None) -> RunConfig:
    """A configuration from data and dotted settings, such as {"train.epochs": 100, "method": "car"}.

    `data` is a name, a path, a whole configuration, or an object, for which a word such as <arrays> stands.
    """
    if isinstance(data, RunConfig):
        content: dict[str, Any] = data.model_dump()  # not as JSON, in which NaN would become the default
    elif isinstance(data, Mapping) and "data" in data:
        content = json.loads(json.dumps(dict(data)))
    else:
        content = {"data": {"source": str(data) if isinstance(data, str | Path) else _described(data)}}
    for name, value in (settings or {}).items():
        set_field(content, name, value)
    return validate(content)


def _described(data: Any) -> str:
    found = objects.describe_object(data)
    if found is None:
        form = (
            f"a mapping of {', '.join(map(str, data)) or 'nothing'}"
            if isinstance(data, Mapping)
            else type(data).__name__
        )
        raise ConfigError(
            f"data: got {form}; a configuration is a mapping with data, as {{'data': {{'source': ...}}}}, and data are a name, "
            f"a path, or {objects.list_kinds()}"
        )
    return found


def _object(data: Any) -> Any:
    """The data where it is an object, which a configuration can only describe; None where it says all."""
    says_all = isinstance(data, str | Path | RunConfig) or (isinstance(data, Mapping) and "data" in data)
    return None if says_all else data


def _corpus(config: RunConfig, data: Any) -> tuple[Corpus, noise.Manifest | None]:
    return build.corpus(config.data, config.noise, config.train.seed, data)


def fit(
    data: Any,
    out: str | Path,
    *,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    interrupt: Callable[[], bool] | None = None,
) -> RunDir:
    """Train and leave a run directory at `out`, which must not exist yet.

    `data` is the name of a data set, a path, a whole configuration, or data in memory: arrays or tensors as (x, y),
    (x, y, x_test, y_test) or {"x": ..., "y": ...}, a torch Dataset, a frame, an object of `datasets`, or {"train": ..., "test": ...}
    of any of these. `settings` are dotted fields over the configuration.
    """
    config = make_config(data, settings)
    run_dir = RunDir(out)
    if not is_further_process() and not run_dir.is_free:
        hint = (
            f"go on with: surelabel resume {shlex.quote(str(out))}"
            if run_dir.has_begun and not run_dir.is_done
            else "choose another folder"
        )
        raise RunError(f"{out}: this folder is not empty; {hint}")
    return train(config, _corpus(config, _object(data)), run_dir, progress or Silent(), interrupt)


def write_noise(
    data: str | Path | RunConfig | Mapping[str, Any], out: str | Path, *, settings: Mapping[str, Any] | None = None
) -> tuple[noise.Manifest, tuple[Path, Path]]:
    """Write the labels that `fit` would train on, and their manifest beside: to `out`, an .npy or a .csv, and its .json."""
    config, file = make_config(data, settings), noise.writable(out)
    for written in (file, noise.beside(file)):
        refuse_overwriting(written, configured_files(config), "--out")
    if config.noise is None:
        raise ConfigError("noise: none is configured; expected for example symmetric:0.4, or noise.kind and noise.rate")
    corpus, manifest = _corpus(config, _object(data))
    assert manifest is not None
    parts = [rows for rows in (corpus.train, corpus.validation) if rows is not None]
    labels, ids = (np.concatenate(arrays) for arrays in zip(*((p.label.numpy(), p.ids) for p in parts), strict=True))
    return manifest, noise.save(file, labels, manifest, ids)


def resume(
    run: str | Path | RunDir,
    *,
    progress: Progress | None = None,
    interrupt: Callable[[], bool] | None = None,
    settings: Mapping[str, Any] | None = None,
    trust: bool = False,
    data: Any = None,
) -> RunDir:
    """Go on with an interrupted run, or begin one anew that had not saved a state yet.

    `data` is the object that the run was given, if it was one.
    `settings` may change what CHANGEABLE names: where it runs, and the size of its steps. `trust` allows a method that is not
    part of surelabel, whose code is then imported.
    """
    run_dir = RunDir.open(run.path if isinstance(run, RunDir) else run)
    for name in settings or {}:
        if name not in CHANGEABLE:
            raise ConfigError(f"{name} cannot change within a run; only {', '.join(CHANGEABLE)} can")
    config = make_config(config_from_here(run_dir), settings)
    _check_trust(run_dir, trust)
    if run_dir.is_done:
        return run_dir
    return train(config, _corpus(config, data), run_dir, progress or Silent(), interrupt)


def _check_trust(run_dir: RunDir, trust: bool) -> None:
    """A run directory may come from anywhere: it must not decide which code is imported."""
    name = run_dir.config().method.name
    if "." in name and not trust:
        raise RunError(f"{run_dir.path}: its method {name} is not part of surelabel; trust=True (--trust) imports it")


def reopen_data(run: str | Path | RunDir, data: Any = None) -> Corpus:
    """The data of a run, read again, with the labels it was trained on; `data` is the object that it was given, if it was one."""
    run_dir = run if isinstance(run, RunDir) else RunDir.open(run)
    config = config_from_here(run_dir)
    corpus, _ = _corpus(config, data)
    if corpus.fingerprint() != run_dir.data()["fingerprint"]:
        raise RunError(
            f"{run_dir.path}: {config.data.source} has changed since the run; its rows would be shown wrongly"
        )
    return corpus


def load(run: str | Path | RunDir, device: str = "cpu", trust: bool = False) -> TrainedModel:
    """The model of a finished run, with its class names and preprocessing.

    Nothing in the run is executed. `trust` allows a method that is not part of surelabel, whose code is then imported.
    """
    run_dir = run if isinstance(run, RunDir) else RunDir.open(run)
    _check_trust(run_dir, trust)
    return TrainedModel.read(run_dir, device)


__all__ = [
    "Audit",
    "Interrupted",
    "TrainedModel",
    "audit",
    "fit",
    "load",
    "make_config",
    "reopen_data",
    "resume",
    "write_noise",
]
