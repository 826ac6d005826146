"""SOP: Sparse Over-Parametrisation (Liu, Zhu, Qu and You, 2022), and SOP+.

A sample's label is explained by the network and by a sparse noise of its own, which u and v learn:

    U = min(u^2, 1) e_y                           u a number per sample, v a vector of K
    V = min(v^2, 1) (1 - e_y)                     entry by entry
    r = clamp((p + U - V) / |clamp(p + U - V)|_1) both clamps keep it at 1e-4 or more
    L = -log r_y                                  trains the network and u; no gradient through V
      + |e_argmax p + U - V - e_y|^2              trains u and v alone
      + c_b (-1/K sum_k log rbar_k)               SOP+: rbar is the mean of r over the batch
      + c_c KL(p(x) | p(x'))                      SOP+: x' is another view; no gradient through p(x)

u and v start at N(0, 1e-8) and follow plain gradient descent with constant rates of their own. A
product that starts so small stays small unless it is pushed the same way visit after visit: that
is what makes the noise sparse. A wrong label that the network does not predict is pushed so; U then
explains it, and -log r_y asks little of the network. The network alone predicts.

Defaults are those of the authors' code for symmetric noise on CIFAR-100 (shengliu66/SOP on
GitHub): rates 1 for u and 10 for v, at batch 128. For 40 % asymmetric noise there it has 0.1 and
100 (the paper's 1 and 100 belong to an older code). An independent reproduction (KlemenVovk/
noisy-labels) has 10 and 10 on CIFAR-10N. The authors' configuration is that of SOP+: c_c 0.9, c_b
0.1, and AutoAugment with cutout for x', which is `consistency_weight`, `balance_weight` and
`strong` here. On the worst labels of CIFAR-10N the reproduction has 83.7 % for SOP and 92.9 % for
SOP+: most of the gain is in the last two terms.

Where we differ from the authors' code:

- u and v are tables, so they survive a restart (theirs are lost). The step of a row is divided by
  the published batch of 128 and not by the size of its batch, so that it depends on its visits
  alone, on any number of processes.
- With `strong`, x' has the strong augmentation of this package in place of AutoAugment and cutout;
  x is cropped and mirrored, as theirs.
- With a label that a person has confirmed, u and v stay at their start, and the loss is cross
  entropy without a clamp.

In r the given class has at least 1e-4, below which -log r_y has no gradient: a label that the
network has given up is not learned any more, even while U is small. As in ELR, that is part of the
method. Without augmentation x = x', and the consistency term is zero.

The noise must grow from 1e-8 before the network has memorised the label that it is to explain. On
digits (100 epochs, seed 0, last epoch) it is too late with all published rates: with 40 % symmetric
noise and with 30 % pair flips accuracy is 0.71 and 0.73 by default, 0.71 and 0.73 with u_rate=10,
and 0.74 and 0.76 with 0.1 and v_rate=100. The verdict is the default, the running mean of p at the
given label: its AUROC there is 0.943 and 0.870, 0.959 and 0.874, and 0.957 and 0.894. That of U is
0.89 and 0.73, 0.98 and 0.88, and 0.61 and 0.54. With u_rate=100, which nobody has published, the
accuracy is 0.77 and 0.75, and the AUROC of both is 0.99 and 0.93.
"""

import math

import torch
import torch.nn.functional as F
from pydantic import NonNegativeFloat, PositiveFloat
from torch import Tensor

from surelabel.core import (
    Batch,
    Candidates,
    Clock,
    Method,
    Pass,
    Problem,
    Rows,
    SampleStore,
    Stage,
    Step,
    Task,
    Verdict,
    View,
    total,
)
from surelabel.core.losses import cross_entropy

INITIAL_SCALE = 1e-8
"""Standard deviation of u and v at the start."""
SMALLEST_PROBABILITY = 1e-4
"""The authors' floor of r, where -log r_y then has no gradient."""
PUBLISHED_BATCH = 128
"""The batch by which a row's step of u and v is divided."""


