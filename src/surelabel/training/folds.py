"""K-fold training: networks that judge the rows they were not trained on.

For each fold a network is trained on the rows of all others, with the run's method and settings,
and predicts the rows of the fold. Labels that a person has confirmed are always trained on.
Held-out rows are divided among the folds too, so that each is judged by one network like all
others. Networks start from random weights or `model.weights`, never from `train.warm_start`: that
run may have been trained on the labels that are judged here.

While the run trains, RUN/folds/NUMBER has the state of a fold or, when it has ended, its
predictions. An interrupted fold is resumed like the run itself.
"""

import shutil
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from surelabel.console import Silent
from surelabel.core.stages import seed_of
from surelabel.data.corpus import Corpus
from surelabel.data.loader import Loader
from surelabel.engine import distributed
from surelabel.engine.evaluate import AS_IT_IS, in_eval_mode
from surelabel.engine.loop import Engine, Progress, Setup
from surelabel.files import refuse_link
from surelabel.runs.run_dir import FOLDS_FOLDER, RunDir
from surelabel.training import build, second_opinion

EXPERT = "folds"
"""What the second opinion calls these networks."""
PREDICTIONS = "predictions.safetensors"
LEAST = 1e-6
"""Smaller probabilities count as this one."""
ALWAYS_TRAINED_ON = -1


def predict_left_out(engine: Engine, known: second_opinion.TrainingRows) -> dict[str, np.ndarray]:
    """Train the folds of a run whose training has ended; return (N, K) log-probabilities by name.

    Rows are those of the training and then of the held-out part. Confirmed ones have NaN, because
    every network has seen their labels. Nothing is returned for runs without folds.
    """
    setup = engine.setup
    config, corpus = setup.config, setup.corpus
    if not config.train.folds or not second_opinion.is_possible(config, corpus):
        return {}
    refuse_link(setup.run_dir.path / FOLDS_FOLDER)
    engine.save()  # the training that has ended is not repeated if a fold is interrupted
    fold_of = assign_folds(corpus, config.train.folds, config.train.seed, known.surroundings().group)
    scores = np.full((len(fold_of), corpus.num_classes), np.nan, dtype=np.float32)
    for number in range(config.train.folds):
        rows = np.flatnonzero(fold_of == number)
        if len(rows):
            scores[rows] = _judge_fold(setup, number, fold_of, rows)
    return {EXPERT: scores} if np.isfinite(scores).any() else {}


def remove(run_dir: RunDir) -> None:
    """Delete the folder of the folds of a finished run."""
    shutil.rmtree(run_dir.path / FOLDS_FOLDER, ignore_errors=True)


def assign_folds(corpus: Corpus, num_folds: int, seed: int, group: np.ndarray | None = None) -> np.ndarray:
    """Return the fold (N,) of every labelled row; each fold has its share of every given label.

    Rows of a `group` (N,) are in one fold, -1 is alone; labels are then shared as groups allow.
    """
    if group is not None:
        return _assign_groups(corpus, num_folds, seed, group)
    found = []
    for place, part in enumerate(corpus.labelled_parts):
        fold_of = np.full(len(part), ALWAYS_TRAINED_ON)
        open_rows = np.arange(len(part)) if part.trusted is None else np.flatnonzero(~part.trusted.numpy())
        rng = np.random.default_rng(seed_of(seed, "folds", place))
        shuffled = rng.permutation(open_rows)
        by_label = shuffled[np.argsort(part.label.numpy()[shuffled], kind="stable")]
        fold_of[by_label] = np.arange(len(by_label)) % num_folds
        found.append(fold_of)
    return np.concatenate(found)


