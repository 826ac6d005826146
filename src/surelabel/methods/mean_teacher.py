"""Mean teacher (Tarvainen and Valpola, 2017): agree with a running average of one's own weights.

    theta' <- a theta' + (1 - a) theta  after every optimiser step,  a = min(1 - 1 / (t + 1), decay),  t counted from 1
    L = CE(student(x), y) + w(e) (1 / K) |softmax(student(x)) - softmax(teacher(x'))|^2
    w(e) = weight exp(-5 (1 - e / R)^2) while e < R, then weight

x and x' are two augmentations of a sample; no gradient reaches the teacher, and the teacher predicts. With a = 1 - 1 / (t + 1)
the teacher is at first the plain mean of all weights so far. Here every sample is labelled, maybe wrongly, so the cross entropy
counts for all of them.

Defaults are those of the authors' CIFAR-10 experiment file (PyTorch): weight 100 and a ramp R of 5 of 180 epochs. Their decay
there is 0.97, and 0.999 is the default of their command line; under wrong labels the longer memory is the point, so 0.999
(digits, 40 % symmetric, 100 epochs, seed 0: 0.955, against 0.674 with 0.97 and 0.696 without consistency).

Without augmentation (features, tiny images) x = x', and the networks have no dropout: the two predictions then differ only by
how the weights have moved over the last 1 / (1 - decay) steps. The term then holds predictions to their own past, which by itself
slows memorisation: the digits figures above are of that case, and averaging weights without the term does nothing there.

Where we differ from the authors' code:

- Batch-norm statistics of the teacher are copies of the student's (theirs: its own, from forward passes in training mode), as
  everywhere in this package. In training the teacher normalises by the batch, like the student.
- The distance cost of two output heads (their 0.01) is left out: it belongs to a network with two heads.
- Verdict: the default, running mean of the student's p at the given label; on digits it beats the teacher's final p.
"""

import math
from functools import partial
from typing import Annotated

from pydantic import Field, NonNegativeFloat, PositiveInt
from torch import Tensor

from surelabel.core import EMA, Batch, Clock, Method, Pass, Run, Stage, Step, Task, View
from surelabel.core.losses import cross_entropy

PUBLISHED_RAMP_SHARE = 5 / 180


def warmed_up(update: int, decay: float) -> float:
    """The share of the old average that stays in the `update`-th update, counted from 1."""
    return min(1 - 1 / (update + 1), decay)


def ramp_up(progress: float, length: int) -> float:
    """exp(-5 (1 - e / R)^2), and 1 from e = R on."""
    return math.exp(-5 * max(0.0, 1 - progress / length) ** 2)


def disagreement(logits: Tensor, teacher_logits: Tensor) -> Tensor:
    """(B,) squared distance of the two softmaxes, mean over classes; no gradient flows to the teacher."""
    return (logits.softmax(1) - teacher_logits.detach().softmax(1)).square().mean(1)


class MeanTeacher(Method):
    """A student that agrees with the average of its own past weights, which predicts.

    Options:
        decay: share of the old average that stays in an update
        consistency_weight: largest weight of the disagreement between student and teacher
        ramp: R, epochs over which that weight grows; default the published share, 5/180
    """

    paper = "Tarvainen and Valpola: Mean teachers are better role models, NeurIPS"
    year = 2017
    kind = "regularisation"
    forward_passes = 2

    def __init__(
        self,
        task: Task,
        *,
        decay: Annotated[float, Field(ge=0, lt=1)] = 0.999,
        consistency_weight: NonNegativeFloat = 100.0,
        ramp: PositiveInt | None = None,
    ) -> None:
        super().__init__(task)
        self.consistency_weight = consistency_weight
        self.ramp = task.share(PUBLISHED_RAMP_SHARE) if ramp is None else ramp
        self.network = task.network()
        self.teacher = EMA(self.network, partial(warmed_up, decay=decay))

    def stages(self) -> list[Stage]:
        """One stage, on two augmentations of every sample."""
        return [Stage("train", self.task.epochs, self.step, plan=self.plan)]

    def plan(self, run: Run) -> list[Pass]:
        """All samples, each in two copies."""
        return [Pass(self.step, {"batch": View(copies=2)})]

    def step(self, batch: Batch, clock: Clock) -> Step:
        """Cross entropy, and the disagreement with the teacher's view of the second copy."""
        first, second = batch.views
        logits = self.network(first).logits
        weight = self.consistency_weight * ramp_up(clock.progress, self.ramp)
        terms = {
            "cross_entropy": batch.mean(cross_entropy(logits, batch.label)),
            "consistency": weight * batch.mean(disagreement(logits, self.teacher(second).logits)),
        }
        return Step(terms, seen=logits.detach())

    def predict(self, x: Tensor) -> Tensor:
        """The teacher's probabilities."""
        return self.teacher(x).logits.softmax(1)
