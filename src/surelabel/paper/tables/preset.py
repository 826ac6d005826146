"""The definition of a table: its trials, rows and columns, what is measured, and at which epoch."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surelabel.config import DataConfig, MethodConfig, ModelConfig, NoiseConfig, RunConfig, TrainConfig
from surelabel.jobs import Trial
from surelabel.paper.tables.cifar_settings import CAR_VERSIONS, Setting, make_noise
from surelabel.paper.tables.scales import PAPER, SCALES, Protocol, Scale

LAST, BEST_VALIDATION, BEST_TEST, BEST_CLEAN_VALIDATION = (
    "last",
    "best_validation",
    "best_test",
    "best_clean_validation",
)
RULES = {
    LAST: "last epoch",
    BEST_VALIDATION: "best epoch by noisy validation",
    BEST_TEST: "best epoch by test (oracle)",
    BEST_CLEAN_VALIDATION: "best epoch by clean validation",
}
"""How to choose the epoch whose accuracy a table shows. Choosing by the test set is an oracle: in
practice it is not possible."""


@dataclass(frozen=True)
class Measure:
    """A value of an epoch, shown in percent."""

    key: str
    """Its name in the published csv."""
    title: str
    test: str | None = "test"
    """The test set; None reads `metric` from the epoch itself."""
    metric: str = "top1"


TEST_ACCURACY = Measure("top1", "test accuracy")
CORRECTION = Measure("correction", "correction accuracy", None, "correction_accuracy")


@dataclass(frozen=True)
class Plan:
    """How to reproduce a preset: scale, protocol, folder of the data and folder of the runs."""

    scale: Scale = PAPER
    protocol: str = "car"
    car: str = "paper"
    """The version of CAR, one of CAR_VERSIONS."""
    data: Path | None = None
    folder: Path = Path("reproduction")

    def root(self, name: str) -> str | None:
        """Return the folder of a data set; None searches the usual places."""
        return None if self.data is None else str(self.data / name)

    def extra_root(self, name: str) -> str:
        """Return the folder of additional data, for which no usual places are searched."""
        return str((self.data or Path(os.environ.get("SURELABEL_DATA", "data")).absolute()) / name)

    def cifar_data(self, name: str) -> DataConfig:
        """Return the settings of a CIFAR data set, or of the file that the scale makes from it."""
        prepared = self.scale.prepared.get(name)
        if prepared is not None:
            return DataConfig(source=str(prepared.path(self.folder)))
        return DataConfig(source=name, root=self.root(name))


@dataclass(frozen=True)
class Preset:
    """A table, or the runs of a figure."""

    name: str
    title: str
    trials: Callable[[Plan], list[Trial]]
    rows: tuple[str, ...]
    """Keys of a cell whose values name its row."""
    columns: tuple[str, ...] = ()
    """Keys of a cell whose values name its column."""
    measures: tuple[Measure, ...] = (TEST_ACCURACY,)
    rules: tuple[str, ...] = (LAST, BEST_VALIDATION, BEST_TEST)
    """How the epoch is chosen; the first rule is that of the published number."""
    published: str | None = None
    """The csv with the published numbers, if there are any."""
    scales: tuple[str, ...] = tuple(SCALES)
    protocols: tuple[str, ...] = ("car",)
    car_versions: tuple[str, ...] = CAR_VERSIONS[:1]


@dataclass(frozen=True)
class CifarRow:
    """A row of a table on CIFAR: a method, and its data sets and noises."""

    cell: Mapping[str, str]
    """Values of the keys that name the row."""
    method: str
    settings: Sequence[Setting]
    options: Callable[[Scale, str, str], Mapping[str, Any]] = lambda *_: {}
    """The method's options for a scale, data set and noise."""
    protocol: Callable[[Scale, str, str], Protocol | None] = lambda scale, *_: scale.protocol
    """How it is trained; None leaves the cell out."""
    one_seed: bool = False
    """Whether to train only the first seed, as for figures; tables have all seeds of the scale."""
    gradient_share: bool = False
    """Whether runs record the share of the gradient that comes from wrong labels."""


def cifar_preset(
    name: str, title: str, make_rows: Callable[[Plan], Iterable[CifarRow]], rows: tuple[str, ...], **more: Any
) -> Preset:
    """Return a preset with a trial for each row, setting and seed; `more` are fields of Preset."""

    def trials(plan: Plan) -> list[Trial]:
        return [
            Trial({"data": data, "noise": noise, **row.cell}, config)
            for row in make_rows(plan)
            for data, noise in row.settings
            if data in plan.scale.data
            for config in _cifar_runs(plan, row, data, noise)
        ]

    return Preset(name, title, trials, rows=rows, columns=("data", "noise"), **more)


def _cifar_runs(plan: Plan, row: CifarRow, data: str, noise: str) -> list[RunConfig]:
    scale, protocol = plan.scale, row.protocol(plan.scale, data, noise)
    if protocol is None:
        return []
    seeds = scale.seeds[:1] if row.one_seed else scale.seeds
    others = {"threads": scale.threads, "crop_padding": scale.crop_padding, "gradient_share": row.gradient_share}
    options, injected = row.options(scale, data, noise), make_noise(data, noise, protocol.include_true_class)
    return [
        make_run(row.method, options, protocol, plan.cifar_data(data), scale.model, injected, seed, **others)
        for seed in seeds
    ]


def make_run(
    method: str,
    options: Mapping[str, Any],
    protocol: Protocol,
    data: DataConfig,
    model: ModelConfig,
    noise: NoiseConfig | None = None,
    seed: int = 0,
    **train: Any,
) -> RunConfig:
    """Return the configuration of a run; `train` are further fields of TrainConfig."""
    return RunConfig(
        data=data.model_copy(update={"epoch": protocol.epoch or "all"}),
        noise=noise,
        method=MethodConfig(name=method, options={**options, **protocol.options}),
        model=model.model_copy(update={"normalise_as": protocol.normalise_as, "features": "none"}),
        optimiser=protocol.optimiser,
        train=TrainConfig(epochs=protocol.epochs, batch_size=protocol.batch_size, seed=seed, **train),
    )
