"""Find finished runs in folders, and choose the run that each panel of a figure shows."""

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from surelabel import methods
from surelabel.config import WHERE_IT_RUNS, RunConfig
from surelabel.core.method import options_of
from surelabel.errors import RunError, SurelabelError
from surelabel.overrides import dotted
from surelabel.plotting.drawing import shorten
from surelabel.runs.run_dir import RunDir

if TYPE_CHECKING:
    from surelabel.data.corpus import Corpus

Reopen = Callable[[RunDir], "Corpus"]
"""Reads the data of a run again; passed in by the command, which may import everything."""

LOG = logging.getLogger(__name__)

PAPER_DATA = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "clothing1m": "Clothing1M", "webvision": "WebVision"}
"""Data sets of the paper: their names in configurations and in figures."""
NOT_COMPARED = (
    *(f"{part}.{field}" for part, fields in WHERE_IT_RUNS.items() for field in fields),
    "noise.seed",
    "train.seed",
    "train.evaluate_every",
    "train.gradient_share",
)
"""Settings in which runs of one experiment may differ."""
PLACES = ("data.json", "*/data.json", "*/*/data.json", "*/*/*/data.json")
"""Where to look for runs: the folder itself, in it, in its `runs`, or in the `runs` of a scale."""


@dataclass(frozen=True)
class FoundRun:
    """A finished run, with the properties that figures choose it by."""

    run: RunDir
    config: RunConfig
    reopen: Reopen

    @property
    def seed(self) -> int:
        """The random seed of the run."""
        return self.config.train.seed

    @property
    def source(self) -> str:
        """The name of its data set or data file, without the folder."""
        return PurePath(self.config.data.source).name

    @property
    def file_name(self) -> str:
        """The same as a part of a file name."""
        stem = self.source.rpartition(".")[0] or self.source
        return re.sub(r"[^\w.-]+", "-", stem).strip("-.") or "data"

    @cached_property
    def data(self) -> str | None:
        """The data set of the paper that its source is named after; None for any other data."""
        return next((word for word in re.split(r"[^a-z0-9]+", self.source.lower()) if word in PAPER_DATA), None)

    @cached_property
    def is_image(self) -> bool:
        """Whether its inputs are images."""
        return len(self.run.data()["input_shape"]) == 3

    @cached_property
    def options(self) -> dict[str, Any]:
        """Options of its method; without defaults if the method is not part of surelabel."""
        method = self.config.method
        if method.name not in methods.names():
            return dict(method.options)
        defaults = {name: option.default for name, option in options_of(methods.find(method.name)).items()}
        return {**defaults, **method.options}

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Settings that define the experiment, by dotted name."""
        content = self.config.model_dump(mode="json")
        content["method"]["options"] = self.options
        content["data"]["source"] = self.source
        return {name: value for name, value in dotted(content) if name not in NOT_COMPARED}

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """One mapping per epoch."""
        return self.run.metrics()

    def corpus(self) -> "Corpus":
        """Read its data again."""
        return self.reopen(self.run)


def find_runs(folders: Iterable[Path], reopen: Reopen) -> list[FoundRun]:
    """Return the finished runs in the folders; warn about unreadable ones and leave them out."""
    places: dict[Path, None] = {}
    for folder in folders:
        if not folder.is_dir():
            raise RunError(f"{folder}: no such folder; give the folder of a reproduction, or run directories")
        places |= {file.parent: None for pattern in PLACES for file in sorted(folder.glob(pattern))}
    return [found for place in places if (found := _open(place, reopen)) is not None]


def _open(place: Path, reopen: Reopen) -> FoundRun | None:
    try:
        run = RunDir.open(place)
        return FoundRun(run, run.config(), reopen) if run.is_done else None
    except SurelabelError as error:
        LOG.warning("left out: %s", error)
        return None


ANNEALED = ("cosine_restarts", "cosine", "one_cycle")
"""Schedules that replace the paper's cosine at other scales."""
STEPPED = ("multi_step", "constant")
SCHEDULES = {
    "cosine_restarts": "cosine with restarts",
    "cosine": "cosine",
    "one_cycle": "one cycle",
    "multi_step": "multi-step",
    "constant": "constant rate",
}
METHOD_NAMES = {"car": "CAR", "cross_entropy": "cross entropy"}
"""Methods that have another name in figures than in configurations."""
OPTIONS = {
    "penalty_weight": r"$\lambda$",
    "reverse_weight": r"$\beta$",
    "correction_start": r"$E_c$",
    "momentum": r"$\alpha$",
    "threshold": r"$\delta$",
}
"""The paper's letters for the options of CAR, in the order of its figures."""
FULL_CAR = {"targets": "car", "confidence": "indicator"}
"""CAR itself, not one of its ablations."""
GIVEN_LABELS = {"targets": "none"}
"""Training on the given labels."""
SELECTED = {"reverse_weight": 0.0, "momentum": 0.9, "threshold": 0.0}
"""What the paper selects for CIFAR-10; lambda and E_c depend on the scale."""


