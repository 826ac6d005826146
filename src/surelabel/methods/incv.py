"""INCV, iterative noisy cross-validation (Chen et al., 2019): select, then train on the selection.

S is the set of selected samples (empty at first), C that of the candidates (all). Each iteration
splits C at random into halves; from the same initial weights a network is trained on S and one
half, and judges the OTHER half by its given labels:

    select    the samples whose given label it predicts
    remove    the r x |selected| samples with the largest loss that were not selected
    after the very first half: the noise rate eps solves (1 - eps)^2 + eps^2 / (K - 1) = share
    selected;  r = min(2, eps / (1 - eps))

The main stage is Co-teaching on S, whose noise rate is about eps_S = eps^2 / (eps^2 + (K - 1)
(1 - eps)^2), with candidates added after some epochs. Of a batch with n rows of S, the
n (1 - eps_S min(1, e / ramp)) rows with the smallest losses are selected, whether they belong to S
or not, and the other network is trained on them.

Published: 4 iterations of 2 x 50 epochs, then 200 epochs (ramp 10; candidates after 40, or 80 if
eps > 0.6). As shares of the run: a twelfth for each half and a third for the main stage. A half
gets at least five epochs; a run too short for that has fewer iterations, and one of fewer than
three epochs has none.

Where we differ from the authors' code:

- It is told whether noise is asymmetric; then nothing is removed, candidates join later, only the
  first iteration keeps its best epoch, and eps_S has 1 in place of K - 1. Here that is the option
  `asymmetric`; eps is solved in closed form, by the symmetric formula in both cases, as in theirs.
- The best epoch is the one with the lowest loss on the noisy half (theirs: the highest accuracy
  there). As in their code the last epoch is used after iteration 2 if eps > 0.3, and after
  iteration 1 if eps > 0.6.
- An epoch has min(|C|, |S| / 2) newly drawn candidates, shuffled among S; theirs are a second batch
  of the size that amounts to this number.
- Nothing is removed where r x |selected| is below one (their slice [-0:] then removes everything),
  and a share below chance means eps = 1 - 1 / K (their search runs to 1).
- A label that a person has confirmed is in S from the start, so that every network is trained on
  it, and it is never left out of the main stage. eps is then the rate of the other labels.
- Predictions of the main stage are the mean of both networks; the metrics have the single ones
  under `networks`.
- The optimiser's moments are reset in each half, and rates follow the run's schedule within each
  stage.

The verdict is the default, the running mean of p at the given label over all stages: its AUROC on
digits (100 epochs) is 0.996 and 0.998 at 40 % symmetric noise (seeds 0 and 1) and 0.970 at 30 %
pair flip. The selection alone has 0.967, 0.978 and 0.844, and p of held-out networks at the label
0.981, 0.985 and 0.908; both are evidence. The corrected label is the final prediction.
"""

import math
from functools import partial

import torch
from pydantic import PositiveInt
from torch import Tensor

from surelabel.core import (
    Batch,
    Candidates,
    Clock,
    Method,
    Pass,
    Problem,
    Rows,
    Run,
    SampleStore,
    Stage,
    Step,
    Task,
    Verdict,
    View,
    total,
)
from surelabel.core.losses import cross_entropy
from surelabel.core.stages import seed_of
from surelabel.methods._advice import warn_of_short_run
from surelabel.methods._selection import easiest, smallest

PUBLISHED_HALF, PUBLISHED_MAIN, PUBLISHED_ITERATIONS = 50, 200, 4
PUBLISHED_EPOCHS = 2 * PUBLISHED_ITERATIONS * PUBLISHED_HALF + PUBLISHED_MAIN
LEAST_HALF = 5
"""Epochs of a half, at least: after fewer, predictions do not separate right from wrong labels."""
MOST_REMOVED = 2.0
"""Samples removed per selected sample, at most."""


def noise_rate(agreement: float, num_classes: int) -> float:
    """Return the smaller eps with (1 - eps)^2 + eps^2 / (K - 1) = agreement, at most 1 - 1 / K."""
    factor = num_classes / (num_classes - 1)
    return (1 - math.sqrt(max(0.0, 1 - factor * (1 - agreement)))) / factor


def noise_rate_of_selected(rate: float, num_wrong: int) -> float:
    """Return eps_S: the label and a prediction as noisy as it are wrong in the same way.

    A wrong label is one of `num_wrong` classes: K - 1 if noise is symmetric, else 1.
    """
    wrong = rate**2
    return wrong / (wrong + num_wrong * (1 - rate) ** 2)


