"""Train: from data and a configuration to a finished run directory."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from surelabel import noise
from surelabel.class_names import describe_alike
from surelabel.config import RunConfig
from surelabel.console import Silent
from surelabel.core.collective import world_size
from surelabel.core.method import Method
from surelabel.data.corpus import Corpus
from surelabel.encoding import stored
from surelabel.encoding.encode import encode_all, with_encoder
from surelabel.engine import distributed
from surelabel.engine.loop import Engine, Interrupted, Progress, Setup
from surelabel.engine.signals import Stop
from surelabel.engine.trajectory import Trajectory
from surelabel.engine.verdict import collect_columns, summarise, weights_of
from surelabel.errors import RunError
from surelabel.runs.run_dir import (
    HEAD_FILE,
    NEIGHBOURS_FILE,
    OPINION_FILE,
    TRAJECTORY_FILE,
    RunDir,
)
from surelabel.training import build, folds, head, pretrained, second_opinion, warm_start
from surelabel.training.cores import notes_on_threads
from surelabel.training.startup import check_or_write

LOSS_MAY_RISE = (
    "the loss of {method} may rise in a normal run, because its targets move away from labels that look wrong; "
    "watch the test accuracy, which should rise, and the predictions that change, which should become few"
)


def train(
    config: RunConfig,
    data: tuple[Corpus, noise.Manifest | None],
    run_dir: RunDir,
    progress: Progress,
    interrupt: Callable[[], bool] | None,
    stop: Stop,
    choose_head: bool = True,
    opinion: second_opinion.TrainingRows | None = None,
) -> RunDir:
    """Train on the result of `build.corpus`, from the start or from the state in `run_dir`.

    The caller holds the run directory. `stop` says whether a signal has come. A new run on feature
    vectors compares a few networks first, unless `choose_head` is false. `opinion` is the second
    opinion on the training rows, if there is one already.
    """
    raw, manifest = data
    distributed.check_device(config.train)
    with stop.at_once():
        distributed.use_threads(config.train)
        is_on_features = run_dir.is_prepared and config.model.train_on == pretrained.FEATURES
        known_encoder = stored.read(run_dir) if is_on_features else None
        config, raw = pretrained.attach(config, raw, progress.warn, known_encoder)
        corpus = encode_all(raw)
        chosen: dict[str, Any] = {}
        if choose_head and not run_dir.is_prepared:
            config, chosen = head.settle(config, corpus, functools.partial(_train_candidate, stop), run_dir.path)
        config = pretrained.settled(config)
        known = opinion or second_opinion.TrainingRows(config, corpus, progress.warn)
        seen = pretrained.as_trained(config, corpus)
        scale = build.normalisation(seen)

        def make_method(seed: int) -> Method:
            return build.method_for(config, seen, scale, seed, known, run_dir.path)

        torch.manual_seed(config.train.seed)  # for methods that draw weights without the factory
        method = make_method(config.train.seed)
        warnings = [f"network: {chosen['chosen']}"] if chosen else []
        warnings += [
            *config.notices(),
            *_alike_names(raw),
            *notes_on_threads(config.train),
            *method.advice("settings"),
            *build.notes(method),
        ]
        if method.target_tables():
            warnings.append(LOSS_MAY_RISE.format(method=config.method.name))
        # A saved state replaces the weights of a warm start.
        warm = None if run_dir.state_file.exists() else warm_start.read(config, raw.class_names, seen.train.input_shape)
        warnings += [] if warm is None else warm.apply(method)
    fabric = distributed.launch(config.train, run_dir.path)
    loader = build.loader(config, seen, fabric.device)
    torch.manual_seed(config.train.seed)
    with distributed.naming_lost_process(run_dir.path):
        _let_first(fabric.device, lambda: _prepare(run_dir, config, raw, manifest, chosen, fabric.device))
        for text in [manifest.describe(), *warnings] if manifest is not None else warnings:
            progress.warn(text)
        setup = Setup(
            config=config,
            corpus=seen,
            method=method,
            make_method=make_method,
            loader=loader,
            run_dir=run_dir,
            fabric=fabric,
            progress=progress,
            interrupt=interrupt or stop,
            at_once=_at_once_alone(stop),
        )
        engine = Engine(setup)
        engine.run(resume=run_dir.state_file.exists())
        _write_results(engine, run_dir, corpus, folds.predict_left_out(engine, known), known, stop)
        distributed.wait_for_all()
    return run_dir


def _alike_names(corpus: Corpus) -> list[str]:
    """Return warnings about class names that look alike."""
    labels = torch.cat([part.label for part in corpus.labelled_parts])
    counts = labels.bincount(minlength=corpus.num_classes).tolist()
    return list(describe_alike(dict(zip(corpus.class_names, counts, strict=True))))


def _train_candidate(
    stop: Stop, config: RunConfig, corpus: Corpus, run_dir: RunDir, opinion: second_opinion.TrainingRows
) -> None:
    """Train one of the networks that are compared."""
    train(config, (corpus, None), run_dir, Silent(), None, stop, opinion=opinion)


def _let_first(device: torch.device, work: Callable[[], None]) -> None:
    """Let the first process do `work`; if that fails, all processes fail instead of waiting."""
    problem: Exception | None = None
    if distributed.is_first():
        try:
            work()
        except Exception as error:
            problem = error
    if distributed.any_rank(problem is not None, device):
        raise problem or RunError("the first process could not start")


def _prepare(
    run_dir: RunDir,
    config: RunConfig,
    corpus: Corpus,
    manifest: noise.Manifest | None,
    chosen: dict[str, Any],
    device: torch.device,
) -> None:
    """Write, or check, the files that describe the run."""
    if not run_dir.is_prepared:
        if chosen:  # before config.json has the choice: a resumed start does not compare again
            run_dir.write_json(HEAD_FILE, chosen)
        stored.write(run_dir, pretrained.encoder_of_run(config, corpus))
    check_or_write(run_dir, config, _as_predicted(config, corpus), manifest, device)


def _as_predicted(config: RunConfig, corpus: Corpus) -> Corpus:
    """Return the rows whose cells have the encoder that new ones will go through."""
    encoder = pretrained.encoder_of_run(config, corpus)
    return corpus if encoder is None else with_encoder(corpus, encoder)


def _write_results(
    engine: Engine,
    run_dir: RunDir,
    corpus: Corpus,
    left_out: dict[str, np.ndarray],
    known: second_opinion.TrainingRows,
    stop: Stop,
) -> None:
    """Judge every label and write the results; every rank takes part, the first one writes.

    `left_out` has what networks say of rows that they were not trained on, `known` the second
    opinion that the method may have asked for.

    `done` comes last and the state is deleted after it: a crash at any point leaves a run that can
    be resumed, and the same files are then written again. After a signal the state is saved first.
    """
    with contextlib.suppress(Interrupted):  # every rank must hear of it
        columns, weights = _collect(engine, stop)
        if distributed.is_first():
            with stop.at_once():
                found = second_opinion.judge_run(engine.config, corpus, columns, left_out, known)
                write_verdict(run_dir, columns, found, engine.record.trajectory)
                run_dir.write_tensors(run_dir.weights_file.name, weights)
    if distributed.any_rank(stop(), engine.device):
        engine.save()
        raise Interrupted
    if not distributed.is_first():
        return
    run_dir.rewrite_metrics(engine.history)
    run_dir.write_json("done", summarise(engine))
    discard_state(run_dir)


def _collect(engine: Engine, stop: Stop) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Return columns and weights; all ranks raise Interrupted if one was asked to stop."""

    def agree() -> None:
        if distributed.any_rank(stop(), engine.device):
            raise Interrupted

    with _at_once_alone(stop)():
        agree()
        return collect_columns(engine, agree), weights_of(engine)


def _at_once_alone(stop: Stop) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Return what stops work at once; processes that wait for each other must agree first."""
    return stop.at_once if world_size() == 1 else contextlib.nullcontext


def write_verdict(
    run_dir: RunDir, columns: dict[str, Any], found: second_opinion.Judged | None, trajectory: Trajectory | None
) -> None:
    """Write the verdict on every row: P(wrong) by the second opinion, or else by training alone."""
    found = found or second_opinion.judge_by_training(columns)
    run_dir.write_json(OPINION_FILE, found.description)
    if trajectory is not None:
        run_dir.write_tensors(TRAJECTORY_FILE, trajectory.tensors())
    if found.neighbours is not None:
        run_dir.write_tensors(NEIGHBOURS_FILE, {"index": torch.from_numpy(found.neighbours)})
    run_dir.write_samples({**columns, **found.columns})


def discard_state(run_dir: RunDir) -> None:
    """Remove what only an unfinished run needs; a crash after `done` may have left it."""
    run_dir.state_file.unlink(missing_ok=True)
    folds.remove(run_dir)
