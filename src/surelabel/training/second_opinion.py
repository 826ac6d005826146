"""Judge the labels of a run by models on fixed features that never see the label they judge."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from threadpoolctl import threadpool_limits
from torch import Tensor

from surelabel.config import RunConfig
from surelabel.core.method import Opinion
from surelabel.data.corpus import Corpus, Examples
from surelabel.data.duplicates import number_duplicates
from surelabel.data.groups import ALONE, join_copies
from surelabel.data.inputs import read_all
from surelabel.data.neighbours import Neighbours, find_neighbours
from surelabel.models import TINY_SIDE
from surelabel.models.gradients import gradient_features
from surelabel.models.patches import draw_filters
from surelabel.runs.samples import TRUE_CLASS, TopK
from surelabel.verdicts.calibration import SEPARATED
from surelabel.verdicts.curve import calibrate
from surelabel.verdicts.evidence import TRAINED, TRUSTED, as_given, is_own
from surelabel.verdicts.inspection import inspect_inputs, join_features
from surelabel.verdicts.judgement import OPINION_ODDS, TRAINING_ODDS, judge
from surelabel.verdicts.noise_model import NoiseModel, fit_noise_model
from surelabel.verdicts.probe import SecondOpinion, second_opinion
from surelabel.verdicts.row_readers import RowReader

INPUTS, PATCHES, GRADIENTS, PRETRAINED = "inputs", "patches", "gradients", "pretrained"
"""Names of sets of features."""
LEAST_ROWS = 30
"""With fewer rows there is no second opinion."""
MANY_ROWS = 5_000
"""From here on it takes long enough to say so."""
SIDE = 32
"""Larger images are scaled down to this many pixels on the longer side."""
NUM_FILTERS = 128
PATCH_SIDE = 6
ROWS_AT_ONCE = 1000
ROWS_TO_DRAW_FROM = 5000
"""Images that filters are drawn from."""


@dataclass(frozen=True)
class Judged:
    """Columns for samples.parquet, and the content of second_opinion.json."""

    columns: dict[str, Any]
    description: dict[str, Any]
    neighbours: np.ndarray | None = None
    """(N, k) int32: the nearest rows of each row, the nearest first; None with very many rows."""


class Surroundings(NamedTuple):
    """Which rows are near each other."""

    neighbours: Neighbours | None
    """None with very many rows."""
    copies: np.ndarray
    """(N,) the number of each row's group of copies; 0 if it has none."""
    group: np.ndarray | None
    """(N,) the rows that are left out together: those of the user's groups and their copies."""


def look_around(features: Mapping[str, np.ndarray], group: np.ndarray | None, seed: int) -> Surroundings:
    """Find neighbours and copies by (N, D) features, and join copies to the groups of the user."""
    neighbours = find_neighbours(join_features(features), seed)
    # Those of a network may differ in their last digits between equal pictures.
    copies = number_duplicates(join_features({n: x for n, x in features.items() if n != PRETRAINED}), neighbours)
    return Surroundings(neighbours, copies, join_copies(group, copies))


def is_possible(config: RunConfig, corpus: Corpus) -> bool:
    """Return whether a second opinion is wanted, and there are enough rows for one."""
    num_rows = sum(map(len, corpus.labelled_parts))
    return config.train.second_opinion and num_rows >= least_rows(corpus.num_classes)


def least_rows(num_classes: int) -> int:
    """Return how many rows a second opinion needs."""
    return max(LEAST_ROWS, 2 * num_classes)


