"""GCE: Generalized Cross Entropy (Zhang and Sabuncu, 2018), L_q = (1 - p_y^q) / q.

Between cross entropy (q to 0) and half the mean absolute error (q = 1). q = 0.7 is the value of the paper and of every later
table. The paper was not at hand; formula and default are checked against the limits above and the public reimplementation.
"""

from typing import Annotated

from pydantic import Field

from surelabel.core import Batch, Clock, Method, Step, Task
from surelabel.losses import generalised_cross_entropy


class GCE(Method):
    """A bounded loss whose gradient is cross entropy's times p_y^q, so that samples the network doubts weigh less.

    Options:
        q: between cross entropy (near 0) and half the mean absolute error (1); the paper has 0.7
    """

    paper = (
        "Zhang and Sabuncu: Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels, NeurIPS"
    )
    year = 2018
    kind = "loss"

    def __init__(self, task: Task, *, q: Annotated[float, Field(gt=0, le=1)] = 0.7) -> None:
        super().__init__(task)
        self.q = q
        self.network = task.network()

    def step(self, batch: Batch, clock: Clock, **others: Batch) -> Step:
        """Mean of (1 - p_y^q) / q."""
        logits = self.network(batch.x).logits
        return Step({"gce": batch.mean(generalised_cross_entropy(logits, batch.label, self.q))}, seen=logits.detach())
