"""SSR: Sample Selection and Relabelling (Feng, Tzimiropoulos and Patras, 2022), and SSR+.

At the start of every epoch, all rows are looked at in evaluation mode, z being their features:

    relabel  y' = argmax p if max p > theta_r, else the given y     from the given y each time
    vote     s_k = (share of k among the y' of the 200 nearest by cosine, itself included) / pi_k
             pi is the share of each class among all y'; s is divided by its sum
    select   a row is clean iff s_y' >= theta_s max_k s_k           theta_s = 1: the vote agrees

Then one step for each batch of all rows, in which clean rows are drawn evenly by class y':

    L = CE of mixup, with y', over two strong views of the clean rows; lambda ~ Beta(4, 4)
      + lambda_fc (-cos(h(g(f(x'))), g(f(x))))         SSR+: over all rows, clean or not

f is the network up to its features, x a weak and x' a strong view; no gradient flows through
g(f(x)). g and h are two-layer heads, M-256-128 and 128-256-128 with batch norm. There is no warm-up
and no noise rate. Defaults are the authors' (MrChenFeng/SSR_BMVC2022 on GitHub), which is SSR+;
`consistency_weight=0` is SSR. They have theta_r 0.9, 0.8 for much noise and for CIFAR-100, 0.95 for
WebVision and ANIMAL-10N and 0.99 for Clothing1M.

Where we differ from the authors' code:

- The strong view is that of this package, in place of AutoAugment.
- The weak view has no gradient to give, so it is computed without one.
- If fewer than two rows are clean, all are.
- Rows whose label a person has confirmed keep it and are always clean.
- Where an epoch has a number of batches, the look at all rows stays.

The votes take N^2 M multiplications an epoch. With fewer rows in a class than neighbours that
vote, some of them are always of another class; pi makes up for it as long as there are fewer
neighbours than rows.

The verdict is the default, the running mean of p at the given label (of the weak views; of looks
at all rows without the consistency term). On digits (100 epochs, seed 0) its AUROC is 0.998 with
40 % symmetric noise and 0.969 with 30 % pair flips, that of the vote for the given label 0.996 and
0.957. The last accuracy is 0.978 and 0.928 there, and 0.972 and 0.958 with theta_r 0.8.
"""

from typing import Annotated, Literal, cast

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor, nn

from surelabel.core import Batch, Candidates, Clock, Method, Pass, Problem, Rows, Run, Stage, Step, Task, Verdict, View
from surelabel.core.losses import cross_entropy
from surelabel.methods._mixing import draw_mixing_weight, mix

PROJECTION, HIDDEN = 128, 256
"""Widths of the heads."""
CHUNK = 1024
"""Rows whose neighbours are found at once."""
SMALLEST_SHARE = 1e-10
"""Keeps the share of a class without rows, which has no votes either, above zero."""


def make_head(inputs: int) -> nn.Sequential:
    """Make a two-layer head with batch norm."""
    layers = (nn.Linear(inputs, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, PROJECTION))
    return nn.Sequential(*layers)


class Heads(nn.Module):
    """g and h: what features are compared by."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.project, self.predict = make_head(num_features), make_head(PROJECTION)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return (B, 128) g(f) and h(g(f))."""
        projected = self.project(features)
        return projected, self.predict(projected)


def count_votes(features: Tensor, label: Tensor, num_classes: int, neighbours: int) -> Tensor:
    """Return (N, K) shares of each label among a row's nearest by the cosine of (N, M) features."""
    features = F.normalize(features, dim=1)
    votes = []
    for rows in torch.split(features, CHUNK):
        nearest = (rows @ features.t()).topk(min(neighbours, len(features)), dim=1).indices
        votes.append(F.one_hot(label[nearest], num_classes).float().mean(1))
    return torch.cat(votes)


def balance_votes(votes: Tensor, label: Tensor) -> Tensor:
    """Return (N, K) votes divided by the share of their class among the (N,) labels, normalised."""
    share = label.bincount(minlength=votes.shape[1]) / len(label)
    votes = votes / share.clamp(min=SMALLEST_SHARE)
    return votes / votes.sum(1, keepdim=True)


