"""Log metrics to TensorBoard or Weights & Biases, in addition to metrics.jsonl.

    with tracked(["tensorboard"], "runs/mine", config, progress) as progress:
        api.fit(config, "runs/mine", progress=progress)

Both packages are optional. A resumed run continues the log of the interrupted one.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from surelabel.config import RunConfig
from surelabel.errors import ConfigError, missing_package
from surelabel.files import refuse_link
from surelabel.launcher import has_nonzero_rank
from surelabel.runs.run_dir import RunDir


class Tracker(Protocol):
    """A destination of metrics."""

    def begin(self, run: RunDir, config: RunConfig, done: int) -> None:
        """Start logging, after `done` epochs if the run is resumed; the run directory exists."""

    def epoch(self, number: int, values: Mapping[str, float]) -> None:
        """Log the metrics of an epoch, by names such as tests/test/top1."""

    def end(self) -> None:
        """Finish logging."""


class TensorBoard:
    """Logs to RUN/tensorboard, for `tensorboard --logdir`."""

    package = "tensorboard"

    def begin(self, run: RunDir, config: RunConfig, done: int) -> None:
        """Open the files, and hide epochs after the saved state of an interrupted run."""
        from torch.utils.tensorboard import SummaryWriter

        refuse_link(run.path / "tensorboard")
        self.writer = SummaryWriter(str(run.path / "tensorboard"), purge_step=done + 1 if done else None)
        if not done:
            self.writer.add_text("config", f"```\n{config.model_dump_json(indent=2)}\n```")

    def epoch(self, number: int, values: Mapping[str, float]) -> None:
        """Add a point to each curve."""
        for name, value in values.items():
            self.writer.add_scalar(name, value, number)

    def end(self) -> None:
        """Write pending values and close."""
        if hasattr(self, "writer"):
            self.writer.close()


class WeightsAndBiases:
    """Logs to the project $WANDB_PROJECT, by default surelabel; RUN/wandb.json has the id."""

    package = "wandb"

    def begin(self, run: RunDir, config: RunConfig, done: int) -> None:
        """Start a run there, or continue the one that was started before."""
        import wandb

        file = run.path / "wandb.json"
        refuse_link(run.path / "wandb")
        known = json.loads(file.read_text(encoding="utf-8"))["id"] if done and file.is_file() else None
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "surelabel"),
            name=run.path.name,
            config=config.model_dump(mode="json"),
            dir=str(run.path),
            id=known,
            resume="allow",
        )
        run.write_json("wandb.json", {"id": self.run.id})

    def epoch(self, number: int, values: Mapping[str, float]) -> None:
        """Add a point to each curve."""
        self.run.log(dict(values), step=number)

    def end(self) -> None:
        """Send pending values."""
        if hasattr(self, "run"):
            self.run.finish()


TRACKERS: dict[str, type[TensorBoard] | type[WeightsAndBiases]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
}
"""Trackers, by the names that --log accepts."""


class Tracked:
    """A progress that logs every epoch and forwards all calls to another progress."""

    def __init__(self, progress: Any, trackers: Sequence[Tracker], run: RunDir, config: RunConfig) -> None:
        self.progress, self.trackers, self.run, self.config = progress, trackers, run, config

    def begin(self, num_epochs: int, done: int) -> None:
        """Start the trackers."""
        for tracker in self.trackers:
            tracker.begin(self.run, self.config, done)
        self.progress.begin(num_epochs, done)

    def step(self, epoch: int, batch: int, num_batches: int, loss: float) -> None:
        """Forward; curves have one point per epoch."""
        self.progress.step(epoch, batch, num_batches, loss)

    def epoch(self, row: dict[str, Any]) -> None:
        """Log all numbers of the epoch."""
        values = flat(row)
        for tracker in self.trackers:
            tracker.epoch(int(row["epoch"]), values)
        self.progress.epoch(row)

    def warn(self, text: str) -> None:
        """Forward."""
        self.progress.warn(text)

    def part(self, title: str) -> Any:
        """Return the progress of a part of the run; its epochs are shown, and not logged."""
        return self.progress.part(title)


@contextlib.contextmanager
def tracked(names: Sequence[str], out: str | Path, config: RunConfig, progress: Any) -> Iterator[Any]:
    """Provide a progress for a run at `out` that also logs; only the first process does."""
    trackers = [_make(name) for name in dict.fromkeys(names)]
    if not trackers or has_nonzero_rank():
        yield progress
        return
    try:
        yield Tracked(progress, trackers, RunDir(out), config)
    finally:
        for tracker in trackers:
            tracker.end()


def flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Return every number in nested mappings, by its path."""
    found: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[prefix + name] = float(value)
    return found


def _make(name: str) -> Tracker:
    """Make a tracker, or raise before training starts if it is unknown or not installed."""
    if name not in TRACKERS:
        raise ConfigError(f"--log {name}: not a known log; available: {', '.join(TRACKERS)}")
    kind = TRACKERS[name]
    if find_spec(kind.package) is None:
        raise missing_package(f"--log {name}", kind.package, name)
    return kind()
