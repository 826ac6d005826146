"""The one loop: it executes a method's stages and nothing else. It knows no method, model or data set by name."""

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from surelabel.config import OptimiserConfig, RunConfig
from surelabel.core.batch import Batch
from surelabel.core.collective import gathered
from surelabel.core.losses import cross_entropy
from surelabel.core.method import Method, Step
from surelabel.core.stages import Clock, Pass, Stage, View, seed_of
from surelabel.core.state import EMA
from surelabel.data.corpus import Corpus
from surelabel.data.loader import Loader, draw_epoch
from surelabel.engine import checkpoint, distributed
from surelabel.engine.checkpoint import Position, Snapshot
from surelabel.engine.evaluate import in_eval_mode
from surelabel.engine.metrics import Metrics
from surelabel.engine.optim import make_optimiser, rate_at, set_rate
from surelabel.engine.record import SampleRecord
from surelabel.errors import NotFiniteError
from surelabel.runs.run_dir import RunDir

SAVE_EVERY = 20.0
"""Seconds: state is saved at the end of an epoch, but not more often than this."""


SHOWN_IDS = 64
"""Samples of a batch that an error names."""


class Progress(Protocol):
    """Who is told how training goes."""

    def begin(self, num_epochs: int, done: int) -> None:
        """Training starts, or goes on after `done` epochs."""

    def step(self, epoch: int, batch: int, num_batches: int, loss: float) -> None:
        """A batch was trained on."""

    def epoch(self, row: dict[str, Any]) -> None:
        """An epoch has ended with these metrics."""

    def warn(self, text: str) -> None:
        """Something the user should know."""


class Interrupted(KeyboardInterrupt):
    """Training was asked to stop, by Ctrl-C or a signal; its state is saved."""


@dataclass(frozen=True)
class Setup:
    """Everything the engine is handed."""

    config: RunConfig
    corpus: Corpus
    make_method: Callable[[int], Method]
    """The method, with networks drawn from a seed."""
    loader: Loader
    """Batches of the training rows."""
    run_dir: RunDir
    fabric: Any
    progress: Progress
    interrupt: Callable[[], bool] = lambda: False
    """Asked after each step whether to save and stop."""


