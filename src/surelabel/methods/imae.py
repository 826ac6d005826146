"""IMAE: improved mean absolute error (Wang et al., 2019, arXiv 1903.12141).

The gradient with respect to the logits keeps the direction p - e_y that mean absolute error and
cross entropy have, and gets the L1 norm

    w = exp(T p_y (1 - p_y))       cross entropy: 2 (1 - p_y), mean absolute error: 4 p_y (1 - p_y)

T sets the variance of these weights over the samples, which is too small in mean absolute error. As
a loss:

    L = stop_gradient( w / (2 (1 - p_y)) ) x (-log p_y)

The VALUE of the loss has no meaning: the integral of its gradient diverges at p_y = 1. As p_y
tends to one, the norm of the gradient tends to one and not to zero, so expect larger steps than
with cross entropy. T = 8 is the authors' default; 8 and 16 are equal in their table on Clothing1M.
An undecided sample weighs exp(T / 4) times as much as one whose label the network excludes: 7
times at T = 8, 55 times at T = 16. On digits, which a network can memorise, T = 8 memorises in the
end and T = 16 does not.

We did not have the authors' Caffe code; the formula is from their slides. Our only change is a
floor for 1 - p_y. A version in circulation, exp(T p) (1 - p) |p - e_y| with a live gradient, is a
different loss. The verdict is the default one: the method has no score of its own. A label that a
person has confirmed is treated like any other.
"""

from pydantic import NonNegativeFloat
from torch import Tensor

from surelabel.core import Batch, Candidates, Clock, Method, Step, Task
from surelabel.core.losses import cross_entropy

SMALLEST_DOUBT = 1e-6
"""Floor of the divisor 1 - p_y; below it, p - e_y has no significant digits left in float32."""


def imae_weight(loss: Tensor, temperature: float) -> Tensor:
    """Return the factor (B,) of cross entropies (B,), without gradient.

    It is exp(T p_y (1 - p_y)) / (2 (1 - p_y)).
    """
    log_p = -loss.detach()
    doubt = -log_p.expm1()
    return (temperature * log_p.exp() * doubt).exp() / (2 * doubt.clamp(min=SMALLEST_DOUBT))


class IMAE(Method):
    """Cross entropy whose gradient has the norm exp(T p (1 - p)), largest for undecided samples.

    Options:
        temperature: T, how much more undecided samples weigh; the paper uses 8, 0 weighs all alike
    """

    paper = (
        "Wang et al.: IMAE for Noise-Robust Learning: Mean Absolute Error Does Not Treat Examples Equally and Gradient "
        "Magnitude's Variance Matters, arXiv 1903.12141"
    )
    year = 2019
    kind = "loss"
    when = (
        "A robust loss that keeps learning where mean absolute error stalls. Use `temperature=16` where a network "
        "can memorise everything."
    )
    candidates = Candidates("Both are in the authors' table on Clothing1M.", temperature=(8.0, 16.0))

    def __init__(self, task: Task, *, temperature: NonNegativeFloat = 8.0) -> None:
        super().__init__(task)
        self.temperature = temperature
        self.network = task.network()

    def step(self, batch: Batch, _clock: Clock) -> Step:
        """Return the mean of weighted cross entropies, of which only the gradient has a meaning."""
        logits = self.network(batch.x).logits
        loss = cross_entropy(logits, batch.label)
        return Step({"imae": batch.mean(imae_weight(loss, self.temperature) * loss)}, seen=logits.detach())
