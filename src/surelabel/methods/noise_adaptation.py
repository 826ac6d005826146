"""A noise adaptation layer (Goldberger and Ben-Reuven, 2017), the simple model.

    T[i, j] = P(given = j | true = i) = exp(b_ij) / sum_l exp(b_il)        K x K trainable numbers b
    L = -log (p T)[y]                                                       p is the classifier that is kept

Stage "first" trains the classifier alone with cross entropy, a tenth of the samples held out, and keeps the epoch with the
lowest loss on their given labels. b then starts as the logarithm of that classifier's confusion matrix, rows predicted and
columns given classes. Stage "train" goes on from the same weights, with T on top, for both together. Each stage ends early,
when the loss of the held-out samples (with T in the second) has not fallen for `patience` epochs. T is left away in prediction.

This is what the authors' code does: hard confusion matrix of all training samples, weights loaded from the first network, a
tenth held out, at most 40 epochs with a patience of 4. Our two stages have half of the run's epochs each, at most. Early
stopping is part of the method: if a network can memorise the given labels, T drifts to the identity while it does. On digits
with 40 % symmetric noise (100 epochs, seed 0) T's mean diagonal goes from 0.59 to 0.91, and the last accuracy is 0.70 without
it, 0.76 with it and 0.84 and 0.90 with patience 2 and 1; the best epoch, the first with T, has 0.91.

Where we differ from the authors' code:

- A class that the first network never predicts has a row of zeros, which theirs divides by zero. One count is added to each
  diagonal entry, so that such a row is the identity's.
- The loss of an epoch is known at the start of the next one, so a stage ends one epoch later than theirs.
- The complex model, in which T depends on the sample, is not here.

Weight decay acts on b as on any weight: it pulls T's rows slightly towards uniform.

The verdict is the mean of the posterior P(true = y | x, given = y) and of the running mean of p at the given label: on digits
its AUROC is 0.940 and 0.969 (seeds 0, 1), against 0.929 and 0.959 of the latter alone and 0.856 and 0.938 of the former.
"""

from collections.abc import Callable

import torch
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from surelabel.core import Batch, Clock, Method, Pass, Rows, Run, Stage, Step, Task, Verdict, View
from surelabel.core.losses import cross_entropy

HELD_OUT_SHARE = 0.1
SMALLEST_TRANSITION = 1e-8
"""The authors': what is added to a share before its logarithm."""


