"""Bootstrap, soft and hard (Reed et al., 2014, arXiv 1412.6596): the target is partly what the network says itself.

    soft    L = -sum (b e_y + (1 - b) p) log p               = b CE + (1 - b) H(p)
    hard    L = -sum (b e_y + (1 - b) e_argmax p) log p      = b CE - (1 - b) log max p

b = 0.95 (soft) and 0.8 (hard) are the values that public code reuses for CIFAR-10 and CIFAR-100; the paper tunes b on validation
data (unverified). There is no code by the authors. In the soft form the gradient flows through both p: with a target that is held
fixed the second term has none, and the method would be b times cross entropy. Keras versions clip and renormalise p; we take
log_softmax. Hard is the default because it is the better of the two on digits.

The verdict is the default. The method's own target b e_y + (1 - b) p names the given label for any b above 1/2, so it corrects nothing;
the final prediction is what `corrected` returns. Both forms memorise in the end, at these b: the paper claims no more than a delay.
"""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from surelabel.core import Batch, Clock, Method, Step, Task
from surelabel.core.losses import cross_entropy

Target = Literal["soft", "hard"]
PUBLISHED_LABEL_WEIGHT: dict[Target, float] = {"soft": 0.95, "hard": 0.8}


def soft_bootstrap(logits: Tensor, label: Tensor, label_weight: float | Tensor) -> Tensor:
    """(B,) b CE + (1 - b) H(p); p log p by log_softmax, which is 0 and not NaN at p = 0."""
    log_p = logits.log_softmax(1)
    entropy = -(log_p.exp() * log_p).sum(1)
    return label_weight * cross_entropy(logits, label) + (1 - label_weight) * entropy


def hard_bootstrap(logits: Tensor, label: Tensor, label_weight: float | Tensor) -> Tensor:
    """(B,) b CE - (1 - b) log max p."""
    predicted = cross_entropy(logits, logits.argmax(1))
    return label_weight * cross_entropy(logits, label) + (1 - label_weight) * predicted


class Bootstrap(Method):
    """Cross entropy to a mix of the given label and the network's own prediction.

    Options:
        target: which prediction is mixed in: soft (p) or hard (its largest class)
        label_weight: b, the share of the given label; default 0.95 for soft and 0.8 for hard, 1 is cross entropy
    """

    paper = "Reed et al.: Training Deep Neural Networks on Noisy Labels with Bootstrapping, arXiv 1412.6596"
    year = 2014
    kind = "label correction"

    def __init__(
        self, task: Task, *, target: Target = "hard", label_weight: Annotated[float, Field(ge=0, le=1)] | None = None
    ) -> None:
        super().__init__(task)
        self.loss = {"soft": soft_bootstrap, "hard": hard_bootstrap}[target]
        self.label_weight = PUBLISHED_LABEL_WEIGHT[target] if label_weight is None else label_weight
        self.network = task.network()

    def step(self, batch: Batch, clock: Clock) -> Step:
        """Cross entropy to the mixed target."""
        logits = self.network(batch.x).logits
        label_weight = torch.where(self.trusted[batch.index], 1.0, self.label_weight)
        return Step({"bootstrap": batch.mean(self.loss(logits, batch.label, label_weight))}, seen=logits.detach())
