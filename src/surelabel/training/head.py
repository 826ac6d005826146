"""Choose the network and the weight decay for feature vectors, by rows that it has not seen.

A network of two hidden layers memorises a thousand embeddings with all their wrong labels; a linear
one cannot, and predicts new rows better. On other features it is the other way round. So before a
run on feature vectors a few candidates are trained as the run will be, but for fewer epochs and
without a fifth of the rows. The candidate whose predictions fit the given labels of those rows best
is taken. No clean label takes part. A setting that the user made is never changed. Weights of
terms in texts always get a linear network, and only its weight decay is compared.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from surelabel import files, launcher
from surelabel.config import USUAL_DECAY, ModelConfig, RunConfig
from surelabel.core.stages import seed_of
from surelabel.data.corpus import Corpus
from surelabel.data.splits import split_stratified
from surelabel.errors import RunError
from surelabel.models import backbone_options
from surelabel.runs.run_dir import RunDir
from surelabel.runs.samples import TopK
from surelabel.training.second_opinion import TrainingRows
from surelabel.verdicts.evidence import HELD_OUT as HELD_OUT_VERDICT
from surelabel.verdicts.probe import held_out_loss

FILE = "head.json"
HIDDEN_DECAYS, LINEAR_DECAYS = (USUAL_DECAY, 0.01), (0.005, 0.05)
"""Weight decays that compete, for SGD, with and without hidden layers."""
HELD_OUT = 0.2
"""Fraction of the rows that candidates are compared on."""
LEAST_ROWS = 50
MOST_EPOCHS, LEAST_EPOCHS = 60, 10
"""Epochs of a candidate; networks that memorise have begun to by then."""
MOST_SPLITS = 2
TINY = 1e-6
"""No probability counts as smaller than this."""
MOST_VISITS = 400_000
"""Rows x epochs that all candidates may see together: seconds. Larger data keep the defaults."""

Train = Callable[[RunConfig, Corpus, RunDir, TrainingRows], Any]
"""Trains on a corpus into a run directory, with the second opinion on its training rows."""


@dataclass(frozen=True)
class Candidate:
    """A network on features, its weight decay, and its loss on rows that it was not trained on."""

    widths: tuple[int, ...]
    weight_decay: float
    loss: float = math.nan

    def __str__(self) -> str:
        """Describe the network in a few words."""
        layers = f"hidden layers of {', '.join(map(str, self.widths))}" if self.widths else "linear"
        return f"{layers}, weight decay {self.weight_decay:g}"

    def apply(self, config: RunConfig) -> RunConfig:
        """Return the configuration with this network and weight decay."""
        model = config.model
        if not model.cache_features:
            options = {**model.options, "widths": list(self.widths)}
            model = model.model_copy(update={"name": "mlp", "options": options})
        optimiser = config.optimiser.model_copy(update={"weight_decay": self.weight_decay})
        return config.model_copy(update={"model": model, "optimiser": optimiser})


@dataclass(frozen=True)
class Comparison:
    """What will be compared, and for how long."""

    candidates: list[Candidate]
    epochs: int
    num_splits: int
    num_visits: int
    """Rows x epochs of all candidates together."""


def settle(config: RunConfig, corpus: Corpus, train: Train, folder: Path) -> tuple[RunConfig, dict[str, Any]]:
    """Return the configuration with the best candidate, and how it was chosen, for FILE.

    Candidates are trained in `folder`, the run's, and removed again.
    """
    config = _like_warm_start(config, corpus)
    comparison = compare_what(config, corpus)
    if comparison is None:
        usual = next(_candidates(config, corpus), None) if corpus.has_term_weights else None
        return (config if usual is None else usual.apply(config)), {}
    splits = [_split(config, corpus, number) for number in range(comparison.num_splits)]
    tried = [_measure(candidate, comparison, config, splits, train, folder) for candidate in comparison.candidates]
    best = min(tried, key=lambda candidate: candidate.loss)
    if not math.isfinite(best.loss):
        return config, {}
    table = [{"widths": c.widths, "weight_decay": c.weight_decay, "held_out_loss": c.loss} for c in tried]
    chosen = {"chosen": str(best), "epochs": comparison.epochs, "splits": comparison.num_splits, "candidates": table}
    return best.apply(config), chosen


def compare_what(config: RunConfig, corpus: Corpus) -> Comparison | None:
    """Return what to compare; None if nothing is open, or if it would cost more than the run."""
    if config.train.devices > 1 or launcher.started_as()[1] > 1:
        return None  # several processes would have to agree
    candidates, num_rows = list(_candidates(config, corpus)), len(corpus.train)
    most = min(MOST_VISITS, num_rows * config.train.epochs)
    per_epoch = len(candidates) * num_rows * (1 - HELD_OUT)
    if len(candidates) < 2 or num_rows < LEAST_ROWS or most < LEAST_EPOCHS * per_epoch:
        return None
    epochs = min(MOST_EPOCHS, config.train.epochs, int(most / per_epoch))
    num_splits = max(1, min(MOST_SPLITS, int(most / (epochs * per_epoch))))
    return Comparison(candidates, epochs, num_splits, int(epochs * num_splits * per_epoch))


def _like_warm_start(config: RunConfig, corpus: Corpus) -> RunConfig:
    """Return the configuration with the network of the run whose weights it starts from."""
    if not _is_open(config.model, corpus) or config.train.warm_start is None:
        return config
    earlier = RunDir(config.train.warm_start)
    if not earlier.is_done:  # reading the weights will say what is wrong
        return config
    model = config.model.model_copy(update={"name": "mlp", "options": earlier.config().model.options})
    optimiser = config.optimiser
    if optimiser.weight_decay is None:
        optimiser = optimiser.model_copy(update={"weight_decay": earlier.config().optimiser.decay})
    return config.model_copy(update={"model": model, "optimiser": optimiser})


def _is_open(model: ModelConfig, corpus: Corpus) -> bool:
    """Return whether inputs are vectors and the network on them is left to choose."""
    return len(corpus.train.input_shape) == 1 and model.name == "auto" and not model.cache_features


def _candidates(config: RunConfig, corpus: Corpus) -> Iterator[Candidate]:
    """Yield what the user left open; nothing if the inputs are not vectors."""
    model, optimiser = config.model, config.optimiser
    if model.cache_features:
        shapes = [model.head]
    elif _is_open(model, corpus):
        usual = backbone_options("mlp")["widths"].default
        open_shapes = [()] if corpus.has_term_weights else [usual, ()]
        shapes = [tuple(model.options["widths"])] if "widths" in model.options else open_shapes
    else:
        return
    for widths in shapes:
        decays: tuple[float, ...] = HIDDEN_DECAYS if widths else LINEAR_DECAYS
        if optimiser.weight_decay is not None or optimiser.name != "sgd":
            decays = (optimiser.decay,)
        yield from (Candidate(widths, decay) for decay in decays)


def _split(config: RunConfig, corpus: Corpus, number: int) -> tuple[Corpus, TrainingRows]:
    """Return the data with rows held out, and the second opinion that candidates may ask for."""
    seed = seed_of(config.train.seed, "head", number)
    group = None if corpus.train.group is None else corpus.train.group.numpy()
    kept, held_out = split_stratified(corpus.train.label.numpy(), HELD_OUT, seed, group)
    parts = replace(corpus, train=corpus.train.subset(kept), validation=corpus.train.subset(held_out), tests={})
    return parts, TrainingRows(config, parts)


def _measure(
    candidate: Candidate,
    comparison: Comparison,
    config: RunConfig,
    splits: list[tuple[Corpus, TrainingRows]],
    train: Train,
    folder: Path,
) -> Candidate:
    """Return the candidate with its mean loss on the rows held out of each split."""
    chosen = candidate.apply(config)
    shorter = {"epochs": comparison.epochs, "second_opinion": False, "evaluate_every": comparison.epochs}
    chosen = chosen.model_copy(update={"train": chosen.train.model_copy(update={**shorter, "warm_start": None})})
    losses = []
    for parts, opinion in splits:
        with files.new_folder(folder / "candidate") as place:
            run = RunDir(place)
            try:
                train(chosen, parts, run, opinion)
            except RunError:  # training diverged
                return replace(candidate, loss=math.inf)
            losses.append(_loss_on_held_out(run, parts.num_classes))
    return replace(candidate, loss=float(np.mean(losses)))


def _loss_on_held_out(run: RunDir, num_classes: int) -> float:
    samples = run.samples()
    samples = samples.filter(np.array(samples["verdict"].to_pylist()) == HELD_OUT_VERDICT)
    probability = TopK.from_table(samples, "probability", num_classes).dense()
    logits = np.log(np.maximum(probability, TINY)).astype(np.float32)
    return held_out_loss(logits, samples["given"].to_numpy(), num_classes)
