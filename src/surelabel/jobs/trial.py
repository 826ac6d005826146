"""A trial: one training run of a table or a study, with the place in it that the run counts for."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal

from surelabel.config import WHERE_IT_RUNS, RunConfig
from surelabel.errors import RunError
from surelabel.overrides import dotted
from surelabel.runs.run_dir import RunDir

SHOWN_FIELDS = 3
"""How many differing settings an error names."""


@dataclass(frozen=True)
class Trial:
    """A run configuration, and the cell of a table that its result counts for.

    `cell` maps the table's keys, such as data, noise and method, to values; it leaves out the seed.
    """

    cell: Mapping[str, str]
    config: RunConfig

    @property
    def seed(self) -> int:
        """The random seed of the run."""
        return self.config.train.seed

    @property
    def name(self) -> str:
        """A readable folder name: the same for equal configurations, wherever the data are."""
        # Defaults are left out, so that a setting added later does not rename finished runs.
        content = self.config.model_dump(mode="json", exclude_defaults=True)
        # Each kind of schedule is its own class, so its kind is a default and was left out too.
        content["schedule"] = self.config.optimiser.schedule.kind
        data = content["data"]
        data["source"] = PurePath(data["source"]).name
        # Some options of data sets are folders, such as that of ImageNet for WebVision.
        options = data.get("options", {}).items()
        data["options"] = {key: PurePath(value).name if isinstance(value, str) else value for key, value in options}
        for part, fields in WHERE_IT_RUNS.items():
            for field in fields:
                content.get(part, {}).pop(field, None)
        noise = self.config.noise
        words = [
            data["source"],
            "clean" if noise is None else f"{noise.kind}-{noise.rate:g}",
            self.config.method.name,
            f"seed-{self.seed}",
            hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8],
        ]
        return re.sub(r"[^A-Za-z0-9._-]+", "-", "--".join(words))


@dataclass(frozen=True)
class Job:
    """A trial to train in a folder of many: its configuration and the paths of its files."""

    name: str
    config: RunConfig
    folder: Path

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.folder / "runs" / self.name

    @property
    def log_file(self) -> Path:
        """The output of the training process: warnings, errors and tracebacks."""
        return self.folder / "logs" / f"{self.name}.txt"

    @property
    def config_file(self) -> Path:
        """The configuration that the training process reads."""
        return self.folder / "jobs" / f"{self.name}.json"

    @property
    def start_file(self) -> Path:
        """Written by the training process when its first epoch starts."""
        return self.folder / "jobs" / f"{self.name}.started.json"


def find_state(trial: Trial, path: Path) -> Literal["new", "begun", "done"]:
    """Return how far the run of a trial at `path` has got; raise if `path` holds something else."""
    if RunDir(path).is_free:
        return "new"
    if not RunDir(path).has_begun:
        raise RunError(f"{path}: not empty, and not a run directory; move it away")
    run = RunDir(path)
    if run.is_prepared:
        run.check_schema()
    found = Trial(trial.cell, _as_asked(run.config(), trial.config))
    # Names ignore the device and the place of the data: these may have changed.
    if found.name != trial.name:
        raise RunError(f"{path}: holds a run of another configuration: {_differences(found, trial)}; move it away")
    if not run.is_done:
        return "begun"
    run.metrics()  # tables read it: a run with unreadable metrics is not done
    return "done"


def _as_asked(config: RunConfig, wanted: RunConfig) -> RunConfig:
    """Return the configuration of a run with `auto` where that was wanted and then resolved.

    With it goes what the run has chosen by comparing networks.
    """
    fields = [name for name in ("features", "train_on") if getattr(wanted.model, name) == "auto"]
    chosen = {name: getattr(wanted.model, name) for name in ("name", "options")} if wanted.model.name == "auto" else {}
    changes: dict[str, Any] = {"model": config.model.model_copy(update={**dict.fromkeys(fields, "auto"), **chosen})}
    if chosen and wanted.optimiser.weight_decay is None:
        changes["optimiser"] = config.optimiser.model_copy(update={"weight_decay": None})
    return config.model_copy(update=changes)


def _differences(found: Trial, wanted: Trial) -> str:
    there, here = (dict(dotted(trial.config.model_dump(mode="json"))) for trial in (found, wanted))
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    texts = [f"{name} is {there.get(name)} there and {here.get(name)} here" for name in names[:SHOWN_FIELDS]]
    return ", ".join(texts) + ", ..." * (len(names) > SHOWN_FIELDS)
