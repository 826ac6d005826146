"""SL: symmetric cross entropy learning (Wang et al., 2019).

    L = alpha CE + beta RCE        RCE = -sum p log e_y = -A (1 - p_y), with log 0 = A < 0
    gradient: (alpha - beta A p_y) (p - e_y)

Defaults are the authors' for CIFAR-10, alpha = 0.1 and beta = 1 (MNIST 0.01 and 1, CIFAR-100 6 and
0.1), for symmetric and asymmetric noise alike. Their advice if training does not start: raise alpha
to 1..10. Conversely, alpha is the pull that a label keeps however much the network doubts it:
digits, which a network memorises, need MNIST's 0.01.

A is the natural logarithm of the 1e-4 to which their code clamps the label, -9.21; the -4 that the
text and threads mention is its logarithm in base 10, and would make the reverse term 2.3 times
smaller. Where we differ: p is not clamped, because 1 - p_y needs no logarithm. The verdict is the
default, because the method has no per-sample state. A label that a person has confirmed is treated
like any other.
"""

import math

from pydantic import NegativeFloat, NonNegativeFloat

from surelabel.core import Batch, Candidates, Clock, Method, Problem, Step, Task
from surelabel.core.losses import cross_entropy, reverse_cross_entropy

LOG_ZERO = math.log(1e-4)
"""A: what log 0 is defined as, as in the authors' code."""


class SL(Method):
    """Cross entropy in both directions; the reverse one bounds the cost of a wrong label.

    Options:
        forward_weight: alpha, weight of cross entropy; the paper has 0.01 on MNIST, 0.1 on
          CIFAR-10, 6 on CIFAR-100
        reverse_weight: beta, weight of reverse cross entropy; the paper has 1 on MNIST and
          CIFAR-10, 0.1 on CIFAR-100
        log_zero: A, what log 0 is defined as in the reverse term
    """

    paper = "Wang et al.: Symmetric Cross Entropy for Robust Learning with Noisy Labels, ICCV"
    year = 2019
    kind = "loss"
    when = (
        "A robust loss with two weights. Choose `forward_weight` by the data: 0.01 for easy data, 6 for a hundred "
        "classes."
    )
    candidates = Candidates(
        "The authors' for CIFAR-10, MNIST and CIFAR-100.", forward_weight=(0.1, 0.01, 6.0), reverse_weight=(1.0, 0.1)
    )

    def __init__(
        self,
        task: Task,
        *,
        forward_weight: NonNegativeFloat = 0.1,
        reverse_weight: NonNegativeFloat = 1.0,
        log_zero: NegativeFloat = LOG_ZERO,
    ) -> None:
        super().__init__(task)
        self.forward_weight, self.reverse_weight, self.log_zero = forward_weight, reverse_weight, log_zero
        self.network = task.network()

    def step(self, batch: Batch, _clock: Clock) -> Step:
        """Compute alpha CE + beta RCE."""
        logits = self.network(batch.x).logits
        forward = batch.mean(cross_entropy(logits, batch.label))
        reverse = batch.mean(reverse_cross_entropy(logits, batch.label, self.log_zero))
        terms = {"forward": self.forward_weight * forward, "reverse": self.reverse_weight * reverse}
        return Step(terms, seen=logits.detach())

    def advice(self, problem: Problem) -> list[str]:
        """Pass on the authors' advice for training that does not start."""
        if problem != "chance":
            return super().advice(problem)
        return [f"forward_weight={self.forward_weight:g} may be too small to start; the authors advise 1 to 10"]
