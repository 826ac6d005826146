"""Run directories below folders, with what a figure chooses them by."""

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from surelabel import methods
from surelabel.config import WHERE_IT_RUNS, RunConfig
from surelabel.core.method import options_of
from surelabel.errors import RunError, SurelabelError
from surelabel.overrides import dotted
from surelabel.runs.run_dir import RunDir

if TYPE_CHECKING:
    from surelabel.data.corpus import Corpus

Reopen = Callable[[RunDir], "Corpus"]
"""Reads the data of a run again; who wires everything hands it in."""

LOG = logging.getLogger(__name__)

PAPER_DATA = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "clothing1m": "Clothing1M", "webvision": "WebVision"}
"""The data sets of the paper as configurations call them, and as figures do."""
NOT_COMPARED = (
    *(f"{part}.{field}" for part, fields in WHERE_IT_RUNS.items() for field in fields),
    "noise.seed",
    "train.seed",
    "train.evaluate_every",
    "train.gradient_share",
)
"""Settings that make another run, or the same one elsewhere, or only measure; but not another experiment."""
PLACES = ("data.json", "*/data.json", "*/*/data.json", "*/*/*/data.json")
"""Where a run directory may be: the folder itself, in it, in its `runs`, or in the `runs` of one scale."""


@dataclass(frozen=True)
class Found:
    """A finished run."""

    run: RunDir
    config: RunConfig
    reopen: Reopen

    @property
    def seed(self) -> int:
        """Of the run."""
        return self.config.train.seed

    @property
    def source(self) -> str:
        """The file or name that its data come from, without the folder."""
        return PurePath(self.config.data.source).name

    @cached_property
    def data(self) -> str | None:
        """The paper's data set that its data are, or are made of: a word of the source's name; None is another data set."""
        return next((word for word in re.split(r"[^a-z0-9]+", self.source.lower()) if word in PAPER_DATA), None)

    @cached_property
    def is_image(self) -> bool:
        """Whether its inputs are images."""
        return len(self.run.data()["input_shape"]) == 3

    @cached_property
    def options(self) -> dict[str, Any]:
        """Options of its method, with the defaults; of a method that is not ours only those that were given."""
        method = self.config.method
        if method.name not in methods.names():
            return dict(method.options)
        defaults = {name: option.default for name, option in options_of(methods.find(method.name)).items()}
        return {**defaults, **method.options}

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Everything that makes it another experiment, by dotted name."""
        content = self.config.model_dump(mode="json")
        content["method"]["options"] = self.options
        content["data"]["source"] = self.source
        return {name: value for name, value in dotted(content) if name not in NOT_COMPARED}

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """One mapping per epoch."""
        return self.run.metrics()

    def corpus(self) -> "Corpus":
        """Its data, read again."""
        return self.reopen(self.run)


def found_in(folders: Iterable[Path], reopen: Reopen) -> list[Found]:
    """The finished runs at and below the folders; those that cannot be read are told of and left out."""
    places: dict[Path, None] = {}
    for folder in folders:
        if not folder.is_dir():
            raise RunError(f"{folder}: no such folder; give the folder of a reproduction, or run directories")
        places |= {file.parent: None for pattern in PLACES for file in sorted(folder.glob(pattern))}
    return [found for place in places if (found := _opened(place, reopen)) is not None]


def _opened(place: Path, reopen: Reopen) -> Found | None:
    try:
        run = RunDir.open(place)
        return Found(run, run.config(), reopen) if run.is_done else None
    except SurelabelError as error:
        LOG.warning("left out: %s", error)
        return None