class TrainingRows:
    """The second opinion on the training rows alone: formed once, when a method first asks.

    What is near each row is found once for all labelled rows.
    """

    def __init__(self, config: RunConfig, corpus: Corpus, say: Callable[[str], None] = lambda _text: None) -> None:
        self.config, self.rows, self.num_classes, self.say = config, corpus.train.as_given(), corpus.num_classes, say
        self.one_scale, self.parts = sets_of_one_scale(corpus), corpus.labelled_parts
        self._surroundings: Surroundings | None = None

    def surroundings(self, features: Mapping[str, np.ndarray] | None = None) -> Surroundings:
        """Return what is near each labelled row; `features` are theirs, if known."""
        if self._surroundings is None:
            with threadpool_limits(self.config.train.threads):
                sets = feature_sets(self.parts, self.config.train.seed) if features is None else features
                self._surroundings = look_around(sets, groups_of(self.parts), self.config.train.seed)
        return self._surroundings

    @cached_property
    def found(self) -> SecondOpinion | None:
        """Leave-one-out logits of all rows; None if there are too few rows, or too many."""
        if len(self.rows) < least_rows(self.num_classes):
            return None
        seed = self.config.train.seed
        with threadpool_limits(self.config.train.threads):
            # Those of the training rows come first, and are the same alone.
            features, num_rows = feature_sets(self.parts, seed), len(self.rows)
            group = self.surroundings(features).group
            return second_opinion(
                {name: x[:num_rows] for name, x in features.items()},
                self.rows.label.numpy(),
                self.num_classes,
                seed,
                group=None if group is None else group[:num_rows],
                one_scale=self.one_scale,
            )

    def __call__(self) -> Opinion | None:
        """Return what a method may know of it; confirmed labels take no part in the noise."""
        if len(self.rows) >= MANY_ROWS and "found" not in vars(self):
            self.say(f"forming a second opinion on {len(self.rows):,} labels before training")
        if self.found is None:
            return None
        trusted = self.rows.trusted
        judged = None if trusted is None or trusted.all() else np.flatnonzero(~trusted.numpy())
        with threadpool_limits(self.config.train.threads):
            model = fit_noise_model(self.found.logits, self.rows.label.numpy(), judged)
        clean = _CleanRows(model, self.found.logits, self.config.train.threads)
        return Opinion(clean, torch.from_numpy(model.transition).float())


@dataclass(frozen=True)
class _CleanRows:
    """Probabilities of the true class by the input alone, computed for the rows that are read."""

    model: NoiseModel
    logits: RowReader
    threads: int | None

    def __getitem__(self, rows: slice) -> Tensor:
        with threadpool_limits(self.threads):
            return torch.from_numpy(self.model.clean(self.logits[rows])).float()


@dataclass(frozen=True)
class _Predicted:
    """What targets and predictions together say of every class, for the rows that are read."""

    target: TopK
    probability: TopK

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.target), self.target.num_classes

    def __getitem__(self, rows: slice) -> np.ndarray:
        summed: np.ndarray = self.target.dense(rows) + self.probability.dense(rows)
        return summed


def judge_run(
    config: RunConfig,
    corpus: Corpus,
    columns: dict[str, Any],
    extra: Mapping[str, np.ndarray] | None = None,
    known: TrainingRows | None = None,
) -> Judged | None:
    """Judge training and held-out rows together; None if that is not wanted or not possible.

    `extra` has (N, K) scores of further experts, by name; `known` is what the method was told.
    """
    if not is_possible(config, corpus):
        return None
    # Sums depend on the number of threads in their last bits, so they use as many as training does.
    with threadpool_limits(config.train.threads):
        return _judge(config, corpus, columns, extra, known)


def sets_of_one_scale(corpus: Corpus) -> tuple[str, ...]:
    """Return the names of sets of features whose columns share one scale: weights of terms."""
    return (INPUTS,) if corpus.has_term_weights else ()


def groups_of(parts: list[Examples]) -> np.ndarray | None:
    """Return the group (N,) of the rows of all parts; None if no part has any."""
    if all(part.group is None for part in parts):
        return None
    return np.concatenate([np.full(len(p), ALONE) if p.group is None else p.group.numpy() for p in parts])


def _judge(
    config: RunConfig,
    corpus: Corpus,
    columns: dict[str, Any],
    extra: Mapping[str, np.ndarray] | None,
    known: TrainingRows | None,
) -> Judged | None:
    features = feature_sets(corpus.labelled_parts, config.train.seed)
    around = (known or TrainingRows(config, corpus)).surroundings(features)
    if known is not None and corpus.validation is None and not extra:
        opinion = known.found
    else:
        opinion = second_opinion(
            features,
            as_given(columns),
            corpus.num_classes,
            config.train.seed,
            extra,
            group=around.group,
            one_scale=sets_of_one_scale(corpus),
        )
    return None if opinion is None else judge_rows(opinion, around, columns, config.train.seed)


