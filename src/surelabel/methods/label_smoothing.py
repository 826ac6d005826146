"""Label smoothing (Szegedy et al., 2016; studied under label noise by Lukasik et al., 2020).

    t = (1 - eps) e_y + eps / K
    L = -sum t log p = (1 - eps) CE + eps x mean over classes of -log p

eps = 0.1 is the usual value, and the loss is identical to PyTorch's `label_smoothing`. The other
convention, eps spread over the K - 1 wrong classes only, is this one with eps K / (K - 1). It is a
baseline rather than a robust loss: it softens right and wrong labels alike. The verdict is the
default one: the method has no score of its own. A label that a person has confirmed is treated like
any other.
"""

from typing import Annotated

from pydantic import Field
from torch import Tensor

from surelabel.core import Batch, Candidates, Clock, Method, Step, Task
from surelabel.core.losses import cross_entropy


def smoothed_cross_entropy(logits: Tensor, label: Tensor, smoothing: float) -> Tensor:
    """Return cross entropy to (1 - eps) e_y + eps / K, (B,)."""
    return (1 - smoothing) * cross_entropy(logits, label) - smoothing * logits.log_softmax(1).mean(1)


class LabelSmoothing(Method):
    """Cross entropy to labels of which a fraction is spread over all classes.

    Options:
        smoothing: eps, the fraction of the label that is spread over all K classes
    """

    paper = "Szegedy et al.: Rethinking the Inception Architecture for Computer Vision, CVPR"
    year = 2016
    kind = "regularisation"
    when = (
        "You need the usual baseline of regularisation. It softens right and wrong labels alike and memorises all "
        "of them on digits."
    )
    candidates = Candidates("0.1 is usual; the others are ours.", smoothing=(0.1, 0.3, 0.6))

    def __init__(self, task: Task, *, smoothing: Annotated[float, Field(ge=0, le=1)] = 0.1) -> None:
        super().__init__(task)
        self.smoothing = smoothing
        self.network = task.network()

    def step(self, batch: Batch, _clock: Clock) -> Step:
        """Return cross entropy to the smoothed labels."""
        logits = self.network(batch.x).logits
        loss = smoothed_cross_entropy(logits, batch.label, self.smoothing)
        return Step({"cross_entropy": batch.mean(loss)}, seen=logits.detach())
