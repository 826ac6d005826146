"""Adaptive CAR: the confidence in a label is its posterior probability, and no option is needed.

CAR learns tau from the input alone, pays for it with lambda, and begins to correct targets at E_c.
All three must suit the data: docs/theory.md shows that the best tau of a one-hot target is
min(1, lambda / ((1 + lambda)(1 - p_y))), so lambda sets how large p_y must be before a label is
trusted, and no constant is right for easy and for hard data. Here the confidence comes from Bayes'
rule instead. Before training, a second opinion (docs/decisions/0011) gives for every row

    c_k    P(true class = k | input), by models that have not seen the row's own label
    T_ky   P(given label = y | true class = k), fitted to the given labels

and training adds the running mean m of the row's predictions over all visits:

    t_k = c_k m_k^s T_ky / sum_j c_j m_j^s T_jy        at every visit, before the loss
    L   = -sum_k t_k log p_k
    tau = t_y                                          the confidence in the given label

The gradient is p - t. Where the label is surely right, tau is 1 and the loss is cross entropy;
where it is surely wrong, the label has no weight, as in CAR, and the target is the class that both
opinions name. Targets are right from the first step, so that there is no E_c, and c stays part of
them, so that the network cannot talk itself into what it has memorised.

s weighs the network's evidence. It is the log odds that a prediction on these data is right,
log a - log(1 - a), where a is the mean of max_k c_k: on data that are easy to predict the network
soon knows better than the second opinion, on hard data it mostly repeats its targets. That is the
weight of a voter who is right with probability a.

Without a second opinion (fewer than 30 rows, or so many that it would take minutes) c is uniform,
s is 2, and T begins at 20 % noise and is fitted to the targets after every epoch.

docs/decisions/0021 has the ablations, on data that this rule was chosen on and on other data.
"""

import math
from collections.abc import Iterable, Iterator

import torch
from pydantic import NonNegativeFloat
from torch import Tensor

from surelabel.core import (
    Batch,
    Candidates,
    Clock,
    Method,
    Pass,
    Rows,
    Run,
    SampleStore,
    Stage,
    Step,
    TargetTable,
    Task,
    Verdict,
    View,
    rank,
    total,
)
from surelabel.core.losses import cross_entropy
from surelabel.core.state import row_chunks
from surelabel.core.tables import EVERY_FORM

LEAST = 1e-8
"""Smaller probabilities count as this one, so that no evidence is infinite."""
EVIDENCE_ALONE = 2.0
"""s without a second opinion: 1 memorises wrong labels, 4 collapses on hard data."""
FIRST_RATE = 0.2
"""Share of wrong labels from which T is fitted without a second opinion."""
PRIOR_ROWS = 5.0
"""Rows at that rate that every class is averaged with."""


