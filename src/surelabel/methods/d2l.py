"""D2L: Dimensionality-Driven Learning (Ma et al., 2018): watch the dimensionality of the features.

The local intrinsic dimensionality (LID) of a sample follows from the distances r_1 <= ... <= r_k to
its nearest neighbours in a batch of features:

    LID   = -1 / mean over j of log(r_j / r_k)
    LID_e = its mean in epoch e over 1,280 rows, in batches of 128, with k = 20

The mean falls while a network learns, and rises when it begins to memorise wrong labels. The
turning point is the first epoch e whose LID_e exceeds the mean of the w epochs before it by two of
their standard deviations. From then on, with one alpha for all samples,

    alpha_e = exp(-(e / E) LID_e / min LID)
    t = alpha_e y + (1 - alpha_e) onehot(argmax p)        L = -sum t log p

e counts from 0. The features are the input of the classifier, in evaluation mode, without
augmentation, at the start of each epoch. Published values (authors' code, CIFAR-10): the search
starts after 40 of 120 epochs, and w = 5 (the paper's 12 is from memory, unverified).

Where we differ from the authors' code:

- The loss before the turning point is cross entropy, as in the paper; their code later changed to
  symmetric cross entropy.
- There is no roll-back to the epoch before the turning point; theirs loads the weights it already
  has.
- Distances have a floor, for duplicates. A LID that is not finite and positive is replaced by the
  one before, as in theirs.
- With fewer than 1,280 rows all are used, and short runs have a shorter window.
- The smallest LID is taken over all epochs up to the present one, as in their code (in the paper,
  over those before it; from memory, unverified). The standard deviation of the window divides by
  w; we did not check which one theirs is.

The verdict is the default one, the running mean of p at the given label; the method keeps no state
per sample.

Where it fails: on digits with an MLP (40 % symmetric noise, 100 epochs, seed 0) it ends where
cross entropy does, at 0.70. The dimensionality rises from the third epoch on (6.5, then 10 in
epoch 9 and 16 at the end), so there is no fall to turn from. With the published start the turning
point is found in epoch 40, when all wrong labels are memorised. With start = 0 it is epoch 10,
when a third are, and alpha then stays above 0.8 for epochs because e / E is small: the targets
follow the labels until the rest are memorised too.
"""

import math

import torch
import torch.nn.functional as F
from pydantic import NonNegativeInt
from torch import Tensor

from surelabel.core import Batch, Candidates, Clock, Method, Pass, Problem, Run, Stage, Step, Task, View
from surelabel.core.losses import cross_entropy
from surelabel.methods._advice import warn_of_late_start

PUBLISHED_START_SHARE = 40 / 120
NUM_ROWS, CHUNK, NEIGHBOURS, WINDOW = 1280, 128, 20, 5
SMALLEST_RATIO = 1e-8
"""Added to r_j / r_k, because a duplicate has r_j = 0."""
SMALLEST_DISTANCE = 1e-12
"""A floor of r_k, which is 0 if all neighbours are duplicates."""


def local_dimension(distances: Tensor) -> Tensor:
    """Return the LID (n,) from ascending neighbour distances (n, k); inf if all k are equal."""
    ratio = distances / distances[:, -1:].clamp(min=SMALLEST_DISTANCE)
    return -1 / (ratio + SMALLEST_RATIO).clamp(max=1).log().mean(1)


def mean_dimension(features: Tensor, neighbours: int = NEIGHBOURS) -> float:
    """Return the mean LID of features (n, M) among themselves; NaN for fewer than three rows."""
    if len(features) < 3:
        return math.nan
    features = features.double()
    distances = torch.cdist(features, features, compute_mode="donot_use_mm_for_euclid_dist")
    distances.fill_diagonal_(torch.inf)  # a sample is not its own neighbour
    nearest = distances.topk(min(neighbours, len(features) - 1), largest=False).values
    return float(local_dimension(nearest).mean())


