"""L_DMI: determinant based mutual information (Xu et al., 2019).

    U = (1 / B) sum e_y p^T        (K, K), rows are given labels, over the whole batch
    L = -log |det U|

Noise that depends on the class alone multiplies U by T^T, so L of noisy labels is L of clean ones
minus log |det T|, a constant: the gradient does not see the noise. L does not change either when
the network's classes are permuted, so it needs a start: stage "pretrain" is cross entropy, with a
tenth held out, and ends with the epoch of the lowest loss on the held-out given labels; stage
"train" continues from there with L.

Published: 120 and 100 epochs on CIFAR-10, which we rescale to the run; batches of 256, with
incomplete ones skipped; learning rate 0.1, then 1e-6.

Where we differ from the authors' code:

- It takes -log(|det B U| + 0.001), which overflows float32 at 100 classes and has no gradient where
  the determinant is small. We divide each row by its number of samples, which only removes a
  constant, and compute the logarithm of the determinant directly.
- A batch in which a class is absent, or in which predictions hardly differ between given labels,
  has no usable determinant; it is skipped. So that this is rare, a batch has 26 rows per class as
  published, at least 256, but at most a fifth of all rows.
- No batch is incomplete: the loader makes the batches of an epoch equally large, to one row.
- Classes without any label are left out of U, rows and columns.
- The second stage's rate is 1e-2 of the first's, not 1e-5: theirs needs the 15,000 steps of 100
  epochs of CIFAR-10 to move a network. 1e-2 is the best of 1e-3, 1e-2 and 1e-1 on digits.
- The second stage trains on all rows and keeps its last epoch (theirs: the best accuracy on the
  first batch of held-out rows), and momentum is not reset every epoch.

The loss has no value per sample. The verdict is the fine-tuned network's p at the given label: it
estimates the CLEAN posterior. On digits it separates right from wrong labels better than its
running mean over the run, most of which comes from cross entropy. A label that a person has
confirmed is never held out; both losses treat it like any other.
"""

import math

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor

from surelabel.core import (
    Batch,
    Candidates,
    Clock,
    Method,
    Pass,
    Problem,
    Rows,
    Stage,
    Step,
    Task,
    Verdict,
    View,
    total,
)
from surelabel.core.losses import cross_entropy
from surelabel.methods._advice import warn_of_short_run
from surelabel.methods._selection import held_out_rows

HELD_OUT_SHARE = 0.1
PUBLISHED_PRETRAINING_SHARE = 120 / 220
PUBLISHED_BATCH_SIZE = 256
PUBLISHED_ROWS_PER_CLASS = 26
"""256 rows of 10 classes."""

LEAST_STEPS = 5
"""Batches per epoch, at least: small data sets get smaller batches."""

LARGEST_INVERSE = 1e4
"""Largest entry of the inverse, the gradient of log |det|; beyond it float32 yields noise."""


def label_prediction_sums(logits: Tensor, label: Tensor, weight: Tensor) -> Tensor:
    """Return (K, K) B U: the sum over all ranks' real rows of e_y p^T."""
    # Not a matrix product, which mixed precision would compute in half precision.
    rows = logits.softmax(1) * weight[:, None]
    return total(rows.new_zeros(rows.shape[1], rows.shape[1]).index_add(0, label, rows))


def dmi_loss(sums: Tensor) -> Tensor:
    """Return -log |det U| of (K, K) B U; if it is not usable, a zero connected to the graph."""
    counts = sums.detach().sum(1)
    means = sums / counts.clamp(min=1)[:, None]
    inverse, info = torch.linalg.inv_ex(means.detach())
    usable = (counts > 0).all() & (info == 0) & (inverse.abs().amax() < LARGEST_INVERSE)
    # The identity has a finite gradient, which `where` then drops.
    means = torch.where(usable, means, torch.eye(len(means), dtype=means.dtype, device=means.device))
    log_shares = (counts.clamp(min=1) / counts.sum().clamp(min=1)).log().sum()
    log_determinant: Tensor = torch.linalg.slogdet(means).logabsdet
    return -log_determinant - torch.where(usable, log_shares, 0.0)


