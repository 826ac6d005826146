"""The public functions: train, resume, load and audit runs."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from surelabel import noise, verdicts
from surelabel.config import RunConfig, validate
from surelabel.console import Silent
from surelabel.data.corpus import Corpus
from surelabel.data.protected_files import list_configured_files
from surelabel.data.sources import objects
from surelabel.encoding import stored
from surelabel.engine.loop import Interrupted, Progress
from surelabel.engine.signals import stop_on_signals
from surelabel.errors import ConfigError, RunError, SurelabelError, did_you_mean
from surelabel.files import refuse_overwriting
from surelabel.overrides import COMMON, recipe, set_field
from surelabel.runs.locate import config_from_here
from surelabel.runs.run_dir import RECORDED, RunDir
from surelabel.training import build, new_data, warm_start
from surelabel.training.predictor import TrainedModel
from surelabel.training.session import discard_state, train
from surelabel.training.startup import claimed
from surelabel.verdicts import CONFIDENCE, SUSPICIOUS_FROM, Audit
from surelabel.verdicts.audit import check_levels

CHANGEABLE = ("train.device", "train.devices", "train.threads", "optimiser.rate", "optimiser.clip", "method.rate")
"""Settings that `resume` may change."""


def _from_keywords(common: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by dotted name; None keeps a default."""
    common, names = dict(common), (*COMMON, "recipe")
    for name in common:
        if name not in names:
            raise ConfigError(
                f"fit has no keyword {name!r}; {did_you_mean(name, names)}available: {', '.join(names)}; "
                'pass any other setting as settings={"method.penalty_weight": 1}'
            )
    together = common.pop("recipe", None)
    found = {COMMON[name]: value for name, value in common.items() if value is not None}
    if isinstance(found.get("noise"), str):
        found["noise"] = noise.parse_noise(found["noise"])
    found = {name: str(value) if isinstance(value, Path) else value for name, value in found.items()}
    return found if together is None else {**recipe(together), **found}


def make_config(data: Any, settings: Mapping[str, Any] | None = None) -> RunConfig:
    """Make a configuration from data and settings such as {"train.epochs": 100, "method": "car"}.

    `data` is a name, a path, a whole configuration, or an object, which a word such as <arrays>
    describes. A RunConfig without settings is returned as it is: it was validated when it was made.
    """
    if isinstance(data, RunConfig):
        if not settings:
            return data
        content: dict[str, Any] = data.model_dump()  # not as JSON, in which NaN would become the default
    elif isinstance(data, Mapping) and "data" in data:
        content = json.loads(json.dumps(dict(data)))
    else:
        content = {"data": {"source": str(data) if isinstance(data, str | Path) else _describe(data)}}
    for name, value in (settings or {}).items():
        set_field(content, name, value)
    return validate(content)


def _describe(data: Any) -> str:
    found = objects.describe_object(data)
    if found is None:
        form = (
            f"a mapping of {', '.join(map(str, data)) or 'nothing'}"
            if isinstance(data, Mapping)
            else type(data).__name__
        )
        raise ConfigError(
            f"data: got {form}; expected a name, a path, {objects.list_kinds()}, or a configuration such as "
            "{'data': {'source': ...}}"
        )
    return found


def object_in(data: Any) -> Any:
    """Return `data` if it is an object, which a configuration only describes; otherwise None."""
    is_described = isinstance(data, str | Path | RunConfig) or (isinstance(data, Mapping) and "data" in data)
    return None if is_described else data


def read_corpus(config: RunConfig, data: Any, run_dir: RunDir | None = None) -> tuple[Corpus, noise.Manifest | None]:
    """Read the data; text becomes features as in this run, or in the one that it starts from."""
    earlier = config.train.warm_start
    known = run_dir or (RunDir.open(earlier) if earlier is not None else None)
    encoder = None if known is None else stored.read(known)
    return build.corpus(build.data_for(config), config.noise, config.train.seed, data, encoder)


