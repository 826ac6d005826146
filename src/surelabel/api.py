"""The public functions: train, load, judge."""

import contextlib
import json
import os
import platform
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import surelabel
from surelabel import build, features, noise, warm_start
from surelabel.config import DataConfig, RunConfig, set_field, validated
from surelabel.core.collective import world_size
from surelabel.data import objects
from surelabel.data.examples import Corpus
from surelabel.engine import distributed
from surelabel.engine.finish import finish
from surelabel.engine.fit import Engine, Interrupted, Progress, Setup
from surelabel.errors import ConfigError, RunError
from surelabel.models import Extractor
from surelabel.processes import is_further_process
from surelabel.progress import Silent
from surelabel.runs import SCHEMA_VERSION, RunDir
from surelabel.trained import TrainedModel
from surelabel.verdicts import Audit
from surelabel.verdicts import audit as audit

CHANGEABLE = ("train.device", "train.devices", "train.threads", "optimiser.rate", "optimiser.clip")
"""What may be another in the rest of a run."""


def configured(data: Any, settings: Mapping[str, Any] | None = None) -> RunConfig:
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
    return validated(content)


def _described(data: Any) -> str:
    found = objects.described(data)
    if found is None:
        form = (
            f"a mapping of {', '.join(map(str, data)) or 'nothing'}"
            if isinstance(data, Mapping)
            else type(data).__name__
        )
        raise ConfigError(
            f"data: got {form}; a configuration is a mapping with data, as {{'data': {{'source': ...}}}}, and data are a name, "
            f"a path, or {objects.kinds()}"
        )
    return found


def _object(data: Any) -> Any:
    """The data where it is an object, which a configuration can only describe; None where it says all."""
    says_all = isinstance(data, str | Path | RunConfig) or (isinstance(data, Mapping) and "data" in data)
    return None if says_all else data


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
    config = configured(data, settings)
    run_dir = RunDir(out)
    if not is_further_process() and not run_dir.is_free:
        hint = (
            f"go on with: surelabel resume {out}"
            if run_dir.has_begun and not run_dir.is_done
            else "choose another folder"
        )
        raise RunError(f"{out}: this folder is not empty; {hint}")
    return _train(config, run_dir, progress or Silent(), interrupt, _object(data))


def write_noise(
    data: str | Path | RunConfig | Mapping[str, Any], out: str | Path, *, settings: Mapping[str, Any] | None = None
) -> tuple[noise.Manifest, tuple[Path, Path]]:
    """Write the labels that `fit` would train on, and their manifest beside: to `out`, an .npy or a .csv, and its .json."""
    config, file = configured(data, settings), noise.writable(out)
    if config.noise is None:
        raise ConfigError("noise: none is configured; expected for example symmetric:0.4, or noise.kind and noise.rate")
    corpus, manifest = build.corpus(config.data, config.noise, config.train.seed, _object(data))
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
    config = configured(run_dir.config(), settings)
    _check_trust(run_dir, trust)
    if run_dir.is_done:
        return run_dir
    return _train(config, run_dir, progress or Silent(), interrupt, data)


def _check_trust(run_dir: RunDir, trust: bool) -> None:
    """A run directory may come from anywhere: it must not decide which code is imported."""
    name = run_dir.config().method.name
    if "." in name and not trust:
        raise RunError(f"{run_dir.path}: its method {name} is not part of surelabel; trust=True (--trust) imports it")


def _train(
    config: RunConfig, run_dir: RunDir, progress: Progress, interrupt: Callable[[], bool] | None, given: Any
) -> RunDir:
    raw, manifest = build.corpus(config.data, config.noise, config.train.seed, given)
    distributed.check_device(config.train)
    extractor = features.extractor(config, raw, run_dir, progress.warn)
    corpus = features.extracted(raw, extractor, config, progress.warn)
    scale, shape = build.normalisation(corpus), corpus.train.input_shape

    def make_method(seed: int) -> Any:
        rows = corpus.train
        job = build.task(config, rows.label, corpus.num_classes, shape, seed, scale, rows.trusted)
        return build.method(config, job)

    first = make_method(config.train.seed)
    warnings = [*config.notices(), *first.warnings(), *build.notes(first)]
    # A saved state has gone on from these weights already.
    warm = None if run_dir.state_file.exists() else warm_start.read(config, raw.class_names, raw.train.input_shape)
    warnings += [] if warm is None else warm.apply(first)
    fabric = distributed.start(config.train)
    loader = build.loader(config, corpus, fabric.device)
    torch.manual_seed(config.train.seed)
    with contextlib.ExitStack() as stack:
        _together(fabric.device, lambda: _claim(stack, run_dir, config, raw, manifest, extractor, fabric.device))
        stop = stack.enter_context(_stop_on_signals())
        for text in [manifest.describe(), *warnings] if manifest is not None else warnings:
            progress.warn(text)
        setup = Setup(config, corpus, make_method, loader, run_dir, fabric, progress, interrupt or stop)
        engine = Engine(setup)
        if warm is not None:
            with distributed.bare(engine.method):
                warm.apply(engine.method)
        engine.run(resume=run_dir.state_file.exists())
        finish(engine)
        distributed.wait_for_all()
    return run_dir


