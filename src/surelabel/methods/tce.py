"""TCE: Taylor cross entropy (Feng et al., 2020).

    L_t = sum over i = 1..t of (1 - p_y)^i / i        gradient: (1 - (1 - p_y)^t) (p - e_y)

This is the Taylor series of -log p_y at p_y = 1, cut off after t terms: t = 1 is half the mean
absolute error, and t to infinity is cross entropy.

The authors published no code. Formula and range are from a summary of the paper; we checked the
formula against both limits. The paper chooses t from 2 to 6 for each data set; our default is 2,
the most robust of them, as digits confirm. A loss also known as "Taylor cross entropy", which
replaces the softmax by a Taylor softmax too, is a different one. The verdict is the default one:
the method has no score of its own. A label that a person has confirmed is treated like any other.
"""

from pydantic import PositiveInt
from torch import Tensor

from surelabel.core import Batch, Candidates, Clock, Method, Step, Task
from surelabel.core.losses import generalised_cross_entropy


def taylor_cross_entropy(logits: Tensor, label: Tensor, order: int) -> Tensor:
    """Return the sum of (1 - p_y)^i / i for i = 1 to `order`, (B,), by Horner's rule."""
    doubt = generalised_cross_entropy(logits, label, 1.0)
    value = doubt / order
    for power in range(order - 1, 0, -1):
        value = doubt * (1 / power + value)
    return value


class TCE(Method):
    """The truncated Taylor series of cross entropy: bounded, between it and mean absolute error.

    Options:
        order: t, the number of terms, from mean absolute error (1) towards cross entropy; the paper
          chooses from 2 to 6
    """

    paper = "Feng et al.: Can Cross Entropy Loss Be Robust to Label Noise?, IJCAI"
    year = 2020
    kind = "loss"
    when = "A robust loss with one whole number to choose, from mean absolute error (1) towards cross entropy."
    candidates = Candidates("The paper chooses from 2 to 6.", order=(2, 4, 6))

    def __init__(self, task: Task, *, order: PositiveInt = 2) -> None:
        super().__init__(task)
        self.order = order
        self.network = task.network()

    def step(self, batch: Batch, _clock: Clock) -> Step:
        """Return the mean of the series."""
        logits = self.network(batch.x).logits
        return Step({"tce": batch.mean(taylor_cross_entropy(logits, batch.label, self.order))}, seen=logits.detach())