def draw_evenly(rows: Tensor, label: Tensor, generator: torch.Generator) -> Tensor:
    """Return positions from (n,) `rows` with all classes of (n,) `label` as often as the largest.

    A row of a smaller class is repeated; which ones are repeated once more is drawn.
    """
    counts = label.bincount()
    parts = []
    for class_rows in (rows[label == k] for k in counts.nonzero().flatten().tolist()):
        order = class_rows[torch.randperm(len(class_rows), generator=generator).to(rows.device)]
        parts.append(order.repeat(-(-int(counts.max()) // len(order)))[: int(counts.max())])
    return torch.cat(parts)


class SSR(Method):
    """Rows are relabelled by sure predictions, and selected by the votes of their neighbours.

    Options:
        relabel_threshold: theta_r, predictions above it replace the label; the authors have 0.8 to
          0.99, smaller for more noise; 1 never relabels
        vote_threshold: theta_s, the fraction of the best class's votes that a label needs to be
          clean
        neighbours: how many rows vote, the row itself included
        consistency_weight: lambda_fc, the weight of equal features for two views of a row; 0 is SSR
          and 1 SSR+
        mixup_alpha: alpha of the Beta distribution
        strong: whether images also change in colour and geometry and lose a part, as in the
          authors' code
    """

    paper = "Feng et al.: SSR: An Efficient and Robust Framework for Learning with Unknown Label Noise, BMVC"
    year = 2022
    kind = "selection"
    when = (
        "Images with strong augmentation and an unknown noise rate: neighbours vote on every label. A step costs "
        "5 forward and 3 backward passes."
    )
    candidates = Candidates(
        "The authors' default, for 100 classes and high noise, and for WebVision.", relabel_threshold=(0.9, 0.8, 0.95)
    )
    # Two mixed views, two views of all rows of which the weak has no gradient, and the look.
    forward_passes = 5
    backward_passes = 3

    label: Tensor
    """(N,) y'."""
    clean: Tensor
    vote: Tensor
    """(N,) s at the given label."""

    def __init__(
        self,
        task: Task,
        *,
        relabel_threshold: Annotated[float, Field(gt=0, le=1)] = 0.9,
        vote_threshold: Annotated[float, Field(ge=0, le=1)] = 1.0,
        neighbours: PositiveInt = 200,
        consistency_weight: NonNegativeFloat = 1.0,
        mixup_alpha: PositiveFloat = 4.0,
        strong: bool = True,
    ) -> None:
        super().__init__(task)
        self.relabel_threshold, self.vote_threshold, self.neighbours = relabel_threshold, vote_threshold, neighbours
        self.consistency_weight, self.mixup_alpha, self.strong = consistency_weight, mixup_alpha, strong
        self.network = task.network()
        if consistency_weight:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(task.seed)
                self.heads = Heads(cast(int, self.network.num_features))
        self.register_buffer("label", task.given.clone())
        self.register_buffer("clean", torch.ones(task.num_samples, dtype=torch.bool))
        self.register_buffer("vote", torch.ones(task.num_samples))

    def stages(self) -> list[Stage]:
        """Train in one stage, whose rows depend on the votes of each epoch."""
        return [Stage("train", self.task.epochs, self.mix_step, plan=self.plan, then=self.select)]

    def plan(self, run: Run) -> list[Pass]:
        """Relabel and select, and plan a pass over all rows with clean ones beside them."""
        self.select(run)
        rows = (self.clean if self.clean.sum() > 1 else torch.ones_like(self.clean)).nonzero().squeeze(1)
        rows = draw_evenly(rows, self.label[rows], run.rng)
        whole = View(augment="strong_copies", copies=2) if self.strong else View(copies=2)
        if not self.consistency_weight:
            whole = View(augment=False)  # it only counts the steps
        augment: bool | Literal["strong"] = "strong" if self.strong else True
        return [Pass(self.mix_step, {"batch": whole, "clean": View(rows, augment, copies=2)})]

    @torch.no_grad()
    def select(self, run: Run) -> None:
        """Set y', the vote for each given label, and which rows are clean."""
        num_classes = self.task.num_classes
        seen = run.collect(self.look, View())
        sureness, predicted = seen[:, :num_classes].max(1)
        relabelled = (sureness > self.relabel_threshold) & ~self.trusted
        self.label.copy_(torch.where(relabelled, predicted, self.given))
        votes = count_votes(seen[:, num_classes:], self.label, num_classes, self.neighbours)
        votes = balance_votes(votes, self.label)
        at_label, at_given = (votes.gather(1, one[:, None]).squeeze(1) for one in (self.label, self.given))
        self.clean.copy_((at_label / votes.amax(1) >= self.vote_threshold) | self.trusted)
        self.vote.copy_(at_given)
        run.note("clean_share", self.clean.float().mean().item())
        run.note("relabelled_share", (self.label != self.given).float().mean().item())

    def look(self, batch: Batch) -> Tensor:
        """Return (B, K + M): p and the features."""
        outputs = self.network(batch.x)
        return torch.cat([outputs.logits.softmax(1), outputs.features.flatten(1)], 1)

    def mix_step(self, batch: Batch, clock: Clock, clean: Batch) -> Step:
        """Compute the cross entropy of mixed clean rows, and the agreement of all rows' views."""
        target = F.one_hot(self.label[clean.index], self.task.num_classes).float()
        parts = [(x, target, clean.weight) for x in clean.copies]
        mixes = mix(parts, draw_mixing_weight(self.mixup_alpha, clock), clock)
        logits = self.network(torch.cat([x for x, _ in mixes])).logits.split(clean.num_rows)
        losses = [clean.mean(cross_entropy(z, mixed)) for z, (_, mixed) in zip(logits, mixes, strict=True)]
        terms = {"mixup": (losses[0] + losses[1]) / 2}
        if not self.consistency_weight:
            return Step(terms, is_mixed=True)
        weak, strong = batch.copies
        with torch.no_grad():
            outputs = self.network(weak)
            anchor, _ = self.heads(outputs.features)
        _, predicted = self.heads(self.network(strong).features)
        agreement = F.cosine_similarity(predicted, anchor)
        terms["consistency"] = -self.consistency_weight * batch.mean(agreement)
        return Step(terms, seen=outputs.logits, is_mixed=True)

    def predict(self, x: Tensor) -> Tensor:
        """Return the network's class probabilities (B, K)."""
        p: Tensor = self.network(x).logits.softmax(1)
        return p

    def advice(self, problem: Problem) -> list[str]:
        """Warn of a vote of all rows, which is a tie."""
        if problem != "settings" or self.neighbours < self.task.num_samples:
            return super().advice(problem)
        enough = max(1, self.task.num_samples // self.task.num_classes // 2)
        return [
            f"method.neighbours={self.neighbours} of {self.task.num_samples} rows can never doubt a label, because all "
            f"rows vote for each; use neighbours={enough}"
        ]

    def verdict(self, rows: Rows) -> Verdict:
        """Return the default verdict; the evidence is the vote for the given label."""
        return Verdict(rows.mean_given_probability, rows.prediction, {"vote": self.vote[rows.index]})
