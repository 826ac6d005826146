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
from torch import Tensor

import surelabel
from surelabel import build
from surelabel.config import RunConfig, set_field, validated
from surelabel.core.collective import world_size
from surelabel.data.examples import Corpus
from surelabel.engine import distributed
from surelabel.engine.finish import finish
from surelabel.engine.fit import Engine, Interrupted, Progress, Setup
from surelabel.errors import ConfigError, RunError
from surelabel.processes import is_further_process
from surelabel.progress import Silent
from surelabel.runs import SCHEMA_VERSION, RunDir
from surelabel.verdicts import Audit
from surelabel.verdicts import audit as audit

CHANGEABLE = ("train.device", "train.devices", "train.threads", "optimiser.rate", "optimiser.clip")
"""What may be another in the rest of a run."""


def configured(
    data: str | Path | RunConfig | Mapping[str, Any], settings: Mapping[str, Any] | None = None
) -> RunConfig:
    """A configuration from a data source and dotted settings, such as {"train.epochs": 100, "method": "car"}."""
    if isinstance(data, RunConfig):
        content: dict[str, Any] = data.model_dump()  # not as JSON, in which NaN would become the default
    elif isinstance(data, Mapping):
        content = json.loads(json.dumps(dict(data)))
    else:
        content = {"data": {"source": str(data)}}
    for name, value in (settings or {}).items():
        set_field(content, name, value)
    return validated(content)


def fit(
    data: str | Path | RunConfig | Mapping[str, Any],
    out: str | Path,
    *,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    interrupt: Callable[[], bool] | None = None,
) -> RunDir:
    """Train and leave a run directory at `out`, which must not exist yet.

    `data` is a data source (a bundled name or a path) or a whole configuration; `settings` are dotted fields over it.
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
    return _train(config, run_dir, progress or Silent(), interrupt)


def resume(
    run: str | Path | RunDir,
    *,
    progress: Progress | None = None,
    interrupt: Callable[[], bool] | None = None,
    settings: Mapping[str, Any] | None = None,
    trust: bool = False,
) -> RunDir:
    """Go on with an interrupted run, or begin one anew that had not saved a state yet.

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
    return _train(config, run_dir, progress or Silent(), interrupt)


def _check_trust(run_dir: RunDir, trust: bool) -> None:
    """A run directory may come from anywhere: it must not decide which code is imported."""
    name = run_dir.config().method.name
    if "." in name and not trust:
        raise RunError(f"{run_dir.path}: its method {name} is not part of surelabel; trust=True (--trust) imports it")


def _train(config: RunConfig, run_dir: RunDir, progress: Progress, interrupt: Callable[[], bool] | None) -> RunDir:
    corpus, manifest = build.corpus(config.data, config.noise, config.train.seed)
    scale, shape = build.normalisation(corpus), corpus.train.input_shape

    def make_method(seed: int) -> Any:
        rows = corpus.train
        job = build.task(config, rows.label, corpus.num_classes, shape, seed, scale, rows.trusted)
        return build.method(config, job)

    warnings = [*config.notices(), *make_method(config.train.seed).warnings()]
    fabric = distributed.start(config.train)
    loader = build.loader(config, corpus, fabric.device)
    torch.manual_seed(config.train.seed)
    with contextlib.ExitStack() as stack:
        _together(fabric.device, lambda: _claim(stack, run_dir, config, corpus, manifest, fabric.device))
        stop = stack.enter_context(_stop_on_signals())
        for text in [manifest.describe(), *warnings] if manifest is not None else warnings:
            progress.warn(text)
        setup = Setup(config, corpus, make_method, loader, run_dir, fabric, progress, interrupt or stop)
        engine = Engine(setup)
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
    stack: contextlib.ExitStack, run_dir: RunDir, config: RunConfig, corpus: Corpus, manifest: Any, device: torch.device
) -> None:
    stack.enter_context(run_dir.locked())
    _check_or_write(run_dir, config, corpus, manifest, device)


