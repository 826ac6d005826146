"""NCE and active-passive losses (Ma et al., 2020): symmetric noise only scales a normalised loss.

    NL   = L(y) / sum over classes k of L(k)            summed over all labels y it is 1
    NCE  = log p_y / sum log p_k
    NFL  = the same with focal loss, -(1 - p)^gamma log p; the factor (1 - p)^gamma has no gradient
    NGCE = (1 - p_y^q) / (K - sum p_k^q)
    APL  = a x active + b x passive                     active:  NCE, NFL or NGCE
                                                        passive: MAE = 1 - p_y or RCE = -A (1 - p_y)

As the paper says, a normalised loss alone underfits, hence the passive term. A is log 1e-4, and the
factor of NFL is fixed, as in the authors' code.

The published weights are a = b = 1 for all pairs with 10 classes. With 100 classes a = 10, and b is
1 for MAE and 0.1 for RCE (with WebVision's 50 classes, a = 50). The size of a normalised loss is
1 / K, so our defaults interpolate: a = K / 10 (at least 1), b = 1 for MAE and 10 / K (at most 1)
for RCE. q of NGCE is 0.1 on CIFAR-10 and 0.7 on CIFAR-100; gamma is 0.5. NCE + RCE is the default
pair, the best on digits.

Where we differ from the authors' code: p is not clamped, because log_softmax and expm1 do not need
it. Their normalised MAE and RCE are left out: they are wrongly scaled there, and in truth only
scaled MAE. The verdict is the default one: the method has no score of its own. A label that a
person has confirmed is treated like any other.
"""

import math
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat
from torch import Tensor

from surelabel.core import Batch, Candidates, Clock, Method, Step, Task
from surelabel.core.losses import mean_absolute_error, reverse_cross_entropy

LOG_ZERO = math.log(1e-4)
"""A of the reverse cross entropy, as in the authors' code."""

Active = Literal["nce", "nfl", "ngce"]
Passive = Literal["none", "mae", "rce"]


def normalised(losses: Tensor, label: Tensor) -> Tensor:
    """Return L(y) / sum L(k), (B,), from the losses (B, K) at every label.

    The sum is never small: if one of the losses is, the K - 1 others are large.
    """
    return losses.gather(1, label[:, None]).squeeze(1) / losses.sum(1)


def normalised_cross_entropy(logits: Tensor, label: Tensor) -> Tensor:
    """Return log p_y / sum log p_k, (B,); the denominator is at least K log K in size."""
    return normalised(-logits.log_softmax(1), label)


def normalised_focal_loss(logits: Tensor, label: Tensor, gamma: float) -> Tensor:
    """Return the normalised -(1 - p)^gamma log p, (B,), with no gradient through (1 - p)^gamma."""
    log_p = logits.log_softmax(1)
    return normalised(-((1 - log_p.detach().exp()) ** gamma) * log_p, label)


def normalised_generalised_cross_entropy(logits: Tensor, label: Tensor, q: float) -> Tensor:
    """Return (1 - p_y^q) / (K - sum p_k^q), (B,)."""
    return normalised(-(q * logits.log_softmax(1)).expm1(), label)


def default_weights(passive: Passive, num_classes: int) -> tuple[float, float]:
    """Return a and b: the published values for 10 and 100 classes, interpolated by rule."""
    return max(1.0, num_classes / 10), min(1.0, 10 / num_classes) if passive == "rce" else 1.0


class NCE(Method):
    """A loss normalised by its sum over all labels, plus a passive loss that makes it learn faster.

    Options:
        active: the normalised loss: nce, nfl (focal) or ngce (generalised)
        passive: the loss added to it: mae, rce, or none (the normalised loss alone underfits)
        active_weight: a; default K / 10 but at least 1, as published for 10 and 100 classes
        passive_weight: b; default 1 for mae, and 10 / K but at most 1 for rce, as published for 10
          and 100 classes
        q: exponent of ngce; the paper uses 0.1 on CIFAR-10 and 0.7 on CIFAR-100
        gamma: exponent of nfl; the paper uses 0.5
    """

    paper = "Ma et al.: Normalized Loss Functions for Deep Learning with Noisy Labels, ICML"
    year = 2020
    kind = "loss"
    when = "A robust loss with theory for symmetric noise that does not underfit; weights follow the number of classes."
    candidates = Candidates("The paper's four main pairs.", active=("nce", "nfl"), passive=("rce", "mae"))

    def __init__(
        self,
        task: Task,
        *,
        active: Active = "nce",
        passive: Passive = "rce",
        active_weight: NonNegativeFloat | None = None,
        passive_weight: NonNegativeFloat | None = None,
        q: Annotated[float, Field(gt=0, le=1)] = 0.1,
        gamma: NonNegativeFloat = 0.5,
    ) -> None:
        super().__init__(task)
        self.active, self.passive, self.q, self.gamma = active, passive, q, gamma
        weights = default_weights(passive, task.num_classes)
        self.active_weight = weights[0] if active_weight is None else active_weight
        self.passive_weight = weights[1] if passive_weight is None else passive_weight
        self.network = task.network()

    def active_loss(self, logits: Tensor, label: Tensor) -> Tensor:
        """Return the normalised loss (B,)."""
        if self.active == "nfl":
            return normalised_focal_loss(logits, label, self.gamma)
        if self.active == "ngce":
            return normalised_generalised_cross_entropy(logits, label, self.q)
        return normalised_cross_entropy(logits, label)

    def passive_loss(self, logits: Tensor, label: Tensor) -> Tensor:
        """Return 1 - p_y or reverse cross entropy, (B,)."""
        if self.passive == "mae":
            return mean_absolute_error(logits, label) / 2
        return reverse_cross_entropy(logits, label, LOG_ZERO)

    def step(self, batch: Batch, _clock: Clock) -> Step:
        """Return a x active + b x passive."""
        logits = self.network(batch.x).logits
        terms: dict[str, Tensor] = {self.active: self.active_weight * batch.mean(self.active_loss(logits, batch.label))}
        if self.passive != "none":
            terms[self.passive] = self.passive_weight * batch.mean(self.passive_loss(logits, batch.label))
        return Step(terms, seen=logits.detach())
