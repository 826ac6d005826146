"""DivideMix (Li, Socher and Hoi, 2020): two networks split the data for semi-supervised learning.

In each epoch after the warm-up, a two-component Gaussian mixture on a network's losses gives every
sample the probability w that its label is clean; the OTHER network trains with the clean samples
labelled and the rest unlabelled:

    labelled    y^ = sharpen(w y + (1 - w) p),  p its own mean prediction over two augmentations
    unlabelled  q  = sharpen(mean prediction of both networks over two augmentations)
    mixup of all rows, lambda ~ Beta(alpha, alpha), lambda <- max(lambda, 1 - lambda)
    L = cross entropy (labelled) + lambda_u(t) mean squared error (unlabelled)
        + KL(uniform | mean prediction)

Where we differ from the authors' code:

- It is given the noise type and rate (a confidence penalty for asymmetric noise, a loss history at
  90 %, lambda_u from a table by rate). Here `confidence_penalty` and `unlabelled_weight` are
  explicit options; the latter's default, 25, is the script's.
- Labels are guessed in evaluation mode, so that guessing does not move batch-norm statistics (the
  author calls it equally safe).
- If losses do not differ, or fewer than two samples would be labelled, all are labelled.
- Their scripts for Clothing1M and WebVision use unlabelled rows as partners in mixup only: just the
  labelled mixes are forwarded and penalised. That is `only_partners`, which the presets set.
- Their warm-up has twice the batch size and an order of rows for each network: `separate_warm_up`,
  which the presets for Clothing1M and WebVision set. By default both networks share the run's
  batches, so that a step reads its rows once.
- At the end of the run the mixture is fitted to all rows, because each label needs a verdict. Where
  an epoch has a number of batches (Clothing1M) each network draws its rows first and the mixture is
  fitted to those, as in their script.
- The mixture is seeded; lengths are the published fractions of 300 epochs (warm-up 10, ramp of
  lambda_u 16).
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor, nn

from surelabel.core import (
    Batch,
    Candidates,
    Clock,
    Method,
    Pass,
    Problem,
    Rows,
    Run,
    Stage,
    Step,
    Task,
    Verdict,
    View,
    total,
)
from surelabel.core.losses import cross_entropy
from surelabel.methods._advice import warn_of_late_start
from surelabel.methods._mixing import draw_mixing_weight, mix, sharpen
from surelabel.methods._selection import low_component_probability


def uniformity_penalty(logits: Tensor, weight: Tensor) -> Tensor:
    """Return KL(uniform | mean prediction over all ranks' rows); zero for a uniform mean."""
    mean = total((logits.softmax(1) * weight[:, None]).sum(0)) / total(weight.sum()).clamp(min=1)
    num_classes = logits.shape[1]
    return -(mean.clamp(min=1e-8).log() + torch.log(torch.tensor(float(num_classes)))).mean()


class DivideMix(Method):
    """Two networks, a mixture on the losses, and MixMatch on the split.

    Options:
        warm_up: epochs of cross entropy before the first split; default the published fraction,
          10/300, and at least 5
        clean_threshold: labels with a clean probability above it are kept
        temperature: T of the sharpening
        mixup_alpha: alpha of the Beta distribution
        unlabelled_weight: lambda_u; the authors tune it by noise rate: 0 at 20 %, 25 at 50 and 80
          %, 150 for 100 classes
        only_partners: whether unlabelled rows are only partners in mixup and have no loss, as in
          the authors' scripts for Clothing1M and WebVision
        separate_warm_up: whether each network warms up in an order of its own and batches twice as
          large, as in the authors' scripts
        unlabelled_ramp: epochs over which lambda_u grows; default the published fraction, 16/300
        confidence_penalty: reward uncertain predictions in the warm-up; the authors do so for
          asymmetric noise
        strong: whether images also change in colour and geometry and lose a part after the
          warm-up; the authors crop and mirror them
    """

    paper = "Li, Socher and Hoi: DivideMix: Learning with Noisy Labels as Semi-supervised Learning, ICLR"
    year = 2020
    kind = "semi-supervised"
    when = (
        "Accuracy matters more than time, on images with augmentation. A step costs 20 forward and 8 backward passes."
    )
    # For each of the two networks: 2 passes to refine labels, 4 to guess the rest (two views, both
    # networks), and 4 over the mixed rows, which are the ones with a backward pass.
    forward_passes = 20
    backward_passes = 8
    candidates = Candidates(
        "The authors' by noise rate and number of classes; the penalty is theirs for asymmetric noise.",
        unlabelled_weight=(25.0, 0.0, 150.0),
        confidence_penalty=(False, True),
    )

    clean_probability: Tensor

    def __init__(
        self,
        task: Task,
        *,
        warm_up: PositiveInt | None = None,
        clean_threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5,
        temperature: PositiveFloat = 0.5,
        mixup_alpha: PositiveFloat = 4.0,
        unlabelled_weight: NonNegativeFloat = 25.0,
        only_partners: bool = False,
        separate_warm_up: bool = False,
        unlabelled_ramp: PositiveInt | None = None,
        confidence_penalty: bool = False,
        strong: bool = False,
    ) -> None:
        super().__init__(task)
        self.first = task.network()
        self.second = task.network()
        self.warm_up = task.warm_up(10 / 300) if warm_up is None else warm_up
        self.unlabelled_ramp = task.epochs_of(16 / 300) if unlabelled_ramp is None else unlabelled_ramp
        self.clean_threshold, self.temperature, self.mixup_alpha = clean_threshold, temperature, mixup_alpha
        self.unlabelled_weight, self.confidence_penalty, self.strong = unlabelled_weight, confidence_penalty, strong
        self.only_partners, self.separate_warm_up = only_partners, separate_warm_up
        self.register_buffer("clean_probability", torch.ones(2, task.num_samples))

    def stages(self) -> list[Stage]:
        """Train in one stage, whose plan depends on the losses of each epoch."""
        return [Stage("train", self.task.epochs, self.warm_up_step, plan=self.plan, then=self.divide)]

    def advice(self, problem: Problem) -> list[str]:
        """Warn of a warm-up that never ends."""
        if problem != "settings":
            return super().advice(problem)
        default = self.task.warm_up(10 / 300)
        left, by_default = (self.task.epochs - length for length in (self.warm_up, default))
        settings = ("warm_up", self.warm_up, left, default)
        return warn_of_late_start(self.task, *settings, "the data are never split", left_by_default=by_default)

    def plan(self, run: Run) -> list[Pass]:
        """Plan the warm-up, or a split by each network for the other."""
        if run.clock.epoch <= self.warm_up:
            return self.warm_up_plan()
        drawn = [run.draw_rows(name) for name in ("first", "second")]
        self.divide(run, drawn)
        seen = [
            clean if rows is None else clean[rows] for clean, rows in zip(self.clean_probability, drawn, strict=True)
        ]
        run.note("labelled_share", (torch.cat(seen) > self.clean_threshold).float().mean().item())
        by_first, by_second = map(self.split, self.clean_probability, drawn)
        return [Pass(self.first_step, by_second), Pass(self.second_step, by_first)]

    def warm_up_plan(self) -> list[Pass]:
        """Plan a pass for both networks, or one for each."""
        if not self.separate_warm_up:
            return [Pass(self.warm_up_step, {"batch": View()})]
        steps = self.first_warm_up_step, self.second_warm_up_step
        return [Pass(step, {"batch": View(batch_size=2 * self.task.batch_size)}) for step in steps]

    def divide(self, run: Run, drawn: Sequence[Tensor | None] = (None, None)) -> None:
        """Set the (2, N) probability that a label is clean, from each network's losses.

        If rows are drawn for each network, their losses are compared among themselves.
        """
        networks = (self.first, self.second)
        if drawn[0] is None or drawn[1] is None:
            losses = run.collect(
                lambda batch: torch.stack([given_loss(n, batch) for n in networks], 1), View(augment=False)
            )
            self.clean_probability.copy_(torch.stack([low_component_probability(column) for column in losses.t()]))
        else:
            for number, (network, rows) in enumerate(zip(networks, drawn, strict=True)):
                losses = run.collect(partial(given_loss, network), View(rows, augment=False))
                self.clean_probability[number, rows] = low_component_probability(losses)
        self.clean_probability.masked_fill_(self.trusted, 1.0)

    def split(self, clean_probability: Tensor, rows: Tensor | None = None) -> dict[str, View]:
        """Return the labelled view of `rows`, and the unlabelled one if enough for a batch."""
        rows = torch.arange(self.task.num_samples, device=clean_probability.device) if rows is None else rows
        clean = clean_probability[rows] > self.clean_threshold
        if clean.sum() < 2:
            clean = torch.ones_like(clean)
        parts = {"labelled": clean, "unlabelled": ~clean} if (~clean).sum() >= 2 else {"labelled": clean}
        augment: bool | Literal["strong"] = "strong" if self.strong else True
        return {name: View(rows[part], augment, copies=2) for name, part in parts.items()}

    def warm_up_step(self, batch: Batch, _clock: Clock) -> Step:
        """Compute the cross entropy of both networks."""
        return self.warm_up_of(batch, {"first": self.first, "second": self.second})

    def first_warm_up_step(self, batch: Batch, _clock: Clock) -> Step:
        """Compute the cross entropy of the first network."""
        return self.warm_up_of(batch, {"first": self.first})

    def second_warm_up_step(self, batch: Batch, _clock: Clock) -> Step:
        """Compute the cross entropy of the second network."""
        return self.warm_up_of(batch, {"second": self.second})

    def warm_up_of(self, batch: Batch, networks: dict[str, nn.Module]) -> Step:
        """Compute the cross entropy of some networks, with the confidence penalty if wanted."""
        logits = {name: network(batch.x).logits for name, network in networks.items()}
        terms = {name: batch.mean(cross_entropy(z, batch.label)) for name, z in logits.items()}
        if self.confidence_penalty:
            negative_entropy = [(z.softmax(1) * z.log_softmax(1)).sum(1) for z in logits.values()]
            terms["confidence_penalty"] = batch.mean(torch.stack(negative_entropy).sum(0))
        return Step(terms, seen=torch.stack(list(logits.values())).detach().mean(0))

    def first_step(self, batch: Batch, clock: Clock, unlabelled: Batch | None = None) -> Step:
        """Train the first network on the second's split."""
        return self.mix_step(self.first, self.second, self.clean_probability[1], batch, clock, unlabelled)

    def second_step(self, batch: Batch, clock: Clock, unlabelled: Batch | None = None) -> Step:
        """Train the second network on the first's split."""
        return self.mix_step(self.second, self.first, self.clean_probability[0], batch, clock, unlabelled)

    def mix_step(
        self,
        network: nn.Module,
        helper: nn.Module,
        clean: Tensor,
        labelled: Batch,
        clock: Clock,
        unlabelled: Batch | None,
    ) -> Step:
        """Compute the losses of MixMatch on refined and guessed labels."""
        refined = self.refined(network, labelled, clean[labelled.index])
        parts = [(x, refined, labelled.weight) for x in labelled.copies]
        if unlabelled is not None:
            guessed = self.guessed(network, helper, unlabelled)
            parts += [(x, guessed, unlabelled.weight) for x in unlabelled.copies]
        mixes = mix(parts, draw_mixing_weight(self.mixup_alpha, clock), clock)
        if self.only_partners:
            parts, mixes, unlabelled = parts[:2], mixes[:2], None
        logits = network(torch.cat([x for x, _ in mixes])).logits
        outputs = list(zip(logits.split([len(x) for x, _ in mixes]), (target for _, target in mixes), strict=True))

        supervised = [labelled.mean(cross_entropy(z, target)) for z, target in outputs[:2]]
        terms = {"labelled": (supervised[0] + supervised[1]) / 2}
        if unlabelled is not None:
            errors = [unlabelled.mean((z.softmax(1) - target).square().mean(1)) for z, target in outputs[2:]]
            terms["unlabelled"] = self.unlabelled_weight * self.ramp_up(clock) * (errors[0] + errors[1]) / 2
        terms["uniformity"] = uniformity_penalty(logits, torch.cat([weight for _, _, weight in parts]))
        return Step(terms, is_mixed=True)

    def ramp_up(self, clock: Clock) -> float:
        """Return the current share of lambda_u: from 0 after the warm-up to 1."""
        return min(max((clock.progress - self.warm_up) / self.unlabelled_ramp, 0.0), 1.0)

    @torch.no_grad()
    def refined(self, network: nn.Module, batch: Batch, clean: Tensor) -> Tensor:
        """Return (B, K) labels of the clean part: w y + (1 - w) p, sharpened."""
        clean = clean[:, None]
        given = F.one_hot(batch.label, self.task.num_classes)
        return sharpen(clean * given + (1 - clean) * guess([network], batch), self.temperature)

    @torch.no_grad()
    def guessed(self, network: nn.Module, helper: nn.Module, batch: Batch) -> Tensor:
        """Return (B, K) labels of the rest: the mean prediction of both networks, sharpened."""
        return sharpen(guess([network, helper], batch), self.temperature)

    def predict(self, x: Tensor) -> Tensor:
        """Return the softmax of the mean logits, as the authors do."""
        logits: Tensor = (self.first(x).logits + self.second(x).logits) / 2
        return logits.softmax(1)

    def verdict(self, rows: Rows) -> Verdict:
        """Return P(clean), mean over mixtures, and the refined label where it counts as clean."""
        quality = self.clean_probability[:, rows.index].mean(0).clamp(0, 1)
        clean, prediction = quality[:, None], rows.prediction
        refined = clean * F.one_hot(rows.given, self.task.num_classes) + (1 - clean) * prediction
        return Verdict(quality, torch.where(clean > self.clean_threshold, refined, prediction))


def given_loss(network: nn.Module, batch: Batch) -> Tensor:
    """Return (B,) the cross entropy of the given labels."""
    return cross_entropy(network(batch.x).logits, batch.label)


def guess(networks: list[nn.Module], batch: Batch) -> Tensor:
    """Return the (B, K) mean prediction over networks and views, in evaluation mode."""
    was_training = [network.training for network in networks]
    for network in networks:
        network.eval()
    guesses = [network(x).logits.softmax(1) for network in networks for x in batch.copies]
    for network, training in zip(networks, was_training, strict=True):
        network.train(training)
    return torch.stack(guesses).mean(0)
