"""Choose what to train on, the network and the weight decay, by rows that it has not seen.

A network of two hidden layers memorises a thousand embeddings with all their wrong labels; a linear
one cannot, and predicts new rows better. On other features it is the other way round. The features
of a pretrained network may suit the data better than the inputs, or worse. So before a run a few
candidates are trained as the run will be, but for fewer epochs and without a fifth of the rows. The
candidate whose predictions fit the given labels of those rows best is taken. No clean label takes
part. A setting that the user made is never changed. Weights of terms in texts always get a linear
network, and only its weight decay is compared. A network on images competes with features only
where that is cheap.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from surelabel import files, launcher
from surelabel.config import USUAL_DECAY, RunConfig
from surelabel.core.stages import seed_of
from surelabel.data.corpus import Corpus
from surelabel.data.images.frames import centre_crop
from surelabel.data.splits import split_stratified
from surelabel.errors import RunError
from surelabel.models import backbone_options
from surelabel.runs.run_dir import RunDir
from surelabel.runs.samples import TopK
from surelabel.training import build, pretrained
from surelabel.training.pretrained import AUTO, FEATURES, INPUTS
from surelabel.training.second_opinion import TrainingRows
from surelabel.verdicts.evidence import HELD_OUT as HELD_OUT_VERDICT
from surelabel.verdicts.probe import held_out_loss

BEST = "it predicts the labels of rows that it has not seen best"
NO_IMAGES = "a network on the images did not compete, because trying it would take too long"
NOT_COMPARED = "nothing was compared: too few rows, epochs or classes, too many rows, or several processes"
HIDDEN_DECAYS, LINEAR_DECAYS = (USUAL_DECAY, 0.01), (0.005, 0.05)
"""Weight decays that compete, for SGD, with and without hidden layers."""
HELD_OUT = 0.2
"""Fraction of the rows that candidates are compared on."""
LEAST_ROWS = 50
MOST_EPOCHS, LEAST_EPOCHS = 60, 10
"""Epochs of a candidate; networks that memorise have begun to by then."""
MOST_SPLITS = 2
MOST_SHARE, MOST_PIXELS = 0.1, 50_000_000
"""A network on images competes if it takes at most this share of a run on images, and sees at most
so many pixels: half a minute on two cores. Time is not measured, so that a seed decides alone."""
TIMED_IMAGES, TIMED_STEPS = 16, 3
TINY = 1e-6
"""No probability counts as smaller than this."""
MOST_VISITS = 400_000
"""Rows x epochs that candidates on vectors may see together, on inputs or on features, whichever
has fewer of them: seconds. Larger data keep the defaults."""

Train = Callable[[RunConfig, Corpus, RunDir, TrainingRows], Any]
"""Trains on a corpus into a run directory, with the second opinion on its training rows."""


@dataclass(frozen=True)
class Candidate:
    """A network, its weight decay, and its loss on rows that it was not trained on."""

    train_on: str
    """Inputs or features."""
    widths: tuple[int, ...] | None
    """Of a network on vectors; None is the configured network on images."""
    weight_decay: float
    epochs: int
    loss: float = math.nan

    def __str__(self) -> str:
        """Describe the network in a few words."""
        if self.widths is None:
            return "on the images"
        layers = f"hidden layers of {', '.join(map(str, self.widths))}" if self.widths else "linear"
        return f"{layers}, weight decay {self.weight_decay:g}"

    def apply(self, config: RunConfig) -> RunConfig:
        """Return the configuration with this network and weight decay."""
        changes: dict[str, Any] = {"train_on": self.train_on}
        if self.widths is None:
            return config.model_copy(update={"model": config.model.model_copy(update=changes)})
        changes |= {"name": "mlp", "options": {**config.model.options, "widths": list(self.widths)}}
        optimiser = config.optimiser.model_copy(update={"weight_decay": self.weight_decay})
        return config.model_copy(update={"model": config.model.model_copy(update=changes), "optimiser": optimiser})


@dataclass(frozen=True)
class Comparison:
    """What will be compared, and how often."""

    candidates: list[Candidate]
    num_splits: int
    num_visits: int
    """Rows x epochs of all candidates on vectors together."""
    image_visits: int = 0
    """Rows x epochs of a network on images."""


def settle(config: RunConfig, corpus: Corpus, train: Train, folder: Path) -> tuple[RunConfig, dict[str, Any]]:
    """Return the configuration with the best candidate, and how it was chosen, for head.json.

    Candidates are trained in `folder`, the run's, and removed again.
    """
    config = _like_warm_start(config, corpus)
    comparison = compare_what(config, corpus)
    if comparison is None:
        return _without_comparison(config, corpus)
    splits = [_split(config, corpus, number) for number in range(comparison.num_splits)]
    tried = [_measure(candidate, config, splits, train, folder) for candidate in comparison.candidates]
    best = min(tried, key=lambda candidate: candidate.loss)
    if not math.isfinite(best.loss):
        return _without_comparison(config, corpus)
    names = {"loss": "held_out_loss"}
    table = [{names.get(name, name): value for name, value in asdict(candidate).items()} for candidate in tried]
    is_alone = corpus.train.is_image and config.model.train_on == AUTO and all(one.widths is not None for one in tried)
    reason = f"{BEST}; {NO_IMAGES}" if is_alone else BEST
    is_told = corpus.pretrained is not None and best.widths is not None
    what = f"on {_describe(best.train_on, config)}, " if is_told else ""
    found = {"chosen": f"{what}{best}", "reason": reason, "splits": comparison.num_splits, "candidates": table}
    return best.apply(config), found


def _describe(train_on: str, config: RunConfig) -> str:
    return f"the features of {config.model.features}" if train_on == FEATURES else "the inputs"


def _without_comparison(config: RunConfig, corpus: Corpus) -> tuple[RunConfig, dict[str, Any]]:
    """Return the configuration of a run in which nothing is compared, and what is trained on."""
    settled = pretrained.settled(config)
    if pretrained.as_trained(settled, corpus).has_term_weights:
        usual = next(_on_vectors(settled, corpus, INPUTS), None)
        settled = settled if usual is None else usual.apply(settled)
    if corpus.pretrained is None or config.model.train_on != AUTO:
        return settled, {}
    return settled, {"chosen": f"on {_describe(settled.model.train_on, config)}", "reason": NOT_COMPARED}


def compare_what(config: RunConfig, corpus: Corpus) -> Comparison | None:
    """Return what to compare; None if nothing is open, or if it would cost more than the run."""
    if config.train.devices > 1 or launcher.started_as()[1] > 1:
        return None  # several processes would have to agree
    num_rows = len(corpus.train)
    if num_rows < LEAST_ROWS:
        return None
    usual = pretrained.settled(config).model.train_on
    kinds = [usual] if config.model.train_on != AUTO else [usual, INPUTS if usual == FEATURES else FEATURES]
    on_vectors = [candidate for kind in dict.fromkeys(kinds) for candidate in _on_vectors(config, corpus, kind)]
    on_images = _on_images(config, corpus) if INPUTS in kinds and FEATURES in kinds else None
    per_kind = Counter(candidate.train_on for candidate in on_vectors)
    per_epoch = min(per_kind.values(), default=1) * num_rows * (1 - HELD_OUT)
    most = min(MOST_VISITS, num_rows * config.train.epochs)
    if len(on_vectors) + (on_images is not None) < 2 or most < LEAST_EPOCHS * per_epoch:
        return None
    epochs = min(MOST_EPOCHS, config.train.epochs, int(most / per_epoch))
    num_splits = 1 if on_images else max(1, min(MOST_SPLITS, int(most / (epochs * per_epoch))))
    candidates = [replace(candidate, epochs=epochs) for candidate in on_vectors]
    num_visits = int(epochs * num_splits * len(candidates) * num_rows * (1 - HELD_OUT))
    if on_images is None:
        return Comparison(candidates, num_splits, num_visits)
    visits = int(on_images.epochs * num_rows * (1 - HELD_OUT))
    return Comparison([*candidates, on_images], num_splits, num_visits, visits)


def _on_images(config: RunConfig, corpus: Corpus) -> Candidate | None:
    """Return the network on images, if it may compete."""
    rows = corpus.train
    if not rows.is_image:
        return None
    epochs = min(MOST_EPOCHS, int(MOST_SHARE * config.train.epochs / (1 - HELD_OUT)))
    pixels = len(rows) * (1 - HELD_OUT) * math.prod(rows.input_shape[1:])
    epochs = min(epochs, int(MOST_PIXELS / pixels))
    return Candidate(INPUTS, None, config.optimiser.decay, epochs) if epochs >= LEAST_EPOCHS else None


def seconds_per_image(config: RunConfig, corpus: Corpus) -> float:
    """Time a step of the network on images, per image."""
    some = corpus.train.subset(np.arange(min(TIMED_IMAGES, len(corpus.train))))
    scale = build.normalisation(corpus)
    network = build.task(config, some.label, corpus.num_classes, some.input_shape, config.train.seed, scale).network()
    x, best = centre_crop(some.x[torch.arange(len(some))], some.crop), math.inf
    for _ in range(TIMED_STEPS):
        begun = time.perf_counter()
        torch.autograd.backward(F.cross_entropy(network(x).logits, some.label))
        best = min(best, time.perf_counter() - begun)
    return best / len(some)


def _like_warm_start(config: RunConfig, corpus: Corpus) -> RunConfig:
    """Return the configuration with the network of the run whose weights it starts from."""
    if config.train.warm_start is None or config.model.name != "auto":
        return config
    earlier = RunDir(config.train.warm_start)
    if not earlier.is_done:  # reading the weights will say what is wrong
        return config
    theirs = earlier.config().model
    fits = theirs.train_on == INPUTS or theirs.features == config.model.features
    if config.model.train_on == AUTO and fits:
        config = config.model_copy(update={"model": config.model.model_copy(update={"train_on": theirs.train_on})})
    if len(pretrained.as_trained(pretrained.settled(config), corpus).train.input_shape) != 1:
        return config
    model = config.model.model_copy(update={"name": "mlp", "options": theirs.options})
    optimiser = config.optimiser
    if optimiser.weight_decay is None:
        optimiser = optimiser.model_copy(update={"weight_decay": earlier.config().optimiser.decay})
    return config.model_copy(update={"model": model, "optimiser": optimiser})


def _on_vectors(config: RunConfig, corpus: Corpus, train_on: str) -> Iterator[Candidate]:
    """Yield the networks on inputs, or on features, that the user left open; none on images."""
    model, optimiser = config.model, config.optimiser
    if train_on == FEATURES and corpus.pretrained is None:
        return
    chosen = config.model_copy(update={"model": model.model_copy(update={"train_on": train_on})})
    seen = pretrained.as_trained(chosen, corpus)
    if len(seen.train.input_shape) != 1 or model.name != "auto":
        return
    usual = backbone_options("mlp")["widths"].default
    open_shapes = [()] if seen.has_term_weights else [usual, ()]
    for widths in [tuple(model.options["widths"])] if "widths" in model.options else open_shapes:
        decays: tuple[float, ...] = HIDDEN_DECAYS if widths else LINEAR_DECAYS
        if optimiser.weight_decay is not None or optimiser.name != "sgd":
            decays = (optimiser.decay,)
        yield from (Candidate(train_on, widths, decay, config.train.epochs) for decay in decays)


def _split(config: RunConfig, corpus: Corpus, number: int) -> tuple[Corpus, TrainingRows]:
    """Return the data with rows held out, and the second opinion that candidates may ask for."""
    seed = seed_of(config.train.seed, "head", number)
    group = None if corpus.train.group is None else corpus.train.group.numpy()
    kept, held_out = split_stratified(corpus.train.label.numpy(), HELD_OUT, seed, group)
    parts = replace(corpus, train=corpus.train.subset(kept), validation=corpus.train.subset(held_out), tests={})
    return parts, TrainingRows(config, parts)


def _measure(
    candidate: Candidate,
    config: RunConfig,
    splits: list[tuple[Corpus, TrainingRows]],
    train: Train,
    folder: Path,
) -> Candidate:
    """Return the candidate with its mean loss on the rows held out of each split."""
    chosen = candidate.apply(config)
    shorter = {"epochs": candidate.epochs, "second_opinion": False, "evaluate_every": candidate.epochs}
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