def fit(
    data: Any,
    out: str | Path,
    *,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    interrupt: Callable[[], bool] | None = None,
    **common: Any,
) -> RunDir:
    """Train, and write a run directory to `out`, which must not exist yet.

    `data` is the name of a data set, a path, a whole configuration, or data in memory: texts,
    arrays or tensors as (x, y), (x, y, x_test, y_test) or {"x": ..., "y": ...}, a torch Dataset,
    a frame, an object of `datasets`, or {"train": ..., "test": ...} of any of these.

    Common settings are keywords: COMMON names them, and `surelabel fit --help` explains them;
    `recipe` sets several at once.
    `settings` override any field by dotted name, also keywords; `surelabel settings` lists them.

    >>> import numpy as np
    >>> import surelabel
    >>> y = np.arange(60) % 3
    >>> x = 4 * np.eye(3)[y] + np.random.default_rng(0).normal(size=(60, 3))
    >>> surelabel.fit((x, y), "runs/first", method="car", epochs=3, noise="symmetric:0.2")
    RunDir('runs/first'): car, <arrays>, 60 training rows, 3 epochs, finished
    """
    config = make_config(data, {**_from_keywords(common), **(settings or {})})
    return fit_config(config, object_in(data), out, progress, interrupt)


def fit_config(
    config: RunConfig,
    data: Any,
    out: str | Path,
    progress: Progress | None = None,
    interrupt: Callable[[], bool] | None = None,
) -> RunDir:
    """Train like `fit`; `data` is the object that the configuration describes, if it is one."""
    run_dir, progress = RunDir(out), progress or Silent()
    config, note = warm_start.train_as_long(config)
    with stop_on_signals() as stop, claimed(run_dir, config):
        if note is not None:
            progress.warn(note)
        with stop.at_once():
            found = read_corpus(config, data)
        return train(config, found, run_dir, progress, interrupt, stop)


def write_noise(
    data: str | Path | RunConfig | Mapping[str, Any], out: str | Path, *, settings: Mapping[str, Any] | None = None
) -> tuple[noise.Manifest, tuple[Path, Path]]:
    """Write the labels that `fit` would train on to `out`, and their manifest beside it.

    `out` ends in .npy or .csv; the manifest has the same name and ends in .json.
    """
    config, file = make_config(data, settings), noise.check_writable(out)
    refuse_overwriting([file, noise.manifest_path(file)], list_configured_files(config), "--out")
    if config.noise is None:
        raise ConfigError(
            "noise: not configured; set it to symmetric:0.4, for example, or set noise.kind and noise.rate"
        )
    corpus, manifest = read_corpus(config, object_in(data))
    assert manifest is not None
    parts = corpus.labelled_parts
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
    """Resume an interrupted run, or restart one that had not saved a state yet.

    `data` is the object that the run was trained on, if it was one. `settings` may change those in
    CHANGEABLE: where the run trains, and the size of its steps. `trust` allows a method that is not
    part of surelabel; its code is then imported.

    >>> import numpy as np
    >>> import surelabel
    >>> y = np.arange(60) % 3
    >>> x = 4 * np.eye(3)[y] + np.random.default_rng(0).normal(size=(60, 3))
    >>> fast = {"train.second_opinion": False}
    >>> try:
    ...     surelabel.fit((x, y), "runs/first", epochs=2, settings=fast, interrupt=lambda: True)
    ... except KeyboardInterrupt:
    ...     print("stopped")
    stopped
    >>> surelabel.resume("runs/first", data=(x, y))
    RunDir('runs/first'): car, <arrays>, 60 training rows, 2 epochs, finished
    """
    run_dir = run if isinstance(run, RunDir) else RunDir(run)
    if run_dir.is_prepared or not run_dir.has_begun:
        run_dir.check_schema()
    for name in settings or {}:
        if name not in CHANGEABLE:
            raise ConfigError(f"{name} cannot be changed on resume; only {', '.join(CHANGEABLE)} can")
    config = make_config(config_from_here(run_dir), settings)
    _check_trust(run_dir, trust)
    if not run_dir.is_done:
        with stop_on_signals() as stop, claimed(run_dir):
            if not run_dir.is_done:  # again: another process may have ended it before it was locked
                with stop.at_once():
                    found = read_corpus(config, data, run_dir if run_dir.is_prepared else None)
                return train(config, found, run_dir, progress or Silent(), interrupt, stop)
    discard_state(run_dir)
    return run_dir


