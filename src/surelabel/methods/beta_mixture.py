"""Dynamic bootstrapping under a beta mixture (Arazo et al., 2019), with mixup.

At the start of every epoch a two-component beta mixture is fitted to all samples' losses, scaled to
[0, 1] between their 5th and 95th percentile; B_i is the posterior of the component with the larger
mean, "wrong label". After a warm-up of plain mixup:

    target      t_i = (1 - B_i) y_i + B_i z_i,   z the prediction for the unmixed sample: argmax
                (M-DYR-H) or softmax (M-DYR-S)
    static      x = l x_i + (1 - l) x_j,  aim at l t_i + (1 - l) t_j,  l ~ Beta(32, 32)
    dynamic     MD-DYR-SH: x = d x_i + (1 - d) x_j,  d = (1 - B_i) / ((1 - B_i) + (1 - B_j)),
                aim at (t_i + t_j) / 2 with z = softmax(logits / T), T from 1 to 0.001; in its
                first epochs (5 of 300) t is the given label
    L = CE(x, aim) + KL(uniform | mean prediction over the batch)

Mixture: 10 steps of EM from Beta(1, 2) and Beta(2, 1); the maximisation step matches the weighted
mean and variance. The posterior is tabulated at 100 points and stays at its maximum to the right of
it: very large losses are not clean.

Defaults are the authors': hard, mixup alpha 32, weight 1 of the KL term, warm-up 105 of 300 epochs.

Where we differ from the authors' code:

- B comes from the losses that the mixture was fitted to, once an epoch, without augmentation
  (theirs: the mixture from augmented samples, and B from a third forward pass in every step).
- Components are identified by their means, which EM may exchange; variances and parameters have
  floors; if losses do not differ, every label counts as right.
- The KL term uses the actual number of classes (their soft variant always 10), and hard and soft
  share the weights l (theirs has 1/2 in the soft one, which l ~ Beta(32, 32) nearly always is).
- max(l, 1 - l) replaces l: exchanging them exchanges a permutation and its inverse, so it changes
  nothing in distribution.
- T falls linearly over the remaining epochs (theirs: over 89 epochs, then constant).

Verdict: the default, the running mean of p at the given label, which on digits ranks labels better
than 1 - B of the final network (AUROC about 0.96 against 0.84); B has few distinct values and
forgets the early epochs. A corrected label is the target (1 - B) y + B p of the final network.
"""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor

from surelabel.core import Batch, Candidates, Clock, Method, Pass, Problem, Rows, Run, Stage, Step, Task, Verdict, View
from surelabel.core.losses import cross_entropy
from surelabel.methods._advice import warn_of_late_start
from surelabel.methods._mixing import draw_mixing_weight, mix
from surelabel.methods.dividemix import uniformity_penalty

PUBLISHED_WARM_UP_SHARE = 105 / 300
PUBLISHED_DYNAMIC_SHARE = 5 / 300
NUM_STEPS = 10
"""Steps of EM."""
NUM_BINS = 100
"""Points at which the posterior is tabulated."""
EDGE = 1e-4
"""Distance that values and B keep from 0 and 1, where beta densities may be infinite."""
INSIDE = 1e-3
"""Distance from 0 and 1 to which losses outside the two percentiles are clamped; published."""
SMALLEST_SPAN = 1e-6
"""Losses in a smaller span count as equal."""
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
    """Return (2,) alpha and (2,) beta with the moments of (n,) x under (2, n) weights."""
    share = weight / weight.sum(1, keepdim=True).clamp(min=SMALLEST_DENSITY)
    mean = (share * x).sum(1).clamp(EDGE, 1 - EDGE)
    variance = (share * (x - mean[:, None]).square()).sum(1).clamp(min=SMALLEST_VARIANCE)
    alpha = (mean * (mean * (1 - mean) / variance - 1)).clamp(min=SMALLEST_PARAMETER)
    return alpha, (alpha * (1 - mean) / mean).clamp(min=SMALLEST_PARAMETER)


def responsibilities(x: Tensor, pair: BetaPair) -> Tensor:
    """Return (2, n) posteriors of the two components, which sum to one."""
    component = torch.distributions.Beta(pair.alpha[:, None], pair.beta[:, None], validate_args=False)
    log_density: Tensor = component.log_prob(x)  # type: ignore[no-untyped-call]  # torch does not annotate it
    density = (pair.weight[:, None] * log_density.exp()).clamp(min=SMALLEST_DENSITY)
    return density / density.sum(0)


def fit_beta_pair(x: Tensor, num_steps: int = NUM_STEPS) -> BetaPair:
    """Fit two components to (n,) values in [0, 1] by EM, in the published ten steps."""
    x = x.double().clamp(EDGE, 1 - EDGE)
    pair = BetaPair(x.new_tensor([1.0, 2.0]), x.new_tensor([2.0, 1.0]), x.new_tensor([0.5, 0.5]))
    for _ in range(num_steps):
        posterior = responsibilities(x, pair)
        pair = BetaPair(*matched(x, posterior), posterior.mean(1))
    order = (pair.alpha / (pair.alpha + pair.beta)).argsort(stable=True)
    return BetaPair(*(values[order] for values in pair))


def posterior_table(pair: BetaPair) -> Tensor:
    """Return the (100,) posterior of the component with the larger mean, flat after its maximum."""
    points = torch.linspace(EDGE, 1 - EDGE, NUM_BINS, dtype=torch.float64, device=pair.alpha.device)
    table = responsibilities(points, pair)[1]
    top = table.argmax()
    table[top:] = table[top]
    return table