class NoiseLayer(nn.Module):
    """(B, K) log p to (B, K) log (p T), with T's rows a softmax of trainable numbers."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(num_classes, num_classes))

    def forward(self, log_probability: Tensor) -> Tensor:
        """Log (p T), as a log-sum-exp so that it is exact for small p."""
        return torch.logsumexp(log_probability[:, :, None] + self.logits.log_softmax(1), 1)


def adapted_loss(log_given: Tensor, label: Tensor) -> Tensor:
    """(B,) minus the (B, K) log (p T) at the given label."""
    return F.nll_loss(log_given, label, reduction="none")


def confusion_matrix(prediction: Tensor, given: Tensor, num_classes: int) -> Tensor:
    """(K, K) shares of given classes among the samples predicted as each class; rows sum to one."""
    counts = torch.bincount(prediction * num_classes + given, minlength=num_classes**2).view(num_classes, num_classes)
    counts = counts + torch.eye(num_classes, device=counts.device)
    return counts / counts.sum(1, keepdim=True)


def posterior(probability: Tensor, given: Tensor, transition: Tensor) -> Tensor:
    """(N, K) P(true = i | x, given = y) = p_i T[i, y] / (p T)[y]."""
    return (probability.clamp(min=1e-30).log() + transition.clamp(min=SMALLEST_TRANSITION).log().t()[given]).softmax(1)


class NoiseAdaptation(Method):
    """Learns which classes are mistaken for which, as a layer on top of the classifier.

    Options:
        patience: epochs without a lower loss on held-out samples after which training ends; the authors have 4
    """

    paper = "Goldberger and Ben-Reuven: Training Deep Neural-Networks Using a Noise Adaptation Layer, ICLR"
    year = 2017
    kind = "correction"

    held_out: Tensor
    best_loss: Tensor
    stale: Tensor

    def __init__(self, task: Task, *, patience: PositiveInt = 4) -> None:
        super().__init__(task)
        self.patience = patience
        self.network = task.network()
        self.noise = NoiseLayer(task.num_classes)
        generator = torch.Generator().manual_seed(task.seed)
        order = torch.randperm(task.num_samples, generator=generator)
        self.register_buffer("held_out", order < int(HELD_OUT_SHARE * task.num_samples))
        self.register_buffer("best_loss", torch.tensor(torch.inf))
        self.register_buffer("stale", torch.tensor(0))

    def stages(self) -> list[Stage]:
        """The classifier alone, then with the layer; a run of one epoch has no second stage."""
        first = max(1, self.task.epochs // 2)
        validates = bool(self.held_out.any())
        alone = Stage(
            "first",
            first,
            self.first_step,
            plan=self.first_plan,
            then=self.start_layer,
            stop=self.is_stale,
            keep="best" if validates else "last",
            validate_on=self.judged_on if validates else None,
        )
        rest = self.task.epochs - first
        return [alone, Stage("train", rest, self.step, plan=self.plan, stop=self.is_stale)] if rest else [alone]

    @property
    def judged_on(self) -> View:
        """The samples that are held out."""
        return View(self.held_out.nonzero().squeeze(1), augment=False)

    @property
    def trained_on(self) -> View:
        """The rest."""
        return View((~self.held_out).nonzero().squeeze(1))

    def first_plan(self, run: Run) -> list[Pass]:
        """The samples that are not held out; what the last epoch has led to is judged first."""
        self.judge(run, self.cross_entropy)
        return [Pass(self.first_step, {"batch": self.trained_on})]

    def plan(self, run: Run) -> list[Pass]:
        """The same with the layer."""
        self.judge(run, self.adapted_loss)
        return [Pass(self.step, {"batch": self.trained_on})]

    def judge(self, run: Run, loss: Callable[[Batch], Tensor]) -> None:
        """Count the epochs since the held-out loss last fell."""
        if self.held_out.any():
            mean = run.collect(loss, self.judged_on).mean()
            self.stale.copy_(torch.where(mean < self.best_loss, 0, self.stale + 1))
            self.best_loss.copy_(torch.minimum(self.best_loss, mean))

    def is_stale(self, run: Run) -> bool:
        """Whether the held-out loss has not fallen for long enough."""
        return int(self.stale) >= self.patience

    def cross_entropy(self, batch: Batch) -> Tensor:
        """(B,) -log p_y."""
        return cross_entropy(self.network(batch.x).logits, batch.label)

    def adapted_loss(self, batch: Batch) -> Tensor:
        """(B,) -log (p T)[y]."""
        return adapted_loss(self.noise(self.network(batch.x).logits.log_softmax(1)), batch.label)

    def first_step(self, batch: Batch, clock: Clock) -> Step:
        """Cross entropy of the classifier."""
        logits = self.network(batch.x).logits
        return Step({"cross_entropy": batch.mean(cross_entropy(logits, batch.label))}, seen=logits.detach())

    @torch.no_grad()
    def start_layer(self, run: Run) -> None:
        """Logits <- log of the confusion matrix of predictions and given labels."""
        prediction = run.collect(lambda batch: self.network(batch.x).logits.argmax(1), View(augment=False))
        confusion = confusion_matrix(prediction, self.given, self.task.num_classes)
        self.noise.logits.copy_((confusion + SMALLEST_TRANSITION).log())
        run.note("confusion", confusion.tolist())
        self.best_loss.fill_(torch.inf)
        self.stale.zero_()

    def step(self, batch: Batch, clock: Clock) -> Step:
        """-log (p T)[y]."""
        logits = self.network(batch.x).logits
        loss = adapted_loss(self.noise(logits.log_softmax(1)), batch.label)
        return Step({"noise_adaptation": batch.mean(loss)}, seen=logits.detach())

    @property
    def transition(self) -> Tensor:
        """(K, K) T."""
        return self.noise.logits.detach().softmax(1)

    def predict(self, x: Tensor) -> Tensor:
        """The classifier's prediction, without the layer."""
        return self.network(x).logits.softmax(1)

    def verdict(self, rows: Rows) -> Verdict:
        """Return the posterior of the true class; quality is the mean of its p_y and the running mean."""
        corrected = posterior(rows.prediction, rows.given, self.transition)
        return Verdict((rows.at_given(corrected) + rows.mean_given_probability) / 2, corrected)
