"""Dynamic bootstrapping under a beta mixture (Arazo et al., 2019): believe a label as far as its loss looks clean, and mix.

At the start of every epoch a two-component beta mixture is fitted to all samples' losses, scaled to [0, 1] between their 5th
and 95th percentile; B_i is the posterior of the component with the larger mean, "wrong label". After a warm-up of plain mixup:

    target      t_i = (1 - B_i) y_i + B_i z_i,   z the prediction for the unmixed sample: argmax (M-DYR-H) or softmax (M-DYR-S)
    static      x = l x_i + (1 - l) x_j,  aim at l t_i + (1 - l) t_j,  l ~ Beta(32, 32)
    dynamic     MD-DYR-SH: x = d x_i + (1 - d) x_j,  d = (1 - B_i) / ((1 - B_i) + (1 - B_j)),  aim at (t_i + t_j) / 2 with
                z = softmax(logits / T), T from 1 to 0.001; for the first epochs of it (5 of 300) t is the given label
    L = CE(x, aim) + KL(uniform | mean prediction over the batch)

Mixture: 10 steps of EM from Beta(1, 2) and Beta(2, 1); the maximisation matches weighted mean and variance. The posterior is
tabled at 100 points and kept at its maximum to the right of it: very large losses are not clean.

Defaults are the authors': hard, mixup alpha 32, weight 1 of the KL term, warm-up 105 of 300 epochs.

Where we differ from the authors' code:

- B comes from the losses that the mixture was fitted to, once an epoch, on samples as they are (theirs: the mixture from
  augmented samples, and B from a third forward pass in evaluation mode in every step).
- Components are told apart by their means, which EM may exchange; variances and parameters have floors; losses that do not differ
  mean that every label is right.
- The KL term counts the real number of classes (their soft variant always 10), and hard and soft share the weights l (theirs
  has 1/2 in the soft one, which l ~ Beta(32, 32) is nearly always).
- max(l, 1 - l) is used for l: exchanging them is exchanging a permutation and its inverse, so it changes nothing in distribution.
- T falls linearly over the epochs that are left (theirs: over 89 epochs, then constant).

Verdict: the default, running mean of p at the given label, which on digits ranks labels better than 1 - B of the final network
(AUROC about 0.96 against 0.84); B has few distinct values and forgets the early epochs. A corrected label is the target (1 - B)
y + B p of the final network.
"""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor

from surelabel.core import Batch, Clock, Method, Pass, Rows, Run, Stage, Step, Task, Verdict, View
from surelabel.core.losses import cross_entropy
from surelabel.methods._mixing import mixed, mixing_share
from surelabel.methods.dividemix import uniformity_penalty

PUBLISHED_WARM_UP_SHARE = 105 / 300
PUBLISHED_DYNAMIC_SHARE = 5 / 300
NUM_STEPS = 10
"""Of EM."""
NUM_BINS = 100
"""Of the table of the posterior."""
EDGE = 1e-4
"""Values stay this far inside (0, 1), where beta densities may be infinite, and so does B."""
INSIDE = 1e-3
"""Where losses outside the two percentiles are put, published."""
SMALLEST_SPAN = 1e-6
"""Losses closer together than this do not differ."""
SMALLEST_DENSITY = 1e-12
"""Keeps responsibilities defined where both components vanish."""
SMALLEST_VARIANCE = 1e-6
"""A component that has shrunk to a point must not divide by zero."""
SMALLEST_PARAMETER = 1e-2
"""A variance above m (1 - m) would make alpha and beta negative."""
COLDEST = 1e-3
"""T at the end of training, published."""

Variant = Literal["hard", "soft", "dynamic"]


class BetaPair(NamedTuple):
    """Two beta components, (2,) each, the second with the larger mean."""

    alpha: Tensor
    beta: Tensor
    weight: Tensor