@dataclass(frozen=True)
class RunQuery:
    """The finished runs that a panel may show."""

    data: str
    """A data set of the paper; a user's run on other data may take its place."""
    noise: tuple[str, float] | None = None
    """Kind and rate; None matches any."""
    method: str | None = "car"
    """None matches any."""
    options: Mapping[str, Any] = field(default_factory=dict)
    preferred: Mapping[str, Any] = field(default_factory=dict)
    """Options to prefer if several runs match, as in a study of these options."""
    schedules: tuple[str, ...] = ()
    """Kinds of learning-rate schedule; an empty tuple matches any."""
    measured: str | None = None
    """A key that its metrics must have."""
    images: bool = False
    """Whether inputs must be images."""

    def matches(self, found: FoundRun) -> bool:
        """Return whether a run matches, whatever its data set."""
        config = found.config
        return (
            self.method in (None, config.method.name)
            and (not self.schedules or config.optimiser.schedule.kind in self.schedules)
            and self._has_noise(found)
            and all(found.options.get(name) == value for name, value in self.options.items())
            and (found.is_image or not self.images)
            and (self.measured is None or any(self.measured in row for row in found.metrics))
        )

    def count_preferred(self, found: FoundRun) -> int:
        """Count the preferred options that a run has."""
        return sum(found.options.get(name) == value for name, value in self.preferred.items())

    def _has_noise(self, found: FoundRun) -> bool:
        if self.noise is None:
            return True
        noise = found.config.noise
        return noise is not None and noise.kind == self.noise[0] and abs(noise.rate - self.noise[1]) < 1e-6

    @property
    def text(self) -> str:
        """A description for the error that says which runs are missing."""
        method = "any method" if self.method is None else METHOD_NAMES.get(self.method, self.method)
        words = [f"{method} on {PAPER_DATA[self.data]}"]
        words += [] if self.noise is None else [noise_text(*self.noise)]
        words += [f"{SCHEDULES[self.schedules[0]]} schedule"] if self.schedules else []
        words += [f"{name} {value:g}" for name, value in self.options.items() if name in OPTIONS]
        words += [f"with {self.measured}"] if self.measured else []
        return ", ".join(words)


def noise_text(kind: str, rate: float) -> str:
    """Return a text such as 40 % symmetric noise."""
    return f"{100 * rate:g} % {kind} noise"


def data_text(found: FoundRun) -> str:
    """Return the paper's name of the data set, with what else the source's name says."""
    source = found.source.removesuffix(".npz")
    if found.data is None:
        return shorten(source, 36)
    rest = re.sub(rf"(?i)\b{found.data}\b", "", source).strip("-_. ")
    return f"{PAPER_DATA[found.data]} ({shorten(rest, 36)})" if rest else PAPER_DATA[found.data]


def setting_text(found: FoundRun) -> str:
    """Return the data and noise of a run."""
    noise = found.config.noise
    return ", ".join([data_text(found)] + ([] if noise is None else [noise_text(noise.kind, noise.rate)]))


def method_text(found: FoundRun) -> str:
    """Return the name of a run's method in figures."""
    name = found.config.method.name
    return METHOD_NAMES.get(name, name)


def choose_runs(panels: Mapping[str, RunQuery], available: Sequence[FoundRun]) -> dict[str, FoundRun | None]:
    """Return a run or None for each panel; panels of one data set all use the same source."""
    result: dict[str, FoundRun | None] = dict.fromkeys(panels)
    taken: set[str] = set()
    for data in dict.fromkeys(wanted.data for wanted in panels.values()):
        own = {name: wanted for name, wanted in panels.items() if wanted.data == data}
        source = choose_source(data, list(own.values()), [one for one in available if one.source not in taken])
        if source is not None:
            taken.add(source)
            result |= {name: _choose_run(wanted, available, source) for name, wanted in own.items()}
    return result


def choose_source(data: str, wanted: Sequence[RunQuery], available: Sequence[FoundRun]) -> str | None:
    """Return the source that fills most panels: the paper's data set, or else data of a user."""
    by_source = {one.source: one for one in available if one.data in (data, None)}

    def rank(source: str) -> tuple[bool, int, bool, bool]:
        one = by_source[source]
        num_filled = sum(_choose_run(panel, available, source) is not None for panel in wanted)
        return one.data == data, num_filled, source == data, one.is_image

    filling = [source for source in by_source if rank(source)[1]]
    return max(filling, key=rank, default=None)


def _choose_run(wanted: RunQuery, available: Sequence[FoundRun], source: str) -> FoundRun | None:
    matching = [one for one in available if one.source == source and wanted.matches(one)]
    most = max(map(wanted.count_preferred, matching), default=0)
    return find_typical([one for one in matching if wanted.count_preferred(one) == most])


def find_typical(runs: Sequence[FoundRun]) -> FoundRun | None:
    """Return the run that differs least from the others: the base of a sensitivity study.

    Of its seeds the lowest is returned, and of equally typical experiments the longest.
    """
    kinds: list[FoundRun] = []
    for one in sorted(runs, key=lambda one: (one.seed, str(one.run.path))):
        if all(one.settings != other.settings for other in kinds):
            kinds.append(one)

    def distance(one: FoundRun) -> tuple[int, int, int]:
        return sum(len(list_differences(one, other)) for other in kinds), -one.config.train.epochs, one.seed

    return min(kinds, key=distance, default=None)


def list_differences(one: FoundRun, other: FoundRun) -> list[str]:
    """Return the dotted names of the settings in which two runs differ."""
    names = dict.fromkeys([*one.settings, *other.settings])
    return [name for name in names if one.settings.get(name) != other.settings.get(name)]
