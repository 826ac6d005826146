"""One training, from data and configuration to a finished run directory."""

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from surelabel import noise
from surelabel.config import RunConfig
from surelabel.data.corpus import Corpus
from surelabel.engine import distributed
from surelabel.engine.loop import Engine, Progress, Setup
from surelabel.engine.signals import stop_on_signals
from surelabel.engine.verdict import collect_columns, summarise, weights_of
from surelabel.errors import RunError
from surelabel.models import Extractor
from surelabel.runs.run_dir import RunDir
from surelabel.runs.samples import TopK
from surelabel.training import build, cached_features, warm_start
from surelabel.training.startup import check_or_write


def train(
    config: RunConfig,
    data: tuple[Corpus, noise.Manifest | None],
    run_dir: RunDir,
    progress: Progress,
    interrupt: Callable[[], bool] | None,
) -> RunDir:
    """Train as `config` says on what `build.corpus` made of it, from the start or from the state that `run_dir` has."""
    raw, manifest = data
    distributed.check_device(config.train)
    extractor = cached_features.extractor(config, raw, run_dir, progress.warn)
    corpus = cached_features.extract(raw, extractor, config, progress.warn)
    scale, shape = build.normalisation(corpus), corpus.train.input_shape

    def make_method(seed: int) -> Any:
        rows = corpus.train
        job = build.task(config, rows.label, corpus.num_classes, shape, seed, scale, rows.trusted)
        return build.method(config, job)

    torch.manual_seed(config.train.seed)  # for weights that a method draws without the factory
    method = make_method(config.train.seed)
    warnings = [*config.notices(), *method.advice("settings"), *build.notes(method)]
    # A saved state has gone on from these weights already.
    warm = None if run_dir.state_file.exists() else warm_start.read(config, raw.class_names, raw.train.input_shape)
    warnings += [] if warm is None else warm.apply(method)
    fabric = distributed.start(config.train)
    loader = build.loader(config, corpus, fabric.device)
    torch.manual_seed(config.train.seed)
    with contextlib.ExitStack() as stack:
        _together(fabric.device, lambda: _claim(stack, run_dir, config, raw, manifest, extractor, fabric.device))
        stop = stack.enter_context(stop_on_signals())
        for text in [manifest.describe(), *warnings] if manifest is not None else warnings:
            progress.warn(text)
        setup = Setup(config, corpus, method, make_method, loader, run_dir, fabric, progress, interrupt or stop)
        engine = Engine(setup)
        engine.run(resume=run_dir.state_file.exists())
        finish(engine)
        distributed.wait_for_all()
    return run_dir


def finish(engine: Engine) -> None:
    """Write samples.parquet, the weights and `done`; every rank calls, the first one writes."""
    columns, weights = collect_columns(engine), weights_of(engine)
    if not distributed.is_first():
        return
    run_dir = engine.setup.run_dir
    dense = {name: values.dense() if isinstance(values, TopK) else values for name, values in columns.items()}
    run_dir.write_table("samples.parquet", dense)
    from safetensors.torch import save_file

    run_dir.write("model.safetensors", lambda path: save_file(weights, path))
    run_dir.rewrite_metrics(engine.history)
    run_dir.write_json("done", summarise(engine))
    run_dir.state_file.unlink(missing_ok=True)


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
    manifest: noise.Manifest | None,
    extractor: Extractor | None,
    device: torch.device,
) -> None:
    stack.enter_context(run_dir.locked())
    if extractor is not None and not run_dir.has_begun:
        cached_features.keep(run_dir, extractor)
    check_or_write(run_dir, config, corpus, manifest, device)