def wrong_probability(losses: Tensor) -> Tensor:
    """Return (N,) B, the posterior that a label is wrong; 0 if losses do not differ."""
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
    """Mixup on labels that are replaced in proportion to their probability of being wrong.

    Options:
        variant: hard (M-DYR-H), soft (M-DYR-S) or dynamic (MD-DYR-SH, for extreme noise)
        warm_up: epochs of plain mixup before the first mixture is used; default the published
          share, 105/300
        mixup_alpha: alpha of the Beta distribution that inputs are mixed with
        uniformity_weight: eta, weight of the KL term that keeps all classes in use
    """

    paper = "Arazo et al.: Unsupervised Label Noise Modeling and Loss Correction, ICML"
    year = 2019
    kind = "label correction"
    when = (
        "There is much symmetric noise and inputs can be mixed (images, features). Use `variant=dynamic` for "
        "extreme noise."
    )
    forward_passes = 2
    candidates = Candidates("The paper's variants.", variant=("hard", "soft", "dynamic"))

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
        self.on_given = task.epochs_of(PUBLISHED_DYNAMIC_SHARE) if variant == "dynamic" else 0
        self.network = task.network()
        self.register_buffer("wrong", torch.zeros(task.num_samples))

    def stages(self) -> list[Stage]:
        """Train in one stage, whose plan fits the mixture."""
        return [Stage("train", self.task.epochs, self.warm_up_step, plan=self.plan, then=self.fit_mixture)]

    def advice(self, problem: Problem) -> list[str]:
        """Warn of a warm-up that never ends."""
        if problem != "settings":
            return super().advice(problem)
        default = self.task.warm_up(PUBLISHED_WARM_UP_SHARE)
        left, by_default = (self.task.epochs - length for length in (self.warm_up, default))
        settings = ("warm_up", self.warm_up, left, default)
        return warn_of_late_start(self.task, *settings, "no mixture is used", left_by_default=by_default)

    def plan(self, run: Run) -> list[Pass]:
        """Plan plain mixup, or bootstrapping with a newly fitted mixture."""
        if run.clock.epoch <= self.warm_up:
            return [Pass(self.warm_up_step, {"batch": View()})]
        self.fit_mixture(run)
        run.note("noise_rate", self.wrong.mean().item())
        return [Pass(self.step, {"batch": View()})]

    def losses(self, batch: Batch) -> Tensor:
        """Return the (B,) cross entropy at the given labels."""
        return cross_entropy(self.network(batch.x).logits, batch.label)

    def warm_up_step(self, batch: Batch, clock: Clock) -> Step:
        """Compute the loss of plain mixup."""
        given = F.one_hot(batch.label, self.task.num_classes).float()
        ((x, target),) = mix([(batch.x, given, batch.weight)], draw_mixing_weight(self.mixup_alpha, clock), clock)
        return Step({"mixup": batch.mean(cross_entropy(self.network(x).logits, target))}, is_mixed=True)

    def step(self, batch: Batch, clock: Clock) -> Step:
        """Compute the loss of mixup on the bootstrapped targets."""
        with torch.no_grad():
            seen = self.network(batch.x).logits
        target = self.bootstrapped(batch, clock, seen)
        if self.variant == "dynamic":
            x, target = self.mix_by_belief(batch, target, clock)
        else:
            ((x, target),) = mix([(batch.x, target, batch.weight)], draw_mixing_weight(self.mixup_alpha, clock), clock)
        logits = self.network(x).logits
        terms = {
            "bootstrap": batch.mean(cross_entropy(logits, target)),
            "uniformity": self.uniformity_weight * uniformity_penalty(logits, batch.weight),
        }
        return Step(terms, seen=seen, is_mixed=True)

    def bootstrapped(self, batch: Batch, clock: Clock, logits: Tensor) -> Tensor:
        """Return the (B, K) targets (1 - B) y + B z."""
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
        """Return T: 1, and in the dynamic variant linear to its smallest value."""
        if self.variant != "dynamic":
            return 1.0
        first = self.warm_up + self.on_given + 1
        return 1 - (1 - COLDEST) * min(max((clock.epoch - first) / max(clock.epochs - first, 1), 0.0), 1.0)

    def mix_by_belief(self, batch: Batch, target: Tensor, clock: Clock) -> tuple[Tensor, Tensor]:
        """Mix inputs by the belief in each partner's label, and average the targets."""
        belief = 1 - self.wrong[batch.index].clamp(EDGE, 1 - EDGE)
        # A share of 0 is the partner itself; its belief is passed as a further target column.
        ((other_x, other),) = mix([(batch.x, torch.cat([target, belief[:, None]], 1), batch.weight)], 0.0, clock)
        share = (belief / (belief + other[:, -1])).view(-1, *[1] * (batch.x.dim() - 1))
        return share * batch.x.to(other_x.dtype) + (1 - share) * other_x, (target + other[:, :-1]) / 2

    def fit_mixture(self, run: Run) -> None:
        """Set B from the current losses."""
        losses = run.collect(self.losses, View(augment=False))
        self.wrong.copy_(wrong_probability(losses).masked_fill(self.trusted, 0.0))

    def verdict(self, rows: Rows) -> Verdict:
        """Return the default quality, and the target (1 - B) y + B p of the final network."""
        wrong = self.wrong[rows.index][:, None]
        given = F.one_hot(rows.given, self.task.num_classes)
        return Verdict(rows.mean_given_probability, (1 - wrong) * given + wrong * rows.prediction)