def is_turning(history: Tensor, window: int) -> bool:
    """Return whether the last LID exceeds the mean of the window before it by two deviations."""
    if len(history) <= window:
        return False
    before = history[-1 - window : -1]
    return bool(history[-1] - before.mean() > 2 * before.std(correction=0))


class D2L(Method):
    """Cross entropy whose targets move to the predictions once feature dimensionality rises.

    Options:
        start: epochs before the search for the turning point begins; default the published
          fraction, 40/120
    """

    paper = "Ma et al.: Dimensionality-Driven Learning with Noisy Labels, ICML"
    year = 2018
    kind = "label correction"
    when = (
        "You study the dimensionality of features during training. On easy data it finds the turning point too "
        "late and ends like cross entropy."
    )
    candidates = Candidates("The published share, and a search from the first epoch.", start=(None, 0))

    dimension: Tensor
    turned: Tensor
    alpha: Tensor

    def __init__(self, task: Task, *, start: NonNegativeInt | None = None) -> None:
        super().__init__(task)
        self.start = round(PUBLISHED_START_SHARE * task.epochs) if start is None else start
        self.window = min(WINDOW, max(2, task.epochs // 4))
        self.network = task.network()
        self.register_buffer("dimension", torch.full((task.epochs,), torch.nan, dtype=torch.float64))
        self.register_buffer("turned", torch.zeros((), dtype=torch.bool))
        self.register_buffer("alpha", torch.ones(()))

    def stages(self) -> list[Stage]:
        """Return one stage, whose plan measures the dimensionality."""
        return [Stage("train", self.task.epochs, self.step, plan=self.plan)]

    def advice(self, problem: Problem) -> list[str]:
        """Warn of a search that never begins."""
        if problem != "settings":
            return super().advice(problem)
        default = round(PUBLISHED_START_SHARE * self.task.epochs)
        left, by_default = (self.task.epochs - start - self.window for start in (self.start, default))
        settings = ("start", self.start, left, default)
        return warn_of_late_start(self.task, *settings, "no label can change", left_by_default=by_default)

    def plan(self, run: Run) -> list[Pass]:
        """Measure the dimensionality, look for the turning point, and set alpha."""
        epoch = run.clock.epoch - 1
        self.dimension[epoch] = self.measure(run, epoch)
        history = self.dimension[: epoch + 1]
        if epoch >= self.start + self.window and is_turning(history, self.window):
            self.turned.fill_(True)
        if self.turned:
            expansion = float(history[-1] / history[history.isfinite()].amin())
            self.alpha.fill_(math.exp(-epoch / self.task.epochs * expansion))
        run.note("dimension", float(history[-1]))
        run.note("alpha", float(self.alpha))
        return [Pass(self.step, {"batch": View()})]

    def measure(self, run: Run, epoch: int) -> float:
        """Return the mean LID of some rows, or the last one if it is not a positive number."""
        rows = torch.randperm(self.task.num_samples, generator=run.rng)[:NUM_ROWS]
        features = run.collect(lambda batch: self.network(batch.x).features.flatten(1), View(rows, augment=False))
        whole = features[: len(features) // CHUNK * CHUNK] if len(features) >= CHUNK else features
        values = [mean_dimension(chunk) for chunk in torch.split(whole, CHUNK)]
        value = sum(values) / max(len(values), 1)
        if math.isfinite(value) and value > 0:
            return value
        return float(self.dimension[epoch - 1]) if epoch else 1.0

    def step(self, batch: Batch, _clock: Clock) -> Step:
        """Return cross entropy to alpha y + (1 - alpha) onehot(argmax p)."""
        logits = self.network(batch.x).logits
        given = F.one_hot(batch.label, self.task.num_classes)
        guess = F.one_hot(logits.argmax(1), self.task.num_classes)
        alpha = torch.where(self.trusted[batch.index], 1.0, self.alpha)[:, None]
        target = alpha * given + (1 - alpha) * guess
        return Step({"cross_entropy": batch.mean(cross_entropy(logits, target))}, seen=logits.detach())
