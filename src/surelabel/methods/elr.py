"""ELR: Early-Learning Regularization (Liu, Niles-Weed, Razavian and Fernandez-Granda, 2020).

    p~ = softmax(z), kept in [1e-4, 1 - 1e-4]
    t <- beta t + (1 - beta) p~ / sum p~                 before the loss, at every visit, from zero
    L = -log p_y + lambda log(1 - <t, p~>)               the gradient flows through p~ only

The second term pulls the prediction towards the network's early predictions. Its gradient at logit
c is p_c (<p, t> - t_c) / (1 - <p, t>). The objective goes negative, to about lambda log 1e-4; that
is normal.

Defaults are the authors' for CIFAR-10 with symmetric noise: beta 0.7, lambda 3. Theirs elsewhere:
asymmetric 0.9 and 1, CIFAR-100 0.9 and 7, Clothing1M 0.7 and 3 (there with two networks, and 2000
class-balanced batches an epoch according to the paper). They say that lambda needs tuning and that
beta hardly does.

The clamp is part of the method: where p~ has reached it the term has no gradient; without it logits
would grow for ever. It also keeps the logarithm finite, since sum t <= 1.

Where we differ from the authors' code: t is a buffer, so it survives a restart (theirs is lost);
the verdict divides t by its sum, which is 1 - beta^n after n visits.

The verdict is the default, the running mean of p at the given label: on digits with 40 % symmetric
noise its AUROC is 0.998 (lambda 3) and 0.999 (lambda 7), that of t_y 0.71 and 0.994, and their mean
is no better. There lambda = 3 still memorises (last epoch 0.73), 7 does not (0.98); 100 epochs,
seed 0.
"""

from typing import Annotated

import torch
from pydantic import Field, NonNegativeFloat
from torch import Tensor

from surelabel.core import Batch, Candidates, Clock, Method, Rows, Step, TargetTable, Task, Verdict
from surelabel.core.losses import cross_entropy
from surelabel.core.tables import EVERY_FORM

SMALLEST_PROBABILITY = 1e-4
"""The authors' distance of p~ from 0 and 1, where the regulariser then has no gradient."""


def clamped_probability(logits: Tensor) -> Tensor:
    """Return (B, K) p~."""
    return logits.softmax(1).clamp(SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)


def early_learning_regulariser(probability: Tensor, target: Tensor) -> Tensor:
    """Return (B,) log(1 - <t, p~>): zero for t = 0, and smaller the more p~ agrees with t."""
    return (1 - (target * probability).sum(1)).log()


def normalised(target: Tensor, prediction: Tensor) -> Tensor:
    """Return (C, K) targets divided by their sum; the prediction for rows that were not visited."""
    mass = target.sum(1, keepdim=True)
    return torch.where(mass > 0, target / torch.where(mass > 0, mass, 1.0), prediction)


class ELR(Method):
    """Cross entropy, and a pull towards what the network predicted early on.

    Options:
        regularisation: lambda, the weight of the pull; the authors have 3, 1 for asymmetric noise,
          7 for 100 classes
        momentum: beta, the fraction of the old target that stays in an update; the authors have 0.7
          or 0.9
    """

    paper = "Liu et al.: Early-Learning Regularization Prevents Memorization of Noisy Labels, NeurIPS"
    year = 2020
    kind = "regularisation"
    when = (
        "One network, one pass, and you can tune lambda with `surelabel tune`: it was first on digits with lambda "
        "7, and far behind with the published 3."
    )
    table_forms = EVERY_FORM
    candidates = Candidates(
        "The authors' for symmetric noise, asymmetric noise and 100 classes.",
        regularisation=(3.0, 1.0, 7.0),
        momentum=(0.7, 0.9),
    )

    def __init__(
        self,
        task: Task,
        *,
        regularisation: NonNegativeFloat = 3.0,
        momentum: Annotated[float, Field(ge=0, lt=1)] = 0.7,
    ) -> None:
        super().__init__(task)
        self.regularisation, self.momentum = regularisation, momentum
        self.network = task.network()
        self.target = task.class_table()

    def step(self, batch: Batch, _clock: Clock) -> Step:
        """Compute -log p_y + lambda log(1 - <t, p~>)."""
        logits = self.network(batch.x).logits
        probability = clamped_probability(logits)
        self.target.blend(batch.index, probability / probability.sum(1, keepdim=True), self.momentum)
        pull = early_learning_regulariser(probability, self.target.read(batch.index))
        terms = {
            "cross_entropy": batch.mean(cross_entropy(logits, batch.label)),
            "early_learning": self.regularisation * batch.mean(pull),
        }
        return Step(terms, seen=logits.detach())

    def target_tables(self) -> list[TargetTable]:
        """Return the table of t."""
        return [TargetTable(self.target)]

    def verdict(self, rows: Rows) -> Verdict:
        """Return the default quality, and the normalised target of rows that were visited."""
        corrected = normalised(self.target.read(rows.index), rows.prediction)
        return Verdict(rows.mean_given_probability, corrected)