class Engine:
    """Runs a method from its first step, or from a saved state, to its end. It is also the Run that methods are handed."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.config, self.loader = setup, setup.config, setup.loader
        self.fabric, self.device = setup.fabric, setup.fabric.device
        self.method = setup.make_method(self.config.train.seed)
        self.averages = [module for module in self.method.modules() if isinstance(module, EMA)]
        self._fix_trusted()
        distributed.wrap(self.fabric, self.method, self.config.train.replicate_below)
        train = setup.corpus.train
        self.record = SampleRecord(train.label, setup.corpus.num_classes).to(self.device)
        self.position = Position()
        self.plan: list[Pass] = []
        self.sums: dict[str, Tensor] = {}
        self.history: list[dict[str, Any]] = []
        self.notes: dict[str, Any] = {}
        self.best: dict[str, Any] | None = None
        self.optimiser: Any = None
        self.saved_at = time.monotonic()
        self.known_epochs = self.num_epochs
        self.metrics = Metrics(self)

    def _fix_trusted(self) -> None:
        """Labels that a person has confirmed stay what a loss aims at: as the table starts, or one-hot if it starts empty."""
        trusted = self.method.trusted
        if trusted.any():
            given = F.one_hot(self.method.given, self.setup.corpus.num_classes)
            for table in self.method.target_tables():
                rows = table.whole()
                table.freeze(trusted, torch.where(rows.sum(1, keepdim=True) > 0, rows, given.to(rows)))

    # The Run that methods see.

    @property
    def all(self) -> Tensor:
        """(N,) every position of the training set."""
        return torch.arange(len(self.setup.corpus.train))

    @property
    def clock(self) -> Clock:
        """Where training stands, at the start of the current epoch."""
        return self._clock(self._stage_now(), 0, 1)

    @property
    def rng(self) -> torch.Generator:
        """Equal on all ranks, and new in every epoch."""
        return self.clock.generator("run")

    def collect(self, function: Callable[[Batch], Tensor], view: View, train_mode: bool = False) -> Tensor:
        """`function` of every batch of `view`, without gradient, in the view's order, equal on all ranks."""
        seed = seed_of(self.config.train.seed, "collect", self.position.run_epoch)
        return in_eval_mode(self.method, lambda: self.loader.collect(function, view, seed), train_mode)

    def note(self, name: str, value: Any) -> None:
        """Keep an estimate in this epoch's metrics."""
        self.notes[name] = value

    # Stages, epochs, steps.

    def run(self, resume: bool = False) -> None:
        """Train to the end; raises Interrupted, with the state saved, if asked to stop."""
        if resume:
            state = self._resume()
        else:
            state = None
            if distributed.is_first():
                self.setup.run_dir.rewrite_metrics([])
        self.setup.progress.begin(self.num_epochs, self.position.run_epoch - self.position.is_open)
        self.method.train()
        while stage := next((s for s in self.method.stages() if s.name not in self.position.finished), None):
            if self.position.stage != stage.name:
                self._begin_stage(stage)
            elif state is not None:
                self.optimiser = self._make_optimiser(stage)
                self.optimiser.load_state_dict(state["optimiser"])
            state, self.known_epochs = None, self.num_epochs
            self._run_stage(stage)

    def _run_stage(self, stage: Stage) -> None:
        while self.position.is_open or not self.position.is_over:
            if not self.position.is_open:
                self._open_epoch(stage)
            self._run_epoch(stage)
            self._close_epoch(stage)
        self._end_stage(stage)

    def _begin_stage(self, stage: Stage) -> None:
        self.position.stage, self.position.epoch, self.best = stage.name, 0, None
        self.position.is_over = stage.epochs < 1
        if stage.reset is not None:
            seed = self.config.train.seed
            fresh = self.setup.make_method(seed if stage.reset == "initial" else seed_of(seed, stage.name))
            self._load_learners({name: learner.state_dict() for name, learner in distributed.learners(fresh).items()})
        self.optimiser = self._make_optimiser(stage)

    def _make_optimiser(self, stage: Stage) -> Any:
        networks = {name: distributed.unwrapped(network) for name, network in self.method.networks().items()}
        model = self.config.model
        optimiser = make_optimiser(self._settings(stage), networks, 1.0 if model.is_frozen else model.backbone_rate)
        return self.fabric.setup_optimizers(optimiser)

    def _open_epoch(self, stage: Stage) -> None:
        now = self.position
        self.position = Position(
            finished=now.finished, stage=now.stage, epoch=now.epoch + 1, run_epoch=now.run_epoch + 1, is_open=True
        )
        self.sums = {}
        plan = list(stage.plan(self)) if stage.plan is not None else [Pass(stage.step, {"batch": View()})]
        self.plan = [self._of_this_epoch(walk, number) for number, walk in enumerate(plan)]

    def _of_this_epoch(self, walk: Pass, number: int) -> Pass:
        """A pass over as many of its rows as an epoch is said to have, drawn anew for each epoch."""
        epoch, now = self.config.data.epoch, self.position
        if epoch == "all":
            return walk
        views = {}
        for name, view in walk.views.items():
            count = epoch.batches * (view.batch_size or self.config.train.batch_size)
            seed = seed_of(self.config.train.seed, "epoch", now.stage, now.epoch, number, name)
            rows = draw_epoch(self.loader.rows(view), self.method.given.cpu(), count, epoch.balanced, seed)
            views[name] = replace(view, indices=rows)
        return Pass(walk.step, views)

    def _run_epoch(self, stage: Stage) -> None:
        settings, began = self._settings(stage), time.perf_counter()
        for number in range(self.position.pass_number, len(self.plan)):
            current = self.plan[number]
            bounds = self.loader.bounds(next(iter(current.views.values())))
            place = f"{stage.name}/{self.position.epoch}/{number}"
            for batches in self.loader.passes(current.views, place, start=self.position.batch_number):
                clock = self._clock(stage, self.position.batch_number, len(bounds))
                loss = self._train_step(current.step, batches, clock, settings)
                begin, end = bounds[self.position.batch_number]
                self.position.batch_number += 1
                self.position.num_samples += end - begin
                self.setup.progress.step(self.position.run_epoch, self.position.batch_number, len(bounds), loss)
                if distributed.anybody(self.setup.interrupt(), self.device):
                    self.position.seconds += time.perf_counter() - began
                    self.save()
                    raise Interrupted
            self.position.pass_number, self.position.batch_number = number + 1, 0
        self.position.seconds += time.perf_counter() - began

    def _train_step(
        self, step: Callable[..., Step], batches: dict[str, Batch], clock: Clock, settings: OptimiserConfig
    ) -> float:
        batch, *_ = batches.values()
        others = {name: other for number, (name, other) in enumerate(batches.items()) if number}
        set_rate(self.optimiser, rate_at(settings, clock))
        with self.fabric.autocast():
            done = step(batch, clock, **others)
        loss = torch.stack(list(done.terms.values())).sum()
        value = loss.item()
        if value - value != 0:  # true for NaN and both infinities
            self._refuse(done, batch)
        self.optimiser.zero_grad()
        self.fabric.backward(loss)
        self.metrics.after_backward(batch, is_mixed=done.seen is None)
        if settings.clip is not None:
            self._clip(settings.clip)
        self.optimiser.step()
        for average in self.averages:
            if any(p.grad is not None for p in average.source.parameters()):
                average.advance()
        if done.seen is not None:
            self.record.see(batch.index, done.seen.float(), batch.label)
        self.metrics.add(done.terms)
        return value

    def _clip(self, clip: float) -> None:
        self.fabric.strategy.precision.unscale_gradients(self.optimiser.optimizer)
        for network in self.method.networks().values():
            torch.nn.utils.clip_grad_norm_(network.parameters(), clip)

    def _refuse(self, step: Step, batch: Batch) -> None:
        guilty = [name for name, term in step.terms.items() if not bool(torch.isfinite(term))]
        index = gathered(batch.index)
        rows = index[index >= 0].tolist()
        ids = ", ".join(map(str, self.setup.corpus.train.ids[rows[:SHOWN_IDS]])) + ", ..." * (len(rows) > SHOWN_IDS)
        raise NotFiniteError(
            f"loss term {', '.join(guilty) or 'sum'} is not finite in epoch {self.position.run_epoch}, batch "
            f"{self.position.batch_number + 1}, samples {ids}; {self._how_to_go_on()}"
        )

    def _check_weights(self) -> None:
        """A step whose gradient was not finite leaves weights that must not be kept."""
        for name, learner in distributed.learners(self.method).items():
            if not all(bool(torch.isfinite(p).all()) for p in learner.parameters()):
                raise NotFiniteError(
                    f"the weights of {name} are not finite after epoch {self.position.run_epoch}, batch "
                    f"{self.position.batch_number}; {self._how_to_go_on()}"
                )

    def _how_to_go_on(self) -> str:
        advice = "--set optimiser.rate=... or --set optimiser.clip=5"
        if not self.setup.run_dir.state_file.exists():
            return f"no state was saved yet; start again with a smaller rate: {advice}"
        path = shlex.quote(str(self.setup.run_dir.path))
        return f"the last saved state is kept; go on with: surelabel resume {path} {advice}"

    def _close_epoch(self, stage: Stage) -> None:
        self._check_weights()
        self.position.is_open = False
        self.position.is_over = self.position.epoch >= stage.epochs
        distributed.share_buffers(self.method)
        rate = rate_at(self._settings(stage), self._clock(stage, 0, 1))
        row = self.metrics.close_epoch(rate, is_last=self._is_last_epoch())
        if stage.keep == "best":
            self._keep_best(stage, row)
        self.history.append(row)
        if not self.position.is_over and stage.stop is not None and stage.stop(self):
            self.position.is_over = True
            if self._is_last_epoch():
                row.update(self.metrics.evaluated())
        if distributed.is_first():
            self.setup.run_dir.append_metrics(row)
        self.setup.progress.epoch(row)
        for text in self.metrics.warnings():
            self.setup.progress.warn(text)
        if distributed.anybody(time.monotonic() - self.saved_at >= SAVE_EVERY, self.device):
            self.save()

    def _is_last_epoch(self) -> bool:
        return self.position.is_over and len(self.position.finished) + 1 == len(self.method.stages())

    def _keep_best(self, stage: Stage, row: dict[str, Any]) -> None:
        view = stage.validate_on or View(augment=False)
        loss = self.collect(lambda b: cross_entropy(self.method.predict(b.x).clamp(min=1e-30).log(), b.label), view)
        row["stage_validation_loss"] = float(loss.mean())
        if self.best is None or row["stage_validation_loss"] < self.best["loss"]:
            learners = {n: learner.state_dict() for n, learner in distributed.learners(self.method).items()}
            copies = {n: {k: v.clone() for k, v in state.items()} for n, state in learners.items()}
            self.best = {"loss": row["stage_validation_loss"], "epoch": self.position.epoch, "learners": copies}

    def _end_stage(self, stage: Stage) -> None:
        if self.best is not None:
            self._load_learners(self.best["learners"])
        if stage.then is not None:
            stage.then(self)
        if self.notes:
            self.history[-1].setdefault("estimates", {}).update(self.notes)
            self.notes = {}
            if distributed.is_first():
                self.setup.run_dir.rewrite_metrics(self.history)
        self.position.finished.append(stage.name)
        self.position.stage, self.best, self.plan = "", None, []

    def _load_learners(self, states: dict[str, dict[str, Tensor]]) -> None:
        for name, learner in distributed.learners(self.method).items():
            learner.load_state_dict(states[name])

    # Where we are, and saving it.

    @property
    def num_epochs(self) -> int:
        """Epochs of all stages, as far as they are known now."""
        return sum(stage.epochs for stage in self.method.stages())

    def _settings(self, stage: Stage) -> OptimiserConfig:
        return (stage.optimiser or self.config.optimiser).scaled(stage.rate_factor)

    def _stage_now(self) -> Stage:
        return next(s for s in self.method.stages() if s.name == (self.position.stage or self.position.finished[-1]))

    def _clock(self, stage: Stage, step: int, steps: int) -> Clock:
        now = self.position
        done = (now.run_epoch - 1 + step / steps) / max(self.known_epochs, now.run_epoch)
        return Clock(stage.name, now.epoch, stage.epochs, step, steps, done, self.config.train.seed, now.pass_number)

    def save(self) -> None:
        """Write the resume state; every rank calls, and leaves when it is written."""
        self._check_weights()
        snapshot = Snapshot(self.position, self.plan, self.sums, self.history, self.notes, self.best)
        modules = {"method": self.method, "record": self.record}
        with distributed.bare(self.method):
            precision = self.fabric.strategy.precision.state_dict()
            checkpoint.save(self.setup.run_dir, modules, self.optimiser, snapshot, self.metrics.state(), precision)
        distributed.wait_for_all()
        self.saved_at = time.monotonic()

    def _resume(self) -> dict[str, Any]:
        state = checkpoint.load(self.setup.run_dir, self.device)
        with distributed.bare(self.method):
            snapshot = checkpoint.restore(state, {"method": self.method, "record": self.record}, self.method)
        self.position, self.plan, self.sums = snapshot.position, snapshot.plan, snapshot.sums
        self.history, self.notes, self.best = snapshot.history, snapshot.notes, snapshot.best
        self.metrics.load_state(state["metrics"])
        self.fabric.strategy.precision.load_state_dict(state["precision"])
        if distributed.is_first():
            self.setup.run_dir.rewrite_metrics(self.history)
        return state