class AdaptiveCAR(Method):
    """CAR without options to set: a second opinion and training together weigh every label.

    Options:
        evidence: s, the weight of the network's own predictions in the targets; default the log
          odds that a prediction on these data is right; 0 trains on the second opinion alone
        second_opinion: whether to use one; without it targets rest on training alone
    """

    paper = "ours: docs/decisions/0021, after Lu, Bo and He, arXiv 2108.08212"
    year = 2026
    kind = "label correction"
    when = (
        "You want CAR and cannot tune it. It takes seconds more, for a second opinion before training. Without "
        "tuning it came within a point of CAR's best lambda on five of six small tasks."
    )
    table_forms = EVERY_FORM
    candidates = Candidates("Ours: the rule, and constants around what it finds.", evidence=(None, 0.0, 1.0, 2.0))

    transition: Tensor
    weight: Tensor
    is_prepared: Tensor
    has_opinion: Tensor

    def __init__(self, task: Task, *, evidence: NonNegativeFloat | None = None, second_opinion: bool = True) -> None:
        super().__init__(task)
        self.evidence, self.second_opinion = evidence, second_opinion
        self.network = task.network()
        self.opinion = task.class_table(fill=1.0)
        self.mean = task.class_table(fill=1 / task.num_classes)
        self.visits = SampleStore(task.num_samples, fill=1)
        self.target = task.class_table(one_hot=True)
        self.register_buffer("transition", first_transition(task.num_classes))
        self.register_buffer("weight", torch.tensor(EVIDENCE_ALONE if evidence is None else evidence))
        self.register_buffer("is_prepared", torch.tensor(False))
        self.register_buffer("has_opinion", torch.tensor(False))

    def stages(self) -> list[Stage]:
        """Return one stage; what targets are made of is computed before each of its epochs."""
        return [Stage("train", self.task.epochs, self.step, plan=self.prepare)]

    def prepare(self, run: Run) -> list[Pass]:
        """Ask for the second opinion once; without one fit T again, once there are targets."""
        has_targets = bool(self.is_prepared)
        if not has_targets:
            self._hear_opinion()
            self.is_prepared.fill_(True)
        if has_targets and not self.has_opinion:
            self.transition.copy_(fit_transition(self._targets()))
        tau = torch.cat([target.gather(1, given[:, None]) for target, given in self._targets()])
        run.note("wrong_labels", float(1 - tau.mean()))
        run.note("evidence_weight", float(self.weight))
        return [Pass(self.step, {"batch": View()})]

    def _chunks(self) -> Iterator[Tensor]:
        return row_chunks(self.task.num_samples, self.task.num_classes, self.given.device)

    def _targets(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield targets and given labels of all rows, in chunks."""
        return ((self.target.read(index), self.given[index]) for index in self._chunks())

    def _hear_opinion(self) -> None:
        """Store the second opinion, which the first process forms, on all processes."""
        found = self.task.opinion() if self.second_opinion and rank() == 0 else None
        self.has_opinion.fill_(total(torch.tensor(float(found is not None), device=self.weight.device)) > 0)
        if not self.has_opinion:
            return
        transition = torch.zeros_like(self.transition)
        self.transition.copy_(total(transition if found is None else found.transition.to(transition)))
        largest = []
        for index in self._chunks():
            probability = self.transition.new_zeros(len(index), self.task.num_classes)
            if found is not None:
                probability = found.probability[int(index[0]) : int(index[-1]) + 1].to(probability)
            probability = total(probability)
            largest.append(probability.amax(1))
            self.opinion.write(index, probability.clamp(min=LEAST))
            self.target.write(index, self._posterior(self.opinion.read(index).log(), self.given[index]))
        if self.evidence is None:
            self.weight.fill_(log_odds(torch.cat(largest)))

    def _posterior(self, log_evidence: Tensor, given: Tensor) -> Tensor:
        """Return (B, K) probabilities of the true class, by the input and by the label."""
        return (log_evidence + self.transition.clamp(min=LEAST).log()[:, given].T).softmax(1)

    def step(self, batch: Batch, clock: Clock) -> Step:  # noqa: ARG002 - the engine passes it
        """Add the prediction to its mean, form the posterior, and compute cross entropy with it."""
        logits = self.network(batch.x).logits
        visits = self.visits.read(batch.index)
        self.mean.blend(batch.index, logits.detach().float().softmax(1), visits / (visits + 1))
        self.visits.write(batch.index, visits + 1)
        evidence = self.opinion.read(batch.index).log()
        evidence = evidence + self.weight * self.mean.read(batch.index).clamp(min=LEAST).log()
        self.target.write(batch.index, self._posterior(evidence, batch.label))
        loss = cross_entropy(logits, self.target.read(batch.index))
        return Step({"cross_entropy": batch.mean(loss)}, seen=logits.detach())

    def target_tables(self) -> list[TargetTable]:
        """Return the table of t."""
        return [TargetTable(self.target)]

    def verdict(self, rows: Rows) -> Verdict:
        """Return the default quality, the running mean of p_y, and t, whose entry at y is tau.

        tau ranks labels too, but it holds the second opinion, with which the audit combines the
        quality: that would count it twice.
        """
        target = self.target.read(rows.index)
        return Verdict(rows.mean_given_probability, target, {"tau": rows.at_given(target)})


def first_transition(num_classes: int) -> Tensor:
    """Return (K, K) P(given | true) at FIRST_RATE, even over the other classes."""
    others = FIRST_RATE / max(1, num_classes - 1)
    return torch.full((num_classes, num_classes), others).fill_diagonal_(1 - FIRST_RATE)


def fit_transition(chunks: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """Return (K, K) P(given | true) from chunks of (n, K) targets and (n,) given labels."""
    counts: Tensor | None = None
    for target, given in chunks:
        counts = target.new_zeros(target.shape[1], target.shape[1]) if counts is None else counts
        counts.index_add_(0, given, target)
    assert counts is not None
    smoothed = counts.T + PRIOR_ROWS * first_transition(len(counts)).to(counts)
    return smoothed / smoothed.sum(1, keepdim=True)


def log_odds(largest: Tensor) -> float:
    """Return the log odds that the likeliest class is right, from its (N,) p; at least 0."""
    right = float(largest.double().mean().clamp(LEAST, 1 - LEAST))
    return max(0.0, math.log(right / (1 - right)))
