"""MentorNet (Jiang et al., 2018): a mentor weights the samples that the student learns from.

    m <- delta m + (1 - delta) percentile_p of the batch's losses         a running threshold
    d_i = loss_i - m,  q = floor(100 x share of training that is done)
    v_i = mentor(loss_i, d_i, q) in [0, 1],     L = (1 / B) sum v_i loss_i   (not / sum v)

The curriculum defines what the mentor is taught; by default it is applied in closed form:

    none          1
    self_paced    1 where d <= 0
    linear        1 - d, kept in [0, 1]
    hard          1 where d >= 0
    focal         (1 - exp(-loss))^2
    predefined    (MentorNet-PD) 1 for q <= 18, self_paced for 18 < q < 90, linear from q = 90 on

`mentor="learned"` is the paper's form of it: a small network g(loss, d, q), trained separately on
the authors' grid before the first epoch and then frozen. Besides, a random part of each batch is
left out (example dropout, without rescaling): half of it in the first 17 % of training and 5 %
afterwards, as in the authors' PD runs; their self-paced and focal runs have none.

Defaults are those of their PD runs: delta 0.5, p 0.75 at 20 and 40 % noise (at 80 % it is 0.5). We
had no access to the paper. Whether those runs really used that p is unverified: the scripts
misspell the option, and then it would be 0.7.

Where we differ from the authors' code:

- m starts as the first batch's percentile; theirs starts at 0, so that at first every d is positive
  and nothing is learned.
- The learned mentor is a perceptron on (loss, d, q / 100) with two hidden layers of 32, theirs a
  bidirectional LSTM of length one with an embedding of q; they say that the architecture hardly
  matters. It sees 1,000 batches of 512 points, not 30,000 of 32, with the squared error that they
  use for targets that are not all 0 or 1.
- Weight decay is the optimiser's; theirs is multiplied by the batch's mean v.
- The verdict is the default: the running mean of p at the given label (AUROC 0.984 on digits at
  40 % symmetric noise, against 0.89 of the final p, of which v is a step function). v at the end of
  training is evidence, under "weight".
- A label that a person has confirmed has v = 1 under every curriculum; example dropout, which is
  random, leaves it out as often as any other.
- The data-driven mentor (MentorNet-DD) is missing: it learns from known clean labels, which no
  method here receives.
"""

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from surelabel.core import (
    Batch,
    Candidates,
    Clock,
    Method,
    Pass,
    Rows,
    Run,
    Stage,
    Step,
    Task,
    Verdict,
    View,
    gathered,
    own_rows,
)
from surelabel.core.losses import cross_entropy
from surelabel.methods._selection import ROUNDING, smallest

Curriculum = Literal["predefined", "self_paced", "linear", "focal", "hard", "none"]
Share = Annotated[float, Field(ge=0, le=1)]

BURNED_IN, LAST_PART = 18, 90
"""q up to which MentorNet-PD weights all samples by 1, and from which weights are linear."""
EARLY_PART = 17
"""q below which the early rate of example dropout applies."""
FOCAL_POWER = 2


def linear(difference: Tensor) -> Tensor:
    """Return 1 - d, kept in [0, 1]."""
    return (1 - difference).clamp(0, 1)


def self_paced(difference: Tensor) -> Tensor:
    """Return 1 where d <= 0, else 0."""
    return (difference <= 0).to(difference)


def predefined(difference: Tensor, percent: Tensor) -> Tensor:
    """Return the weights of MentorNet-PD: all samples, then easy ones, then with a soft edge."""
    late = torch.where(percent >= LAST_PART, linear(difference), self_paced(difference))
    return torch.where(percent <= BURNED_IN, 1.0, late)


CURRICULA: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "predefined": lambda _loss, difference, percent: predefined(difference, percent),
    "self_paced": lambda _loss, difference, _percent: self_paced(difference),
    "linear": lambda _loss, difference, _percent: linear(difference),
    "focal": lambda loss, _difference, _percent: (-(-loss).expm1()) ** FOCAL_POWER,
    "hard": lambda loss, difference, _percent: (difference >= 0).to(loss),
    "none": lambda loss, _difference, _percent: torch.ones_like(loss),
}
"""v of (n,) losses, their differences d to the threshold, and q in 0..99."""


class Mentor(nn.Module):
    """A small network from (loss, d, q) to the logit of v."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layers = nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
        self.layers = nn.Sequential(*layers)

    def forward(self, loss: Tensor, difference: Tensor, percent: Tensor) -> Tensor:
        """Return (n,) v in [0, 1]."""
        # Scale all three to about [-1, 1]; losses beyond the grid count as its end.
        features = torch.stack([loss.clamp(max=30) / 15 - 1, difference.clamp(-5, 5), percent / 50 - 1], 1)
        logit: Tensor = self.layers(features).squeeze(1)
        return logit.sigmoid()


def grid_points(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Draw points of the authors' grid.

    The loss is in 0, 0.1, .., 9.9, 10, 11, .., 29, d in -5, -4.9, .., 4.9, and q in 0..99.
    """
    losses = torch.cat([torch.arange(100) / 10, torch.arange(10.0, 30)])
    loss = losses[torch.randint(len(losses), (count,), generator=generator)]
    difference = torch.randint(-50, 50, (count,), generator=generator) / 10
    return loss, difference, torch.randint(100, (count,), generator=generator).float()