def default_batch_size(num_samples: int, num_classes: int) -> int:
    """Return the published number of rows per class, but at least five batches an epoch."""
    wanted = max(PUBLISHED_BATCH_SIZE, PUBLISHED_ROWS_PER_CLASS * num_classes)
    return max(2, min(wanted, num_samples // LEAST_STEPS))


class DMI(Method):
    """Cross entropy, then a loss on whole batches that class-dependent noise only shifts.

    Options:
        pretraining: epochs of cross entropy; default the published fraction, 120/220
        rate_factor: the second stage's learning rate as a share of the first's
        batch_size: rows of a batch in the second stage; default 26 per class, at least 256, at most
          a fifth of all rows
    """

    paper = (
        "Xu et al.: L_DMI: A Novel Information-theoretic Loss Function for Training Deep Nets "
        "Robust to Label Noise, NeurIPS"
    )
    year = 2019
    kind = "loss"
    when = (
        "Noise depends on the class alone and there are few classes with many rows each. It was 6th with "
        "symmetric noise on digits and 12th with pair flips."
    )
    candidates = Candidates("Ours: the published 1e-5 is for runs of 15,000 steps.", rate_factor=(0.01, 0.1, 0.001))

    held_out: Tensor
    named: Tensor

    def __init__(
        self,
        task: Task,
        *,
        pretraining: PositiveInt | None = None,
        rate_factor: PositiveFloat = 0.01,
        batch_size: PositiveInt | None = None,
    ) -> None:
        super().__init__(task)
        self.rate_factor = rate_factor
        self.pretraining = task.epochs_of(PUBLISHED_PRETRAINING_SHARE) if pretraining is None else pretraining
        self.network = task.network()
        self.register_buffer("held_out", held_out_rows(task, HELD_OUT_SHARE))
        self.register_buffer("named", torch.bincount(task.given).nonzero().squeeze(1))
        self.batch_size = default_batch_size(task.num_samples, len(self.named)) if batch_size is None else batch_size

    @property
    def pretraining_epochs(self) -> int:
        """Epochs of the first stage, which leaves at least one to the second if there are two."""
        return min(self.pretraining, max(1, self.task.epochs - 1))

    def stages(self) -> list[Stage]:
        """Train with cross entropy, then with the determinant if the run has a second epoch."""
        first = self.pretraining_epochs
        holds_out = bool(self.held_out.any())
        pretrain = Stage(
            "pretrain",
            first,
            self.pretrain_step,
            plan=[Pass(self.pretrain_step, {"batch": View((~self.held_out).nonzero().squeeze(1))})],
            keep="best" if holds_out else "last",
            validate_on=View(self.held_out.nonzero().squeeze(1), augment=False) if holds_out else None,
        )
        train = Stage(
            "train",
            self.task.epochs - first,
            self.step,
            plan=[Pass(self.step, {"batch": View(batch_size=self.batch_size)})],
            rate_factor=self.rate_factor,
        )
        return [pretrain, train] if train.epochs else [pretrain]

    def pretrain_step(self, batch: Batch, _clock: Clock) -> Step:
        """Compute cross entropy."""
        logits = self.network(batch.x).logits
        return Step({"cross_entropy": batch.mean(cross_entropy(logits, batch.label))}, seen=logits.detach())

    def step(self, batch: Batch, _clock: Clock) -> Step:
        """Compute -log |det U| over the classes that have labels."""
        logits = self.network(batch.x).logits
        sums = label_prediction_sums(logits, batch.label, batch.weight)[self.named][:, self.named]
        return Step({"dmi": dmi_loss(sums)}, seen=logits.detach())

    def verdict(self, rows: Rows) -> Verdict:
        """Return the final network's p at the given label."""
        return Verdict(rows.at_given(rows.prediction), rows.prediction)

    def advice(self, problem: Problem) -> list[str]:
        """Warn of a run without the second stage, and of batches that will often lack a class."""
        if problem != "settings":
            return super().advice(problem)
        rest = self.task.epochs - self.pretraining_epochs
        return warn_of_short_run(self.task, rest, "the determinant is not used") or self._warn_of_small_batches()

    def _warn_of_small_batches(self) -> list[str]:
        share = torch.bincount(self.given)[self.named].min().item() / self.task.num_samples
        # If three rows are expected, one batch in twenty has none.
        enough = min(math.ceil(3 / share), self.task.num_samples)
        if self.batch_size >= enough:
            return []
        return [
            f"batch_size={self.batch_size} has {share * self.batch_size:.1f} rows of the rarest class on average, "
            f"and batches without one are skipped; use batch_size={enough} or more"
        ]
