"""The one entry point: a name, a scale and a protocol in, trials out."""

from collections.abc import Collection, Mapping
from pathlib import Path

from surelabel.errors import ConfigError
from surelabel.jobs.trial import Trial
from surelabel.paper.tables.ablation import ABLATION
from surelabel.paper.tables.cifar_tables import TABLE1
from surelabel.paper.tables.confidence import CONFIDENCE
from surelabel.paper.tables.correction import CORRECTION_PRESET
from surelabel.paper.tables.figure_runs import MEMORISATION
from surelabel.paper.tables.filtering import selected
from surelabel.paper.tables.plan import Plan
from surelabel.paper.tables.preset import Preset
from surelabel.paper.tables.scales import scale_named
from surelabel.paper.tables.sensitivity import SENSITIVITY
from surelabel.paper.tables.strategies import STRATEGIES_PRESET
from surelabel.paper.tables.table2 import TABLE2
from surelabel.paper.tables.table3 import TABLE3

PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        TABLE1,
        TABLE2,
        TABLE3,
        ABLATION,
        STRATEGIES_PRESET,
        CORRECTION_PRESET,
        MEMORISATION,
        CONFIDENCE,
        SENSITIVITY,
    )
}


def preset_named(name: str) -> Preset:
    """A preset, or an error that lists them."""
    if name not in PRESETS:
        raise ConfigError(f"there is no table or figure {name!r} to reproduce; there are {', '.join(PRESETS)}")
    return PRESETS[name]


def planned(
    name: str,
    *,
    scale: str = "paper",
    protocol: str = "car",
    only: Mapping[str, Collection[str]] | None = None,
    data: Path | None = None,
    folder: Path = Path("reproduction"),
) -> list[Trial]:
    """The trials of a preset, equal configurations included as often as they show.

    `data` holds a folder for each data set, named as it is; `folder` is where prepared data and runs lie.
    """
    preset = preset_named(name)
    chosen = scale_named(scale)
    if scale not in preset.scales:
        raise ConfigError(f"scale: {name} has no {scale!r}; it has {', '.join(preset.scales)}")
    if protocol not in preset.protocols:
        raise ConfigError(f"protocol: {name} has no {protocol!r}; it has {', '.join(preset.protocols)}")
    if not chosen.is_published and protocol in preset.protocols[1:]:
        raise ConfigError(f"protocol: {protocol} is for scale paper; at scale {scale} everybody trains alike: car")
    return selected(preset.trials(Plan(chosen, protocol, data, folder)), only)
