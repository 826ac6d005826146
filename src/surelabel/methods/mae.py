"""MAE: mean absolute error (Ghosh, Kumar and Sastry, 2017), L = |p - e_y|_1 = 2 (1 - p_y).

Summed over all labels y it is the constant 2 (K - 1), so that symmetric noise only scales the risk. Its gradient, 2 p_y (p - e_y),
vanishes for samples that the network does not believe yet: it learns slowly, and with many classes hardly at all.

The method has no hyper-parameter. The code of later papers takes 1 - p_y, half of it, which is the same at twice the learning rate;
we keep the paper's factor. The verdict is the default: the method has no term of its own for it.
"""

from surelabel.core import Batch, Clock, Method, Step, Task
from surelabel.core.losses import mean_absolute_error


class MAE(Method):
    """The loss that is provably robust to symmetric noise, and slow to learn."""

    paper = "Ghosh, Kumar and Sastry: Robust Loss Functions under Label Noise for Deep Neural Networks, AAAI"
    year = 2017
    kind = "loss"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.network = task.network()

    def step(self, batch: Batch, clock: Clock) -> Step:
        """Mean of 2 (1 - p_y)."""
        logits = self.network(batch.x).logits
        return Step({"mae": batch.mean(mean_absolute_error(logits, batch.label))}, seen=logits.detach())
