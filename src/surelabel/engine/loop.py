"""The training loop: executes a method's stages, and knows no method, model or data set by name."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from surelabel.config import OptimiserConfig, RunConfig
from surelabel.core.batch import Batch
from surelabel.core.losses import cross_entropy
from surelabel.core.mapped_store import MappedStore
from surelabel.core.method import Method, Step
from surelabel.core.stages import Clock, Pass, Stage, View, seed_of
from surelabel.core.state import EMA, row_chunks
from surelabel.data.corpus import Corpus
from surelabel.data.loader import Loader, draw_epoch
from surelabel.engine import checkpoint, distributed, finite
from surelabel.engine.checkpoint import Position, Snapshot
from surelabel.engine.evaluate import in_eval_mode
from surelabel.engine.metrics import Metrics
from surelabel.engine.optim import make_optimiser, rate_at, set_rate
from surelabel.engine.record import SampleRecord
from surelabel.runs.run_dir import RunDir

SAVE_EVERY = 20.0
"""Seconds between saves, at least; state is saved at the end of an epoch."""


class Progress(Protocol):
    """Receives reports about training."""

    def begin(self, num_epochs: int, done: int) -> None:
        """Report that training starts, or resumes after `done` epochs."""

    def step(self, epoch: int, batch: int, num_batches: int, loss: float) -> None:
        """Report a finished training step."""

    def epoch(self, row: dict[str, Any]) -> None:
        """Report a finished epoch with its metrics."""

    def warn(self, text: str) -> None:
        """Report something that the user should know."""


class Interrupted(KeyboardInterrupt):
    """Raised after Ctrl-C or a signal, when the state is saved."""


@dataclass(frozen=True)
class Setup:
    """Everything the engine needs."""

    config: RunConfig
    corpus: Corpus
    method: Method
    make_method: Callable[[int], Method]
    """Makes the method again with networks drawn from a seed, for stages that reset weights."""
    loader: Loader
    """Batches of the training rows."""
    run_dir: RunDir
    fabric: Any
    progress: Progress
    interrupt: Callable[[], bool] = lambda: False
    """Called after each step: returns whether to save and stop."""
    at_once: Callable[[], AbstractContextManager[None]] = nullcontext
    """Surrounds work that changes nothing of the engine: a signal raises Interrupted there."""


class Engine:
    """Runs a method from its first step, or a saved state, to its end; implements core's Run."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.config, self.loader = setup, setup.config, setup.loader
        self.fabric, self.device = setup.fabric, setup.fabric.device
        self.method = setup.method
        self.averages = [module for module in self.method.modules() if isinstance(module, EMA)]
        self._fix_trusted_rows()
        distributed.wrap(self.fabric, self.method, self.config.train)
        train = setup.corpus.train
        self.record = SampleRecord(train.label, setup.corpus.num_classes).to(self.device)
        self.record.distribute(self.config.train.replicate_below)
        self.position = Position()
        self.plan: list[Pass] = []
        self.history: list[dict[str, Any]] = []
        self.notes: dict[str, Any] = {}
        self.best: dict[str, Any] | None = None
        self.optimiser: Any = None
        self.saved_at = time.monotonic()
        self.known_epochs = self.num_epochs  # fixed while a stage runs, so that run_fraction does not jump
        self.metrics = Metrics(self)
        self.losses = finite.LossWatch(self)

    def _fix_trusted_rows(self) -> None:
        """Freeze the targets of confirmed labels.

        They keep their first values, or are one-hot where the table starts empty.
        """
        trusted = self.method.trusted
        if trusted.any():
            num_classes = self.setup.corpus.num_classes
            for store in (table.store for table in self.method.target_tables()):
                for index in row_chunks(len(trusted), num_classes):
                    rows = store.read(index)
                    given = F.one_hot(self.method.given[index], num_classes).to(rows)
                    fixed = torch.where(rows.sum(1, keepdim=True) > 0, rows, given)
                    store.write(index, fixed, where=trusted[index])
                store.fix(trusted)

    # The Run that methods see.

    @property
    def clock(self) -> Clock:
        """The clock at the start of the current epoch."""
        return self._clock(self.stage, 0, 1)

    @property
    def rng(self) -> torch.Generator:
        """A generator that is equal on all ranks and differs between epochs."""
        return self.clock.generator("run")

    def collect(self, function: Callable[[Batch], Tensor], view: View, train_mode: bool = False) -> Tensor:
        """Apply `function` to all batches of `view`, without gradient; equal on all ranks."""
        seed = seed_of(self.config.train.seed, "collect", self.position.run_epoch)
        return in_eval_mode(self.method, lambda: self.loader.collect(function, view, seed), train_mode)

    def draw_rows(self, purpose: str) -> Tensor | None:
        """Draw the rows of a pass if epochs have a number of batches; None means all rows."""
        rows = self._draw(View(), purpose)
        return None if rows is None else rows.to(self.device)

    def note(self, name: str, value: Any) -> None:
        """Store an estimate in this epoch's metrics."""
        self.notes[name] = value

    # Stages, epochs, steps.

    def run(self, resume: bool = False) -> None:
        """Train to the end; raise Interrupted, with the state saved, if asked to stop."""
        if resume:
            self._resume()
        elif distributed.is_first():
            self.setup.run_dir.rewrite_metrics([])
        self.setup.progress.begin(self.num_epochs, self.position.run_epoch - self.position.is_open)
        self.method.train()
        while stage := next((s for s in self.method.stages() if s.name not in self.position.finished), None):
            if self.position.stage != stage.name:
                self._begin_stage(stage)
            self.known_epochs = self.num_epochs
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
            self._load_trained(
                {name: module.state_dict() for name, module in distributed.trained_modules(fresh).items()}
            )
        self.optimiser = self._make_optimiser(stage)

    def _make_optimiser(self, stage: Stage) -> Any:
        networks = {name: distributed.unwrapped(network) for name, network in self.method.networks().items()}
        model = self.config.model
        optimiser = make_optimiser(self._settings(stage), networks, 1.0 if model.freeze else model.backbone_rate)
        return self.fabric.setup_optimizers(optimiser)

    def _open_epoch(self, stage: Stage) -> None:
        now = self.position
        self.position = Position(
            finished=now.finished, stage=now.stage, epoch=now.epoch + 1, run_epoch=now.run_epoch + 1, is_open=True
        )
        self.metrics.open_epoch()
        self.record.open_epoch(self.position.run_epoch)
        self.plan = [self._shorten(walk, number) for number, walk in enumerate(self._planned(stage))]

    def _planned(self, stage: Stage) -> Sequence[Pass]:
        if stage.plan is None:
            return [Pass(stage.step, {"batch": View()})]
        return stage.plan(self) if callable(stage.plan) else stage.plan

    def _shorten(self, walk: Pass, number: int) -> Pass:
        """Draw as many rows of a pass as the configured epoch has, different ones in each epoch."""
        drawn = {name: self._draw(view, number, name) for name, view in walk.views.items()}
        views = {
            name: view if drawn[name] is None else replace(view, indices=drawn[name])
            for name, view in walk.views.items()
        }
        return Pass(walk.step, views)

    def _draw(self, view: View, *place: object) -> Tensor | None:
        """Draw the rows of a view in this epoch; None if epochs have all rows."""
        epoch, now = self.config.data.epoch, self.position
        if epoch == "all":
            return None
        count = epoch.batches * (view.batch_size or self.config.train.batch_size)
        seed = seed_of(self.config.train.seed, "epoch", now.stage, now.epoch, *place)
        return draw_epoch(self.loader.rows(view), self.method.given.cpu(), count, epoch.balanced, seed)

    def _run_epoch(self, stage: Stage) -> None:
        settings, began = self._settings(stage), time.perf_counter()
        for number in range(self.position.pass_number, len(self.plan)):
            current = self.plan[number]
            bounds = self.loader.bounds(next(iter(current.views.values())))
            place = f"{stage.name}/{self.position.epoch}/{number}"
            for batches in self.loader.passes(
                current.views, place, start=self.position.batch_number, turn=self.position.run_epoch
            ):
                clock = self._clock(stage, self.position.batch_number, len(bounds))
                self._train_step(current.step, batches, clock, settings)
                begin, end = bounds[self.position.batch_number]
                self.position.batch_number += 1
                self.position.num_samples += end - begin
                self.setup.progress.step(
                    self.position.run_epoch, self.position.batch_number, len(bounds), self.losses.latest
                )
                if distributed.any_rank(self.setup.interrupt(), self.device):
                    self.position.seconds += time.perf_counter() - began
                    self.save()
                    raise Interrupted
            self.position.pass_number, self.position.batch_number = number + 1, 0
        self.losses.check()
        self.position.seconds += time.perf_counter() - began

    def _train_step(
        self, step: Callable[..., Step], batches: dict[str, Batch], clock: Clock, settings: OptimiserConfig
    ) -> None:
        (_, batch), *rest = batches.items()
        set_rate(self.optimiser, rate_at(settings, clock))
        with self.fabric.autocast():
            result = step(batch, clock, **dict(rest))
        loss = torch.stack(list(result.terms.values())).sum()
        self.losses.add(loss, result, batch)
        self.optimiser.zero_grad()
        self.fabric.backward(loss)
        self.metrics.after_backward(batch, result.is_mixed)
        if settings.clip is not None:
            self._clip(settings.clip)
        self.optimiser.step()
        for average in self.averages:
            if any(p.grad is not None for p in average.source.parameters()):
                average.advance()
        if result.seen is not None:
            self.record.see(batch.index, result.seen.float(), batch.label)
        self.metrics.add(result.terms)

    def _clip(self, clip: float) -> None:
        self.fabric.strategy.precision.unscale_gradients(self.optimiser.optimizer)
        for network in self.method.networks().values():
            torch.nn.utils.clip_grad_norm_(network.parameters(), clip)

    def _close_epoch(self, stage: Stage) -> None:
        finite.check_weights(self)
        self.position.is_open = False
        self.position.is_over = self.position.epoch >= stage.epochs
        distributed.broadcast_buffers(self.method)
        rate = rate_at(self._settings(stage), self._clock(stage, 0, 1))
        try:
            measured = self.metrics.measure(is_last=self._is_last_epoch())
        except Interrupted:  # a resumed run measures again
            self.position.is_open, self.position.is_over = True, False
            self.save()
            raise
        row = self.metrics.close_epoch(rate, measured)
        if stage.keep == "best":
            self._keep_best(stage, row)
        self.history.append(row)
        if not self.position.is_over and stage.stop is not None and stage.stop(self):
            self.position.is_over = True
            if self._is_last_epoch():
                row.update(self.metrics.evaluate())
        if distributed.is_first():
            self.setup.run_dir.append_metrics(row)
        self.setup.progress.epoch(row)
        for text in self.metrics.warnings():
            self.setup.progress.warn(text)
        if distributed.any_rank(time.monotonic() - self.saved_at >= SAVE_EVERY, self.device):
            self.save()

    def _is_last_epoch(self) -> bool:
        return self.position.is_over and len(self.position.finished) + 1 == len(self.method.stages())

    def _keep_best(self, stage: Stage, row: dict[str, Any]) -> None:
        view = stage.validate_on or View(augment=False)
        loss = self.collect(lambda b: cross_entropy(self.method.predict(b.x).clamp(min=1e-30).log(), b.label), view)
        row["stage_validation_loss"] = float(loss.mean())
        if self.best is None or row["stage_validation_loss"] < self.best["loss"]:
            states = {n: module.state_dict() for n, module in distributed.trained_modules(self.method).items()}
            copies = {n: {k: v.clone() for k, v in state.items()} for n, state in states.items()}
            self.best = {"loss": row["stage_validation_loss"], "epoch": self.position.epoch, "learners": copies}

    def _end_stage(self, stage: Stage) -> None:
        if self.best is not None:
            self._load_trained(self.best["learners"])
        if stage.then is not None:
            stage.then(self)
        if self.notes:
            self.history[-1].setdefault("estimates", {}).update(self.notes)
            self.notes = {}
            if distributed.is_first():
                self.setup.run_dir.rewrite_metrics(self.history)
        self.position.finished.append(stage.name)
        self.position.stage, self.best, self.plan = "", None, []

    def _load_trained(self, states: dict[str, dict[str, Tensor]]) -> None:
        for name, module in distributed.trained_modules(self.method).items():
            module.load_state_dict(states[name])

    # The position in the run, and saving it.

    @property
    def num_epochs(self) -> int:
        """Epochs of all stages that are known so far."""
        return sum(stage.epochs for stage in self.method.stages())

    def _settings(self, stage: Stage) -> OptimiserConfig:
        return self.config.optimiser.with_constant(stage.rate, stage.weight_decay).scaled(stage.rate_factor)

    @property
    def stage(self) -> Stage:
        """The current stage; between stages the one that has ended."""
        return next(s for s in self.method.stages() if s.name == (self.position.stage or self.position.finished[-1]))

    def _clock(self, stage: Stage, step: int, steps: int) -> Clock:
        now = self.position
        done = (now.run_epoch - 1 + step / steps) / max(self.known_epochs, now.run_epoch)
        return Clock(stage.name, now.epoch, stage.epochs, step, steps, done, self.config.train.seed, now.pass_number)

    def save(self) -> None:
        """Write the resume state; all ranks must call, and return when it is written."""
        self.losses.check()
        finite.check_weights(self)
        snapshot = Snapshot(
            position=self.position,
            plan=self.plan,
            history=self.history,
            notes=self.notes,
            best=self.best,
            metrics=self.metrics.state(),
            precision=self.fabric.strategy.precision.state_dict(),
        )
        with distributed.networks_unwrapped(self.method):
            modules = {"method": self.method, "record": self.record}
            checkpoint.save(self.setup.run_dir, modules, self.optimiser, snapshot)
        distributed.wait_for_all()
        self.saved_at = time.monotonic()

    def _resume(self) -> None:
        has_mapped = any(isinstance(module, MappedStore) for module in self.method.modules())
        state = checkpoint.load(self.setup.run_dir, self.device, is_mapped=has_mapped)
        with distributed.networks_unwrapped(self.method):
            snapshot = checkpoint.restore(state, {"method": self.method, "record": self.record}, self.method)
        self.position, self.plan = snapshot.position, snapshot.plan
        self.history, self.notes, self.best = snapshot.history, snapshot.notes, snapshot.best
        if self.position.is_open:
            self.record.open_epoch(self.position.run_epoch)
        self.metrics.load_state(snapshot.metrics)
        self.fabric.strategy.precision.load_state_dict(snapshot.precision)
        if self.position.stage:
            self.optimiser = self._make_optimiser(self.stage)
            self.optimiser.load_state_dict(state["optimiser"])
        if distributed.is_first():
            self.setup.run_dir.rewrite_metrics(self.history)