def _assign_groups(corpus: Corpus, num_folds: int, seed: int, group: np.ndarray) -> np.ndarray:
    """Return the fold (N,) of every labelled row, each group where its labels are the fewest."""
    parts = corpus.labelled_parts
    label = torch.cat([part.label for part in parts]).numpy()
    trusted = torch.cat([torch.zeros(len(p), dtype=torch.bool) if p.trusted is None else p.trusted for p in parts])
    fold_of, rng = np.full(len(label), ALWAYS_TRAINED_ON), np.random.default_rng(seed_of(seed, "folds", 0))
    own = np.where(group < 0, group.max() + 1 + np.arange(len(group)), group)
    rows = rng.permutation(np.flatnonzero(~trusted.numpy()))
    _, number, sizes = np.unique(own[rows], return_inverse=True, return_counts=True)
    groups = np.split(rows[np.argsort(number, kind="stable")], np.cumsum(sizes)[:-1])
    held = np.zeros((num_folds, corpus.num_classes))
    for one in np.lexsort((rng.random(len(sizes)), -sizes)).tolist():  # what is small evens out the rest
        classes, count = np.unique(label[groups[one]], return_counts=True)
        fold = int(np.lexsort((held.sum(1), held[:, classes] @ count))[0])
        fold_of[groups[one]] = fold
        held[fold, classes] += count
    return fold_of


def _judge_fold(setup: Setup, number: int, fold_of: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return (n, K) log-probabilities of the rows of a fold, trained now or before."""
    run_dir = RunDir(setup.run_dir.path / FOLDS_FOLDER / str(number + 1))
    refuse_link(run_dir.path)
    if (run_dir.path / PREDICTIONS).is_file():
        before: np.ndarray = run_dir.tensors(PREDICTIONS)["log_probability"].numpy()
        return before
    trained = _train_fold(setup, number, np.flatnonzero(fold_of[: len(setup.corpus.train)] != number), run_dir)
    found = _predict(trained, setup.corpus, rows)
    if distributed.is_first():
        run_dir.write_tensors(PREDICTIONS, {"log_probability": found})
        run_dir.state_file.unlink(missing_ok=True)
    return found.numpy()


def _train_fold(setup: Setup, number: int, kept: np.ndarray, run_dir: RunDir) -> Engine:
    """Train on the rows that are kept, from the start or from the state of the fold."""
    seed = seed_of(setup.config.train.seed, "fold", number)
    config = setup.config.model_copy(update={"train": setup.config.train.model_copy(update={"seed": seed})})
    rows = replace(setup.corpus.train.subset(kept).as_given(), clean=None)
    corpus = replace(setup.corpus, train=rows, validation=None, tests={})
    scale = build.normalisation(setup.corpus)
    if distributed.is_first():
        run_dir.path.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)  # for methods that draw weights without the factory
    method = build.method_for(config, corpus, scale, seed, folder=run_dir.path)
    loader = build.loader(config, corpus, setup.fabric.device)
    torch.manual_seed(seed)
    trained = Engine(
        Setup(
            config=config,
            corpus=corpus,
            method=method,
            make_method=lambda own_seed: build.method_for(config, corpus, scale, own_seed, folder=run_dir.path),
            loader=loader,
            run_dir=run_dir,
            fabric=setup.fabric,
            progress=_part(setup.progress, f"fold {number + 1} of {config.train.folds}"),
            interrupt=setup.interrupt,
        )
    )
    trained.run(resume=run_dir.state_file.exists())
    return trained


def _part(progress: Progress, title: str) -> Progress:
    """Return the progress of a fold; one that cannot show parts gets nothing."""
    make = getattr(progress, "part", None)
    shown: Progress = Silent() if make is None else make(title)
    return shown


def _predict(trained: Engine, corpus: Corpus, rows: np.ndarray) -> Tensor:
    """Return (n, K) log-probabilities of labelled rows; all ranks must call, and get the same."""
    first = len(corpus.train)
    chosen = zip(corpus.labelled_parts, (rows[rows < first], rows[rows >= first] - first), strict=False)
    left_out = [part.subset(own) for part, own in chosen if len(own)]
    loaders = [Loader(part, trained.config.train.batch_size, device=trained.device) for part in left_out]
    found = [_probabilities(trained, loader) for loader in loaders]
    return torch.cat(found).clamp(min=LEAST).log().cpu()


def _probabilities(trained: Engine, loader: Loader) -> Tensor:
    predict = trained.method.predict
    found = in_eval_mode(trained.method, lambda: loader.collect(lambda batch: predict(batch.x), AS_IT_IS))
    return found.float()