def lengths(epochs: int, most_iterations: int = PUBLISHED_ITERATIONS) -> tuple[int, int, int]:
    """Return the numbers of iterations, epochs of a half and epochs of the main stage."""
    validating = round(epochs * (1 - PUBLISHED_MAIN / PUBLISHED_EPOCHS))
    half = max(epochs * PUBLISHED_HALF // PUBLISHED_EPOCHS, LEAST_HALF)
    half = max(1, min(half, validating // 2))
    iterations = min(most_iterations, validating // (2 * half))
    return iterations, half, epochs - 2 * iterations * half


class INCV(Method):
    """Cross-validation selects samples whose label it predicts; two networks train on these.

    Options:
        iterations: how often the candidates are halved, at most; 4 in the paper
        asymmetric: whether the wrong labels of a class are all of one other class; no candidate is
          removed then, and they join later
    """

    paper = "Chen et al.: Understanding and Utilizing Deep Neural Networks Trained with Noisy Labels, ICML"
    year = 2019
    kind = "selection"
    when = (
        "You have time for cross-validation and want a clean subset to train on. It spends two thirds of the run "
        "on selecting."
    )
    # In the main stage; the halves train one network.
    forward_passes = 2
    backward_passes = 2
    candidates = Candidates("The authors' switch for the kind of noise.", asymmetric=(False, True))

    rate: Tensor
    halves_done: Tensor
    selected: Tensor
    candidate: Tensor
    chosen: Tensor
    removed: Tensor

    def __init__(self, task: Task, *, iterations: PositiveInt = PUBLISHED_ITERATIONS, asymmetric: bool = False) -> None:
        super().__init__(task)
        self.first, self.second = task.network(), task.network()
        self.asymmetric = asymmetric
        self.iterations, self.half_epochs, self.main_epochs = lengths(task.epochs, iterations)
        self.register_buffer("rate", torch.tensor(torch.nan))
        self.register_buffer("halves_done", torch.tensor(0))
        for name in ("chosen", "removed"):
            self.register_buffer(name, torch.zeros(task.num_samples, dtype=torch.bool))
        self.register_buffer("selected", self.trusted.clone())
        self.register_buffer("candidate", ~self.trusted)
        # Chance, until a network that was not trained on the sample has judged it.
        self.held_out = SampleStore(task.num_samples, task.num_classes, fill=1 / task.num_classes)

    def stages(self) -> list[Stage]:
        """Train on two halves in each iteration, then run the main stage."""
        halves = [self.half_stage(iteration, side) for iteration in range(1, self.iterations + 1) for side in (0, 1)]
        return [*halves, Stage("train", self.main_epochs, self.step, plan=self.plan, reset="initial")]

    def advice(self, problem: Problem) -> list[str]:
        """Warn of a run without cross-validation."""
        if problem != "settings":
            return super().advice(problem)
        judged = self.half_epochs if self.iterations else 0
        return warn_of_short_run(self.task, judged, "no label is cross-validated")

    # Cross-validation.

    def half_stage(self, iteration: int, side: int) -> Stage:
        """Return the stage that trains on one half of the candidates and judges the other."""
        halves = self.halves(iteration)
        trained, judged = halves[side], halves[1 - side]
        best = len(judged) > 0 and iteration <= self.iterations_that_keep_best()
        return Stage(
            f"iteration {iteration}{'ab'[side]}",
            self.half_epochs,
            self.half_step,
            plan=[Pass(self.half_step, {"batch": self.with_selected(trained)})],
            then=partial(self.judge, iteration, side),
            reset="initial",
            keep="best" if best else "last",
            validate_on=View(judged, augment=False) if best else None,
        )

    def iterations_that_keep_best(self) -> int:
        """Return the last iteration whose halves keep their best epoch."""
        if self.asymmetric or self.rate > 0.6:
            return 1
        return 2 if self.rate > 0.3 else self.iterations

    def halves(self, iteration: int) -> tuple[Tensor, Tensor]:
        """Return the positions of the candidates in two random halves, fixed for an iteration."""
        generator = torch.Generator().manual_seed(seed_of(self.task.seed, "halves", iteration))
        order = torch.randperm(self.task.num_samples, generator=generator).to(self.candidate.device)
        order = order[self.candidate[order]]
        middle = -(-len(order) // 2)
        return order[:middle], order[middle:]

    def with_selected(self, half: Tensor) -> View:
        """Return the selected samples and a half of the candidates; all samples if too few."""
        rows = torch.cat([self.selected.nonzero().squeeze(1), half])
        return View(rows if len(rows) > 1 else None)

    def half_step(self, batch: Batch, _clock: Clock) -> Step:
        """Compute the cross entropy of the first network."""
        logits = self.first(batch.x).logits
        return Step({"cross_entropy": batch.mean(cross_entropy(logits, batch.label))}, seen=logits.detach())

    def judge(self, iteration: int, side: int, run: Run) -> None:
        """Judge the half that was not trained on; the second half ends the iteration."""
        judged = self.halves(iteration)[1 - side]
        if len(judged):
            self.judge_rows(judged, run)
        self.halves_done += 1
        if side == 1:
            self.close_iteration(run)

    def judge_rows(self, rows: Tensor, run: Run) -> None:
        """Mark rows whose label is predicted, and rows with the largest losses."""
        probability = run.collect(lambda batch: self.first(batch.x).logits.softmax(1), View(rows, augment=False))
        at_given = probability.gather(1, self.given[rows][:, None]).squeeze(1)
        agrees = probability.argmax(1) == self.given[rows]
        if self.rate.isnan():
            self.rate.fill_(noise_rate(agrees.float().mean().item(), self.task.num_classes))
            run.note("noise_rate", float(self.rate))
        ratio = min(MOST_REMOVED, float(self.rate / (1 - self.rate)))
        self.chosen[rows] = agrees
        self.removed[rows] = smallest(at_given, int(ratio * int(agrees.sum()))) & ~agrees
        held_out = self.held_out.whole()
        held_out[rows] = probability
        self.held_out.replace(held_out)

    def close_iteration(self, run: Run) -> None:
        """Move chosen rows from the candidates to the selected, and drop removed ones."""
        self.selected |= self.chosen
        self.candidate &= ~self.chosen
        if not self.asymmetric:
            self.candidate &= ~self.removed
        self.chosen.zero_()
        self.removed.zero_()
        run.note("selected_share", self.selected.float().mean().item())

    # The main stage.

    def believed(self) -> Tensor:
        """Return (N,) the selected samples; all of them if none were judged or too few chosen."""
        has_selected = not self.rate.isnan() and int(self.selected.sum()) > 1
        return self.selected if has_selected else torch.ones_like(self.selected)

    def forget_rate(self) -> float:
        """Return the share of believed samples to leave out: eps_S, or eps if all are believed."""
        if self.rate.isnan():
            return 0.0
        rate = float(self.rate)
        num_wrong = 1 if self.asymmetric else self.task.num_classes - 1
        return noise_rate_of_selected(rate, num_wrong) if int(self.selected.sum()) > 1 else rate

    def main_share(self, published: int) -> int:
        """Rescale a published number of epochs to the main stage."""
        return max(1, round(self.main_epochs * published / PUBLISHED_MAIN))

    def plan(self, run: Run) -> list[Pass]:
        """Plan a pass over the selected samples and, later, some of the candidates."""
        rows = self.believed().nonzero().squeeze(1)
        others = (self.candidate & ~self.believed()).nonzero().squeeze(1)
        if run.clock.epoch > self.main_share(80 if self.asymmetric or self.rate > 0.6 else 40):
            order = torch.randperm(len(others), generator=run.rng).to(others.device)
            rows = torch.cat([rows, others[order[: len(rows) // 2]]])
        return [Pass(self.step, {"batch": View(rows)})]

    def step(self, batch: Batch, clock: Clock) -> Step:
        """Compute each network's mean loss over the samples that the other selects."""
        logits = [self.first(batch.x).logits, self.second(batch.x).logits]
        losses = [cross_entropy(z, batch.label) for z in logits]
        num_believed = total((batch.weight * self.believed()[batch.index]).sum())
        ramp = min(1.0, clock.epoch / self.main_share(10))
        kept = float(num_believed / total(batch.weight.sum())) * (1 - self.forget_rate() * ramp)
        certain = self.trusted[batch.index]
        by_first, by_second = (easiest(loss, batch, 1 - kept, certain=certain) for loss in losses)
        terms = {"first": batch.mean(losses[0], where=by_second), "second": batch.mean(losses[1], where=by_first)}
        return Step(terms, seen=torch.stack(logits).detach().mean(0))

    def predict(self, x: Tensor) -> Tensor:
        """Predict with the first network in the halves, which train no other; then with both."""
        if self.halves_done < 2 * self.iterations:
            logits: Tensor = self.first(x).logits
            return logits.softmax(1)
        return super().predict(x)

    def verdict(self, rows: Rows) -> Verdict:
        """Return the default; the evidence is whether a row was selected, and its held-out p_y."""
        held_out = rows.at_given(self.held_out.read(rows.index))
        evidence = {"selected": self.selected[rows.index].float(), "held_out_probability": held_out}
        return Verdict(rows.mean_given_probability, rows.prediction, evidence)