def judge_rows(opinion: SecondOpinion, around: Surroundings, columns: dict[str, Any], seed: int) -> Judged:
    """Judge rows by a second opinion, what is near them, and the columns that training gave."""
    given, trained = columns["given"], columns["verdict"] == TRAINED
    judgement = judge(
        opinion.logits,
        as_given(columns),
        present=given,
        quality=np.where(trained, columns["quality"], np.nan),
        predicted=_Predicted(columns["target"], columns["probability"]),
        trusted=columns["verdict"] == TRUSTED,
        seed=seed,
    )
    neighbours = around.neighbours
    judged = {
        "p_wrong": judgement.p_wrong,
        "p_wrong_low": judgement.low,
        "p_wrong_high": judgement.high,
        TRUE_CLASS: judgement.true_class,
        OPINION_ODDS: judgement.opinion_odds.astype(np.float32),
        TRAINING_ODDS: judgement.training_odds.astype(np.float32),
        **inspect_inputs(judgement.by_input, around.copies, neighbours),
    }
    description = {
        "power": judgement.power,
        "may_follow_inputs": judgement.may_follow_inputs,
        "experts": [expert._asdict() for expert in opinion.experts],
    }
    return Judged(judged, description, None if neighbours is None else neighbours.index.astype(np.int32))


def judge_by_training(columns: Mapping[str, Any]) -> Judged:
    """Judge rows by the columns that training gave, where no second opinion is possible.

    Nothing bounds P(wrong) if an earlier run suggested some of the labels: the network learned from
    what it would have to judge.
    """
    found = calibrate(columns)
    low, high = found.low, found.high
    if is_own(columns).any():
        low, high = np.zeros(len(low)), np.where(columns["verdict"] == TRUSTED, 0.0, 1.0)
    judged = {"p_wrong": found.p_wrong, "p_wrong_low": low, "p_wrong_high": high}
    return Judged(judged, {SEPARATED: found.separated})


def feature_sets(parts: list[Examples], seed: int) -> dict[str, np.ndarray]:
    """Return named (N, D) features of all parts: the inputs, or two descriptions of images.

    Vectors and tiny images are taken whole. Other images are described by random patches, which
    see colour and texture, and by oriented gradients, which see shape. The features of a pretrained
    network join them if there is one.
    """
    sets = {PATCHES if _is_large(parts[0]) else INPUTS: np.concatenate(features_of(parts, seed))}
    if _is_large(parts[0]):
        gradients = [_collect(part, lambda x: gradient_features(_shrink(x))) for part in parts]
        sets[GRADIENTS] = np.concatenate(gradients)
    pretrained = [read_all(part.features) for part in parts if part.features is not None]
    return sets | {PRETRAINED: np.concatenate(pretrained)} if pretrained else sets


def features_of(parts: list[Examples], seed: int) -> list[np.ndarray]:
    """Return (N, D) features: vectors and tiny images whole, other images by random patches."""
    first = parts[0]
    if not _is_large(first):
        return [_collect(part, lambda x: x.float().flatten(1)) for part in parts]
    some = torch.linspace(0, len(first) - 1, min(len(first), ROWS_TO_DRAW_FROM)).long()
    filters = draw_filters(_shrink(first.x[some]), NUM_FILTERS, PATCH_SIDE, seed)
    return [_collect(part, lambda x: filters.features(_shrink(x))) for part in parts]


def _is_large(part: Examples) -> bool:
    """Return whether inputs are images with more pixels than are taken whole."""
    return part.is_image and max(part.x.shape[2:]) > TINY_SIDE


def _collect(part: Examples, function: Callable[[Tensor], Tensor]) -> np.ndarray:
    starts = range(0, len(part), ROWS_AT_ONCE)
    chunks = (torch.arange(start, min(start + ROWS_AT_ONCE, len(part))) for start in starts)
    return torch.cat([function(part.x[rows]) for rows in chunks]).numpy()


def _shrink(images: Tensor) -> Tensor:
    """Return (B, C, h, w) uint8 images whose longer side has at most SIDE pixels."""
    height, width = images.shape[2:]
    longer = max(height, width)
    if longer <= SIDE:
        return images
    size = [max(2 * PATCH_SIDE, round(side * SIDE / longer)) for side in (height, width)]
    return F.interpolate(images.float(), size, mode="area").round().to(torch.uint8)
