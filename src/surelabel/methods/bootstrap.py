"""Bootstrap, soft and hard (Reed et al., 2014, arXiv 1412.6596): targets include the prediction.

    soft    L = -sum (b e_y + (1 - b) p) log p               = b CE + (1 - b) H(p)
    hard    L = -sum (b e_y + (1 - b) e_argmax p) log p      = b CE - (1 - b) log max p

Defaults: b = 0.95 (soft) and 0.8 (hard), which public code reuses for CIFAR-10 and CIFAR-100; the
paper tunes b on validation data (unverified). Hard is the default because it is the better of the
two on digits.

The authors published no code. In the soft form the gradient flows through both p. With a fixed
target the second term would have no gradient, and the method would be b times cross entropy. Keras
versions clip and renormalise p; we use log_softmax.

The verdict is the default one, and the corrected labels are the final predictions: for any b above
1/2 the target b e_y + (1 - b) p has the given label as its largest class, so it corrects nothing.
With these b both forms memorise in the end; the paper claims only a delay.
"""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from surelabel.core import Batch, Candidates, Clock, Method, Step, Task
from surelabel.core.losses import cross_entropy

Target = Literal["soft", "hard"]
PUBLISHED_LABEL_WEIGHT: dict[Target, float] = {"soft": 0.95, "hard": 0.8}


def soft_bootstrap(logits: Tensor, label: Tensor, label_weight: float | Tensor) -> Tensor:
    """Return b CE + (1 - b) H(p), (B,); with log_softmax, p log p is 0 and not NaN at p = 0."""
    log_p = logits.log_softmax(1)
    entropy = -(log_p.exp() * log_p).sum(1)
    return label_weight * cross_entropy(logits, label) + (1 - label_weight) * entropy


def hard_bootstrap(logits: Tensor, label: Tensor, label_weight: float | Tensor) -> Tensor:
    """Return b CE - (1 - b) log max p, (B,)."""
    predicted = cross_entropy(logits, logits.argmax(1))
    return label_weight * cross_entropy(logits, label) + (1 - label_weight) * predicted


class Bootstrap(Method):
    """Cross entropy to a mix of the given label and the network's prediction.

    Options:
        target: the prediction that is mixed in: soft (p) or hard (its largest class)
        label_weight: b, the weight of the given label; default 0.95 for soft and 0.8 for hard,
          1 is cross entropy
    """

    paper = "Reed et al.: Training Deep Neural Networks on Noisy Labels with Bootstrapping, arXiv 1412.6596"
    year = 2014
    kind = "label correction"
    when = (
        "You need a simple baseline of label correction. It only delays memorisation: on digits it ends like "
        "cross entropy."
    )
    candidates = Candidates("The paper's two forms, each with its weight.", target=("hard", "soft"))

    def __init__(
        self, task: Task, *, target: Target = "hard", label_weight: Annotated[float, Field(ge=0, le=1)] | None = None
    ) -> None:
        super().__init__(task)
        self.loss = {"soft": soft_bootstrap, "hard": hard_bootstrap}[target]
        self.label_weight = PUBLISHED_LABEL_WEIGHT[target] if label_weight is None else label_weight
        self.network = task.network()

    def step(self, batch: Batch, _clock: Clock) -> Step:
        """Return cross entropy to the mixed target."""
        logits = self.network(batch.x).logits
        label_weight = torch.where(self.trusted[batch.index], 1.0, self.label_weight)
        return Step({"bootstrap": batch.mean(self.loss(logits, batch.label, label_weight))}, seen=logits.detach())