def explain_noise(u: Tensor, v: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """Return U and V, (B, K) each, of (B,) u, (B, K) v and (B,) given labels."""
    given = F.one_hot(label, v.shape[1])
    return (u.square()[:, None] * given).clamp(max=1), (v.square() * (1 - given)).clamp(max=1)


def add_noise(probability: Tensor, added: Tensor, removed: Tensor) -> Tensor:
    """Return (B, K) r from p, U and V; no gradient flows through V."""
    noisy = (probability + added - removed.detach()).clamp(min=SMALLEST_PROBABILITY)
    return (noisy / noisy.sum(1, keepdim=True)).clamp(SMALLEST_PROBABILITY, 1)


def log_at(noisy: Tensor, label: Tensor) -> Tensor:
    """Return (B,) log r_y."""
    return noisy.gather(1, label[:, None]).squeeze(1).log()


def unexplained(logits: Tensor, added: Tensor, removed: Tensor, label: Tensor) -> Tensor:
    """Return (B,) |e_argmax p + U - V - e_y|^2, which has no gradient for the network."""
    num_classes = logits.shape[1]
    predicted, given = (F.one_hot(classes, num_classes) for classes in (logits.argmax(1), label))
    return (predicted + added - removed - given).square().sum(1)


def imbalance(mean: Tensor) -> Tensor:
    """Return -1/K sum_k log rbar_k of (K,) rbar; it is least for a uniform mean."""
    return -mean.clamp(SMALLEST_PROBABILITY, 1).log().mean()


def divergence(first: Tensor, second: Tensor) -> Tensor:
    """Return (B,) KL(p(x) | p(x')) of two (B, K) logits; the first has no gradient."""
    log_first = first.detach().log_softmax(1)
    return (log_first.exp() * (log_first - second.log_softmax(1))).sum(1)


def batch_mean(batch: Batch, values: Tensor) -> Tensor:
    """Return the (K,) mean of (B, K) values over the real rows of all ranks."""
    return total((values * batch.weight[:, None]).sum(0)) / total(batch.weight.sum())


def noise_gradients(
    logits: Tensor, u: Tensor, v: Tensor, label: Tensor, mean: Tensor, balance_weight: float
) -> tuple[Tensor, ...]:
    """Return the gradients, (B,) and (B, K), of B times the objective at u and v.

    `mean` is the (K,) rbar of the whole batch, in which a row's share is 1 / B: what the balance
    asks of a row is r times the gradient at rbar.
    """
    with torch.enable_grad():
        u, v, mean = (value.detach().requires_grad_() for value in (u, v, mean))
        (pull,) = torch.autograd.grad(balance_weight * imbalance(mean), mean)
        added, removed = explain_noise(u, v, label)
        noisy = add_noise(logits.softmax(1), added, removed)
        objective = unexplained(logits, added, removed, label) - log_at(noisy, label) + noisy @ pull
        return torch.autograd.grad(objective.sum(), (u, v))


def largest_growth(rate: float) -> float:
    """Return the factor by which one visit can change a small u, at most."""
    return 1 + rate / PUBLISHED_BATCH * (2 * (1 / SMALLEST_PROBABILITY - 1) + 4)


class SOP(Method):
    """A sparse noise per sample, learned beside the network, explains the labels that are wrong.

    Options:
        u_rate: the step of u, which adds the given class to what the network predicts; the authors
          have 1, and 0.1 for asymmetric noise; 10 has been used for ten classes
        v_rate: the step of v, which removes other classes; the authors have 10, and 100 for
          asymmetric noise; v needs about 70 visits of a row with 10, and 15 with 100
        balance_weight: c_b, the weight of even predictions over classes; 0.1 in SOP+
        consistency_weight: c_c, the weight of equal predictions for two views of an image; 0.9 in
          SOP+, and without effect where nothing is augmented
        strong: whether the second view of an image also changes in colour and geometry and loses a
          part, as in SOP+
    """

    paper = "Liu, Zhu, Qu and You: Robust Training under Label Noise by Over-parameterization, ICML"
    year = 2022
    kind = "regularisation"
    when = (
        "You can tune its two rates, or want SOP+ on images with strong augmentation. At published rates it is "
        "too slow for digits."
    )
    candidates = Candidates(
        "The authors' for CIFAR-100, symmetric and asymmetric; 10 from a reproduction on CIFAR-10N.",
        u_rate=(1.0, 0.1, 10.0),
        v_rate=(10.0, 100.0),
    )

    def __init__(
        self,
        task: Task,
        *,
        u_rate: PositiveFloat = 1.0,
        v_rate: NonNegativeFloat = 10.0,
        balance_weight: NonNegativeFloat = 0.0,
        consistency_weight: NonNegativeFloat = 0.0,
        strong: bool = False,
    ) -> None:
        super().__init__(task)
        self.u_rate, self.v_rate = u_rate, v_rate
        self.balance_weight, self.consistency_weight, self.strong = balance_weight, consistency_weight, strong
        self.network = task.network()
        self.u, self.v = SampleStore(task.num_samples), SampleStore(task.num_samples, task.num_classes)
        generator = torch.Generator().manual_seed(task.seed)
        for store in (self.u, self.v):
            store.replace(INITIAL_SCALE * torch.randn(store.rows[:-1].shape, generator=generator))

    def stages(self) -> list[Stage]:
        """Train in one stage, on two views of every sample if they are to agree."""
        view = View(augment="strong_copies" if self.strong else True, copies=2 if self.consistency_weight else 1)
        return [Stage("train", self.task.epochs, self.step, plan=[Pass(self.step, {"batch": view})])]

    def step(self, batch: Batch, _clock: Clock) -> Step:
        """Compute L, and move u and v from the same forward pass."""
        # One pass over all views, as the authors do: batch norm takes them together.
        logits, *second = self.network(torch.cat(batch.copies)).logits.split(batch.num_rows)
        u, v = self.u.read(batch.index), self.v.read(batch.index)
        added, removed = explain_noise(u, v, batch.label)
        noisy = add_noise(logits.softmax(1), added, removed)
        mean = batch_mean(batch, noisy)
        certain = self.trusted[batch.index]
        loss = torch.where(certain, cross_entropy(logits, batch.label), -log_at(noisy, batch.label))
        terms = {
            "cross_entropy": batch.mean(loss),
            "unexplained": batch.mean(unexplained(logits, added, removed, batch.label)),
        }
        if self.balance_weight:
            terms["balance"] = self.balance_weight * imbalance(mean)
        if second:
            terms["consistency"] = self.consistency_weight * batch.mean(divergence(logits, second[0]))
        gradients = noise_gradients(logits.detach(), u, v, batch.label, mean.detach(), self.balance_weight)
        self.u.write(batch.index, u - self.u_rate / PUBLISHED_BATCH * gradients[0], where=~certain)
        self.v.write(batch.index, v - self.v_rate / PUBLISHED_BATCH * gradients[1], where=~certain)
        return Step(terms, seen=logits.detach())

    def advice(self, problem: Problem) -> list[str]:
        """Warn of a step of u that can explain no label in this run, and of an idle option."""
        if problem != "settings":
            return super().advice(problem)
        found = []
        visits = self.task.epochs * self.task.visits_per_epoch
        if visits * math.log(largest_growth(self.u_rate)) < -math.log(INITIAL_SCALE):
            found.append(
                f"method.u_rate={self.u_rate:g} can never explain a wrong label: {visits:.3g} visits of a row are too "
                f"few for u to grow from {INITIAL_SCALE:g}; use u_rate=1 and at least 2 visits of a row"
            )
        if self.strong and not self.consistency_weight:
            found.append("method.strong=True has no effect on a single view; use consistency_weight=0.9")
        return found

    def verdict(self, rows: Rows) -> Verdict:
        """Return the default verdict; the evidence is U at the given label, large if suspicious."""
        added = self.u.read(rows.index).square().clamp(max=1)
        return Verdict(rows.mean_given_probability, rows.prediction, {"noise": added})