def matched(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Alpha and beta, (2,) each, with the mean and variance of (n,) x under (2, n) weights."""
    share = weight / weight.sum(1, keepdim=True).clamp(min=SMALLEST_DENSITY)
    mean = (share * x).sum(1).clamp(EDGE, 1 - EDGE)
    variance = (share * (x - mean[:, None]).square()).sum(1).clamp(min=SMALLEST_VARIANCE)
    alpha = (mean * (mean * (1 - mean) / variance - 1)).clamp(min=SMALLEST_PARAMETER)
    return alpha, (alpha * (1 - mean) / mean).clamp(min=SMALLEST_PARAMETER)


def responsibilities(x: Tensor, pair: BetaPair) -> Tensor:
    """(2, n) posteriors of the two components, which sum to one."""
    component = torch.distributions.Beta(pair.alpha[:, None], pair.beta[:, None], validate_args=False)
    density = (pair.weight[:, None] * component.log_prob(x).exp()).clamp(min=SMALLEST_DENSITY)
    return density / density.sum(0)


def fit_beta_pair(x: Tensor, num_steps: int = NUM_STEPS) -> BetaPair:
    """EM on (n,) values in [0, 1]; ten steps are the published choice, converged or not."""
    x = x.double().clamp(EDGE, 1 - EDGE)
    pair = BetaPair(x.new_tensor([1.0, 2.0]), x.new_tensor([2.0, 1.0]), x.new_tensor([0.5, 0.5]))
    for _ in range(num_steps):
        posterior = responsibilities(x, pair)
        pair = BetaPair(*matched(x, posterior), posterior.mean(1))
    order = (pair.alpha / (pair.alpha + pair.beta)).argsort(stable=True)
    return BetaPair(*(values[order] for values in pair))


def posterior_table(pair: BetaPair) -> Tensor:
    """(100,) posterior of the component with the larger mean, kept at its maximum to the right of it."""
    points = torch.linspace(EDGE, 1 - EDGE, NUM_BINS, dtype=torch.float64, device=pair.alpha.device)
    table = responsibilities(points, pair)[1]
    top = table.argmax()
    table[top:] = table[top]
    return table


def wrong_probability(losses: Tensor) -> Tensor:
    """(N,) B, the posterior that a label is wrong, from the losses of all samples; 0 if losses do not differ."""
    values = losses.detach().double()
    if len(values) < 2 or not bool(values.isfinite().all()):
        return torch.zeros_like(losses)
    ordered = values.sort().values
    low, high = ordered[int(0.05 * (len(values) - 1))], ordered[round(0.95 * (len(values) - 1))]
    if float(high - low) < SMALLEST_SPAN:
        return torch.zeros_like(losses)
    scaled = ((values - low) / (high - low)).clamp(INSIDE, 1 - INSIDE)
    inside = (values >= low) & (values <= high)
    table = posterior_table(fit_beta_pair(scaled[inside] if inside.any() else scaled))
    bins = (NUM_BINS * scaled).long().clamp(0, NUM_BINS - 1)
    return table[bins].clamp(EDGE, 1 - EDGE).to(losses)


class BetaMixture(Method):
    """Labels are replaced by predictions as far as a beta mixture on the losses calls them wrong, under mixup.

    Options:
        variant: hard (M-DYR-H), soft (M-DYR-S) or dynamic (MD-DYR-SH, for extreme noise)
        warm_up: epochs of plain mixup before the first mixture is used; default the published share, 105/300
        mixup_alpha: alpha of the Beta distribution that inputs are mixed with
        uniformity_weight: eta, weight of the KL term that keeps all classes in use
    """

    paper = "Arazo et al.: Unsupervised Label Noise Modeling and Loss Correction, ICML"
    year = 2019
    kind = "label correction"
    forward_passes = 2

    wrong: Tensor

    def __init__(
        self,
        task: Task,
        *,
        variant: Variant = "hard",
        warm_up: PositiveInt | None = None,
        mixup_alpha: PositiveFloat = 32.0,
        uniformity_weight: NonNegativeFloat = 1.0,
    ) -> None:
        super().__init__(task)
        self.variant, self.mixup_alpha, self.uniformity_weight = variant, mixup_alpha, uniformity_weight
        self.warm_up = task.warm_up(PUBLISHED_WARM_UP_SHARE) if warm_up is None else warm_up
        self.on_given = task.share(PUBLISHED_DYNAMIC_SHARE) if variant == "dynamic" else 0
        self.network = task.network()
        self.register_buffer("wrong", torch.zeros(task.num_samples))

    def stages(self) -> list[Stage]:
        """One stage; the mixture is fitted in its plan."""
        return [Stage("train", self.task.epochs, self.warm_up_step, plan=self.plan, then=self.fit_mixture)]

    def plan(self, run: Run) -> list[Pass]:
        """Mixup, or bootstrapping with a mixture fitted now."""
        if run.clock.epoch <= self.warm_up:
            return [Pass(self.warm_up_step, {"batch": View()})]
        self.fit_mixture(run)
        run.note("noise_rate", self.wrong.mean().item())
        return [Pass(self.step, {"batch": View()})]

    def losses(self, batch: Batch) -> Tensor:
        """(B,) cross entropy at the given label."""
        return cross_entropy(self.network(batch.x).logits, batch.label)

    def warm_up_step(self, batch: Batch, clock: Clock) -> Step:
        """Plain mixup."""
        given = F.one_hot(batch.label, self.task.num_classes).float()
        ((x, target),) = mixed([(batch.x, given, batch.weight)], mixing_share(self.mixup_alpha, clock), clock)
        return Step({"mixup": batch.mean(cross_entropy(self.network(x).logits, target))})

    def step(self, batch: Batch, clock: Clock) -> Step:
        """Mixup on labels that are replaced as far as they look wrong."""
        with torch.no_grad():
            seen = self.network(batch.x).logits
        target = self.bootstrapped(batch, clock, seen)
        if self.variant == "dynamic":
            x, target = self.mixed_by_trust(batch, target, clock)
        else:
            ((x, target),) = mixed([(batch.x, target, batch.weight)], mixing_share(self.mixup_alpha, clock), clock)
        logits = self.network(x).logits
        terms = {
            "bootstrap": batch.mean(cross_entropy(logits, target)),
            "uniformity": self.uniformity_weight * uniformity_penalty(logits, batch.weight),
        }
        return Step(terms, seen=seen)

    def bootstrapped(self, batch: Batch, clock: Clock, logits: Tensor) -> Tensor:
        """(B, K) targets (1 - B) y + B z."""
        given = F.one_hot(batch.label, self.task.num_classes).to(logits.dtype)
        if clock.epoch <= self.warm_up + self.on_given:
            return given
        if self.variant == "hard":
            guess = F.one_hot(logits.argmax(1), self.task.num_classes).to(logits.dtype)
        else:
            guess = (logits / self.temperature(clock)).softmax(1)
        wrong = self.wrong[batch.index][:, None]
        return (1 - wrong) * given + wrong * guess

    def temperature(self, clock: Clock) -> float:
        """T: 1, and in the dynamic variant linear to its last value in the last epoch."""
        if self.variant != "dynamic":
            return 1.0
        first = self.warm_up + self.on_given + 1
        return 1 - (1 - COLDEST) * min(max((clock.epoch - first) / max(clock.epochs - first, 1), 0.0), 1.0)

    def mixed_by_trust(self, batch: Batch, target: Tensor, clock: Clock) -> tuple[Tensor, Tensor]:
        """Inputs mixed by how far each partner's label is believed, and the mean of both targets."""
        trust = 1 - self.wrong[batch.index].clamp(EDGE, 1 - EDGE)
        # A share of 0 is the partner itself; trust travels as one more column of the target.
        ((other_x, other),) = mixed([(batch.x, torch.cat([target, trust[:, None]], 1), batch.weight)], 0.0, clock)
        share = (trust / (trust + other[:, -1])).view(-1, *[1] * (batch.x.dim() - 1))
        return share * batch.x.to(other_x.dtype) + (1 - share) * other_x, (target + other[:, :-1]) / 2

    def fit_mixture(self, run: Run) -> None:
        """Set B from the losses that the network has now."""
        losses = run.collect(self.losses, View(augment=False))
        self.wrong.copy_(wrong_probability(losses).masked_fill(self.trusted, 0.0))

    def verdict(self, rows: Rows) -> Verdict:
        """Return the default quality, and the target (1 - B) y + B p of the final network."""
        wrong = self.wrong[rows.index][:, None]
        given = F.one_hot(rows.given, self.task.num_classes)
        return Verdict(rows.mean_given_probability, (1 - wrong) * given + wrong * rows.prediction)
