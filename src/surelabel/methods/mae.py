"""MAE: mean absolute error (Ghosh, Kumar and Sastry, 2017), L = |p - e_y|_1 = 2 (1 - p_y).

Summed over all labels y it is the constant 2 (K - 1), so symmetric noise only scales the risk. Its
gradient, 2 p_y (p - e_y), vanishes for samples whose label the network still finds unlikely: it
learns slowly, and with many classes hardly at all.

The method has no hyperparameter. The code of later papers uses half of it, 1 - p_y, which is the
same at twice the learning rate; we keep the paper's factor. The verdict is the default one: the
method has no score of its own. A label that a person has confirmed is treated like any other.
"""

from surelabel.core import Batch, Clock, Method, Step, Task
from surelabel.core.losses import mean_absolute_error


class MAE(Method):
    """A loss that is provably robust to symmetric noise, but learns slowly."""

    paper = "Ghosh, Kumar and Sastry: Robust Loss Functions under Label Noise for Deep Neural Networks, AAAI"
    year = 2017
    kind = "loss"
    when = (
        "Few classes, and provable tolerance of symmetric noise. It learns slowly, and hardly at all with many classes."
    )

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.network = task.network()

    def step(self, batch: Batch, _clock: Clock) -> Step:
        """Return the mean of 2 (1 - p_y)."""
        logits = self.network(batch.x).logits
        return Step({"mae": batch.mean(mean_absolute_error(logits, batch.label))}, seen=logits.detach())