def _together(device: torch.device, work: Callable[[], None]) -> None:
    """Let the first process do `work`; if it fails, nobody goes on to wait for it."""
    problem: Exception | None = None
    if distributed.is_first():
        try:
            work()
        except Exception as error:
            problem = error
    if distributed.anybody(problem is not None, device):
        raise problem or RunError("the first process could not start")


def _claim(
    stack: contextlib.ExitStack,
    run_dir: RunDir,
    config: RunConfig,
    corpus: Corpus,
    manifest: Any,
    extractor: Extractor | None,
    device: torch.device,
) -> None:
    stack.enter_context(run_dir.locked())
    if extractor is not None and not run_dir.has_begun:
        features.keep(run_dir, extractor)
    _check_or_write(run_dir, config, corpus, manifest, device)


def _check_or_write(run_dir: RunDir, config: RunConfig, corpus: Corpus, manifest: Any, device: torch.device) -> None:
    """Write what describes the run, or make sure that the data are still what the run began with."""
    data = {
        "schema": SCHEMA_VERSION,
        "class_names": list(corpus.class_names),
        "input_shape": list(corpus.train.input_shape),
        "stored_shape": list(corpus.train.x.shape[1:]),
        "num_train": len(corpus.train),
        "num_validation": 0 if corpus.validation is None else len(corpus.validation),
        "tests": {name: len(rows) for name, rows in corpus.tests.items()},
        "fingerprint": corpus.fingerprint(),
    }
    if run_dir.has_begun:
        _check_noise(run_dir, manifest)
        if run_dir.data() != data:
            raise RunError(f"{run_dir.path}: the data have changed since this run began; start a new run")
        if run_dir.config() != config:
            run_dir.write_json("config.json", config.model_dump(mode="json"))
        return
    run_dir.write_json("config.json", config.model_dump(mode="json"))
    run_dir.write_json("env.json", _environment(device))
    if manifest is not None:
        run_dir.write_json("noise.json", manifest.to_dict())
    else:
        (run_dir.path / "noise.json").unlink(missing_ok=True)  # of a start with noise that was cut short
    run_dir.write_table("labels.parquet", _label_columns(corpus))
    run_dir.write_json("data.json", data)


def _check_noise(run_dir: RunDir, manifest: noise.Manifest | None) -> None:
    """Make sure that the noise of a run that goes on is what it began with: it is drawn anew, and must come out the same."""
    file = run_dir.path / "noise.json"
    if (manifest is not None) != file.exists():
        fault = "there is none" if manifest is not None else "there is one, and no noise is configured"
        raise RunError(f"{file}: {fault}; start a new run")
    faults = "" if manifest is None else noise.differences(manifest, noise.read_manifest(file))
    if faults:
        raise RunError(f"{file}: the noise is not what this run began with: {faults}; start a new run")


def _label_columns(corpus: Corpus) -> dict[str, Any]:
    parts = {"train": corpus.train} | ({"validation": corpus.validation} if corpus.validation is not None else {})
    clean = [rows.clean.tolist() if rows.clean is not None else [None] * len(rows) for rows in parts.values()]
    import pyarrow as pa

    return {
        "id": np.concatenate([rows.ids.astype(str) for rows in parts.values()]),
        "given": np.concatenate([rows.label.numpy() for rows in parts.values()]),
        "clean": pa.array([value for values in clean for value in values], type=pa.int64()),
        "split": np.concatenate([np.full(len(rows), name) for name, rows in parts.items()]),
    }


def _environment(device: torch.device) -> dict[str, Any]:
    return {
        "surelabel": surelabel.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cpu_count": os.cpu_count(),
        "device": str(device),
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else "",
        "processes": world_size(),
        "threads": torch.get_num_threads(),
        "folder": str(Path.cwd()),
    }


@contextlib.contextmanager
def _stop_on_signals() -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C and SIGTERM into a flag that is looked at after each step; a second Ctrl-C is the usual one."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def ask(number: int, _frame: Any) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    except Interrupted as error:
        error.args = tuple(asked[:1])  # the signal, for those who end the process in its name
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def reopened(run: str | Path | RunDir, data: Any = None) -> Corpus:
    """The data of a run, read again, with the labels it was trained on; `data` is the object that it was given, if it was one."""
    run_dir = run if isinstance(run, RunDir) else RunDir.open(run)
    config = run_dir.config()
    corpus, _ = build.corpus(_found_again(config.data, run_dir), config.noise, config.train.seed, data)
    if corpus.fingerprint() != run_dir.data()["fingerprint"]:
        raise RunError(
            f"{run_dir.path}: {config.data.source} has changed since the run; its rows would be shown wrongly"
        )
    return corpus


def _found_again(data: DataConfig, run: RunDir) -> DataConfig:
    """The same with paths that are relative to where the run began, where nothing is at them from here."""
    began = Path(run.environment().get("folder", "."))
    paths = {name: getattr(data, name) for name in ("source", "root", "test", "labels", "trusted")}
    moved = {
        name: str(began / path)
        for name, path in paths.items()
        if path is not None and not Path(path).exists() and (began / path).exists()
    }
    return data.model_copy(update=moved)


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
    "configured",
    "fit",
    "load",
    "reopened",
    "resume",
    "write_noise",
]