def _check_trust(run_dir: RunDir, trust: bool) -> None:
    """Refuse foreign methods: a run directory must not decide which code is imported."""
    method = run_dir.config().method
    if method.is_foreign and not trust:
        raise RunError(
            f"{run_dir.path}: its method {method.name} is not part of surelabel; to import it, use trust=True (--trust)"
        )


def reopen_data(run: str | Path | RunDir, data: Any = None) -> Corpus:
    """Read the data of a run again, with the labels it was trained on.

    `data` is the object that the run was trained on, if it was one.
    """
    run_dir = run if isinstance(run, RunDir) else RunDir.open(run)
    config = config_from_here(run_dir)
    if data is None and RECORDED in run_dir.data() and objects.is_object(config.data.source):
        raise RunError(f"{run_dir.path}: recorded without its data; Recorder.save(run, data=...) names them")
    corpus, _ = read_corpus(config, data, run_dir)
    if corpus.fingerprint() != run_dir.data()["fingerprint"]:
        raise RunError(f"{run_dir.path}: {config.data.source} has changed since the run, so its rows no longer match")
    return corpus


def load(run: str | Path | RunDir, device: str = "cpu", trust: bool = False) -> TrainedModel:
    """Load the model of a finished run, with its class names and preprocessing.

    No code from the run is executed. `trust` allows a method that is not part of surelabel; its
    code is then imported.

    >>> import numpy as np
    >>> import surelabel
    >>> y = np.arange(60) % 3
    >>> x = 4 * np.eye(3)[y] + np.random.default_rng(0).normal(size=(60, 3))
    >>> fast = {"train.second_opinion": False}
    >>> run = surelabel.fit((x, y), "runs/first", model="mlp", epochs=10, settings=fast)
    >>> surelabel.load("runs/first").predict(4 * np.eye(3))
    array(['0', '1', '2'], dtype='<U1')
    """
    run_dir = run if isinstance(run, RunDir) else RunDir.open(run)
    _check_trust(run_dir, trust)
    return TrainedModel.read(run_dir, device)


def audit(
    run: str | Path | RunDir,
    *,
    data: Any = None,
    min_probability: float = SUSPICIOUS_FROM,
    confidence: float = CONFIDENCE,
    annotators: str = "last",
    device: str = "cpu",
    trust: bool = False,
) -> Audit:
    """Return the ranked table of a finished run; nothing is trained.

    A label looks wrong if P(wrong) is at least `min_probability`. Intervals are for `confidence`;
    docs/results/verdicts.md says how often they hold the truth. `annotators` is the rule by
    which one decision follows from those of several: last, majority or agree.

    With `data`, labelled rows of the same classes as in `fit`, the network of the run judges those
    instead, on `device`. The audit then says whether they are too different from the run's rows.
    `trust` allows a method that is not part of surelabel; its code is then imported.

    >>> import tempfile
    >>> import numpy as np
    >>> import surelabel
    >>> label = np.arange(60) % 2
    >>> x = np.random.default_rng(0).normal(size=(60, 3)) + 4 * label[:, None]
    >>> folder = tempfile.TemporaryDirectory()
    >>> run = surelabel.fit((x, label), f"{folder.name}/run", model="mlp", epochs=2, threads=1)
    >>> len(surelabel.audit(run))
    60
    >>> new = surelabel.audit(run, data=(x[:40] + 0.1, label[:40]))
    >>> set(new.columns["verdict"].tolist())
    {'prediction'}
    >>> folder.cleanup()
    """
    run_dir = run if isinstance(run, RunDir) else RunDir.open(run)
    if data is None:
        return verdicts.audit(run_dir, min_probability=min_probability, confidence=confidence, annotators=annotators)
    check_levels(min_probability, confidence)
    model = load(run_dir, device, trust)
    try:
        known = reopen_data(run_dir).train
    except SurelabelError:  # the audit says that outliers were not looked for
        known = None
    rows = new_data.read_new(model, data)
    return new_data.judge_new(run_dir, model, rows, known, min_probability, confidence)


__all__ = [
    "Audit",
    "Interrupted",
    "TrainedModel",
    "audit",
    "fit",
    "fit_config",
    "load",
    "make_config",
    "reopen_data",
    "resume",
    "write_noise",
]
