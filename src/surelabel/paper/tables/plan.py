"""What a reproduction was asked for, and the configurations of CIFAR runs that follow from it."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surelabel.config import DataConfig, MethodConfig, OptimiserConfig, RunConfig, TrainConfig
from surelabel.jobs.trial import Trial
from surelabel.paper.tables.noises import noise_config
from surelabel.paper.tables.scales import PAPER, Scale


@dataclass(frozen=True)
class Plan:
    """Scale, protocol, where the data lie, and the folder of the reproduction."""

    scale: Scale = PAPER
    protocol: str = "car"
    data: Path | None = None
    folder: Path = Path("reproduction")

    def root(self, name: str) -> str | None:
        """Folder of a named data set; None leaves it to the usual places."""
        return None if self.data is None else str(self.data / name)

    def beside(self, name: str) -> str:
        """Folder of data that a data set's option names, which has no usual place of its own."""
        return str((self.data or Path(os.environ.get("SURELABEL_DATA", "data")).absolute()) / name)

    def cifar_data(self, name: str) -> DataConfig:
        """CIFAR as the scale has it."""
        prepared = self.scale.prepared.get(name)
        if prepared is not None:
            return DataConfig(source=str(prepared.path(self.folder)))
        return DataConfig(source=name, root=self.root(name))

    def cifar_run(
        self,
        data: str,
        noise: str,
        seed: int,
        method: str,
        options: dict[str, Any] | None = None,
        *,
        optimiser: OptimiserConfig | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        gradient_share: bool = False,
    ) -> RunConfig:
        """A run of the scale; what is given goes over it."""
        scale = self.scale
        return RunConfig(
            data=self.cifar_data(data),
            noise=noise_config(data, noise),
            method=MethodConfig(name=method, options=options or {}),
            model=scale.model,
            optimiser=optimiser or scale.optimiser,
            train=TrainConfig(
                epochs=epochs or scale.epochs,
                batch_size=batch_size or scale.batch_size,
                seed=seed,
                threads=scale.threads,
                crop_padding=scale.crop_padding,
                gradient_share=gradient_share,
            ),
        )

    def cifar_trials(
        self, cell: dict[str, str], data: str, noise: str, method: str, options: dict[str, Any], **changes: Any
    ) -> list[Trial]:
        """One trial for each seed of the scale; none where the scale leaves the data set out."""
        if data not in self.scale.data:
            return []
        where = {"data": data, "noise": noise, **cell}
        return [
            Trial(where, self.cifar_run(data, noise, seed, method, options, **changes)) for seed in self.scale.seeds
        ]