@contextlib.contextmanager
def single_thread() -> Iterator[None]:
    """Use one thread: products as small as the mentor's are twenty times slower on several."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def teach(mentor: Mentor, curriculum: str, seed: int, steps: int = 1000, batch_size: int = 512) -> Mentor:
    """Return a copy of the mentor, trained on the grid; the same on every rank."""
    mentor = copy.deepcopy(mentor).cpu().requires_grad_(True)
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(mentor.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.01, steps)
    with single_thread(), torch.enable_grad():
        for _ in range(steps):
            points = grid_points(batch_size, generator)
            error = (mentor(*points) - CURRICULA[curriculum](*points)).square().mean()
            optimiser.zero_grad()
            error.backward()
            nn.utils.clip_grad_norm_(mentor.parameters(), 5.0)
            optimiser.step()
            schedule.step()
    return mentor


def random_part(batch: Batch, dropout: float, generator: torch.Generator) -> Tensor:
    """Return a (B,) mask of a random part of the whole batch, the same on any number of ranks."""
    real = gathered(batch.weight > 0)
    draw = torch.ones(len(real), device=real.device)
    draw[real] = torch.rand(int(real.sum()), generator=generator).to(real.device)
    return own_rows(smallest(draw, int((1 - dropout) * int(real.sum()) + ROUNDING), allowed=real), batch.weight)


class MentorNet(Method):
    """A student whose samples are weighted by a mentor with a curriculum.

    Options:
        curriculum: what the mentor is taught: predefined (MentorNet-PD), self_paced, linear, focal,
          hard or none
        mentor: closed_form applies the curriculum itself; learned trains a small network on it
          first
        percentile: p, the part of a batch whose losses lie below the threshold; 0.75 in the
          authors' runs, 0.5 at 80 % noise
        threshold_momentum: delta, the fraction of the old threshold that stays in an update
        early_dropout: part of a batch that is left out at random in the first 17 % of training
        dropout: the same afterwards
    """

    paper = (
        "Jiang et al.: MentorNet: Learning Data-Driven Curriculum for Very Deep Neural Networks "
        "on Corrupted Labels, ICML"
    )
    year = 2018
    kind = "selection"
    when = (
        "You want a curriculum that weights samples by their loss. Results on digits vary more between seeds than "
        "those of most methods."
    )
    candidates = Candidates(
        "The authors' percentiles for up to 40 % and for 80 % noise, and their three kinds of runs.",
        percentile=(0.75, 0.5),
        curriculum=("predefined", "self_paced", "focal"),
    )

    threshold: Tensor
    is_taught: Tensor

    def __init__(
        self,
        task: Task,
        *,
        curriculum: Curriculum = "predefined",
        mentor: Literal["closed_form", "learned"] = "closed_form",
        percentile: Share = 0.75,
        threshold_momentum: Annotated[float, Field(ge=0, lt=1)] = 0.5,
        early_dropout: Share = 0.5,
        dropout: Share = 0.05,
    ) -> None:
        super().__init__(task)
        self.network = task.network()
        self.curriculum, self.percentile, self.threshold_momentum = curriculum, percentile, threshold_momentum
        self.early_dropout, self.dropout = early_dropout, dropout
        self.mentor = Mentor(task.seed).requires_grad_(False) if mentor == "learned" else None
        self.register_buffer("is_taught", torch.tensor(False))
        self.register_buffer("threshold", torch.tensor(torch.nan))

    def stages(self) -> list[Stage]:
        """Train in one stage; a learned mentor is taught before its first epoch."""
        return [Stage("train", self.task.epochs, self.step, plan=self.plan)]

    def plan(self, _run: Run) -> list[Pass]:
        """Teach the mentor once, and plan a pass over all samples."""
        if self.mentor is not None and not self.is_taught:
            self.mentor.load_state_dict(teach(self.mentor, self.curriculum, self.task.seed).state_dict())
            self.is_taught.fill_(True)
        return [Pass(self.step, {"batch": View()})]

    def step(self, batch: Batch, clock: Clock) -> Step:
        """Compute the mean of v times the loss over a random part of the batch."""
        logits = self.network(batch.x).logits
        loss = cross_entropy(logits, batch.label)
        percent = int(100 * clock.progress / clock.epochs)
        self.update_threshold(loss.detach(), batch)
        dropout = self.early_dropout if percent < EARLY_PART else self.dropout
        part = random_part(batch, dropout, clock.generator("dropout"))
        weight = self.weights(loss.detach(), percent).masked_fill(self.trusted[batch.index], 1.0) * part
        return Step({"weighted": batch.mean(weight * loss)}, seen=logits.detach())

    def update_threshold(self, loss: Tensor, batch: Batch) -> None:
        """Move the threshold towards the percentile of the whole batch's losses."""
        losses = gathered(loss)[gathered(batch.weight) > 0]
        latest = losses.quantile(self.percentile)
        old = torch.where(self.threshold.isnan(), latest, self.threshold)
        self.threshold.copy_(self.threshold_momentum * old + (1 - self.threshold_momentum) * latest)

    @torch.no_grad()
    def weights(self, loss: Tensor, percent: int) -> Tensor:
        """Return (B,) v."""
        mentor = CURRICULA[self.curriculum] if self.mentor is None else self.mentor
        return mentor(loss, loss - self.threshold, torch.full_like(loss, percent))

    def verdict(self, rows: Rows) -> Verdict:
        """Return the default; the evidence is v at the end of training."""
        losses = -rows.at_given(rows.prediction).log()
        return Verdict(rows.mean_given_probability, rows.prediction, {"weight": self.weights(losses, 99)})