def _check_or_write(run_dir: RunDir, config: RunConfig, corpus: Corpus, manifest: Any, device: torch.device) -> None:
    """Write what describes the run, or make sure that the data are still what the run began with."""
    data = {
        "schema": SCHEMA_VERSION,
        "class_names": list(corpus.class_names),
        "input_shape": list(corpus.train.input_shape),
        "num_train": len(corpus.train),
        "num_validation": 0 if corpus.validation is None else len(corpus.validation),
        "tests": {name: len(rows) for name, rows in corpus.tests.items()},
        "fingerprint": corpus.fingerprint(),
    }
    if run_dir.has_begun:
        if run_dir.data() != data:
            raise RunError(f"{run_dir.path}: the data have changed since this run began; start a new run")
        if run_dir.config() != config:
            run_dir.write_json("config.json", config.model_dump(mode="json"))
        return
    run_dir.write_json("config.json", config.model_dump(mode="json"))
    run_dir.write_json("env.json", _environment(device))
    if manifest is not None:
        run_dir.write_json("noise.json", manifest.to_dict())
    run_dir.write_table("labels.parquet", _label_columns(corpus))
    run_dir.write_json("data.json", data)


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


class TrainedModel:
    """A finished run's model: raw inputs in, probabilities and confidences out."""

    def __init__(self, run_dir: RunDir, device: str = "cpu") -> None:
        from safetensors.torch import load_file

        data, config = run_dir.data(), run_dir.config()
        run_dir.require_done()
        self.run_dir, self.config = run_dir, config
        self.class_names = tuple(data["class_names"])
        self.input_shape = tuple(data["input_shape"])
        self.device = torch.device(device)
        labels = run_dir.labels()
        given = torch.from_numpy(labels["given"].to_numpy()[: data["num_train"]].copy())
        scale_shape = (self.input_shape[0], *[1] * (len(self.input_shape) - 1))
        scale = torch.zeros(scale_shape), torch.ones(scale_shape)
        task = build.task(config, given, len(self.class_names), self.input_shape, config.train.seed, scale)
        self.method = build.method(config, task)
        weights = load_file(run_dir.weights_file)
        missing, unexpected = self.method.load_state_dict(weights, strict=False)
        wrong = [name for name in missing if not name.endswith(".rows")] + list(unexpected)
        if wrong:
            raise RunError(f"{run_dir.weights_file}: does not fit the run's configuration ({wrong[0]})")
        self.method.to(self.device).eval()

    @torch.no_grad()
    def predict_proba(self, x: Any, batch_size: int = 512) -> np.ndarray:
        """(N, K) class probabilities of raw inputs (N, *input_shape)."""
        return self._sweep(self.method.predict, x, batch_size)

    def predict(self, x: Any, batch_size: int = 512) -> np.ndarray:
        """(N,) class names."""
        return np.array(self.class_names)[self.predict_proba(x, batch_size).argmax(1)]

    @torch.no_grad()
    def confidence(self, x: Any, batch_size: int = 512) -> np.ndarray | None:
        """(N,) tau of raw inputs; None for methods that have none."""
        inputs = self._checked(x)
        if self.method.confidence(inputs[:1].to(self.device)) is None:
            return None
        return self._sweep(self.method.confidence, inputs, batch_size)

    def _checked(self, x: Any) -> Tensor:
        inputs = torch.as_tensor(x)
        if tuple(inputs.shape[1:]) != self.input_shape:
            raise ValueError(
                f"inputs must have shape (N, {', '.join(map(str, self.input_shape))}), got {tuple(inputs.shape)}"
            )
        return inputs

    def _sweep(self, function: Callable[[Tensor], Any], x: Any, batch_size: int) -> np.ndarray:
        inputs = self._checked(x)
        parts = [function(part.to(self.device)).float().cpu() for part in inputs.split(batch_size)]
        return torch.cat(parts).numpy() if len(inputs) else np.empty((0, len(self.class_names)), dtype=np.float32)


def load(run: str | Path | RunDir, device: str = "cpu", trust: bool = False) -> TrainedModel:
    """The model of a finished run, with its class names and preprocessing.

    Nothing in the run is executed. `trust` allows a method that is not part of surelabel, whose code is then imported.
    """
    run_dir = run if isinstance(run, RunDir) else RunDir.open(run)
    _check_trust(run_dir, trust)
    return TrainedModel(run_dir, device)


__all__ = ["Audit", "Interrupted", "TrainedModel", "audit", "configured", "fit", "load", "resume"]
