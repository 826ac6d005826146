"""What a table is made of: entries with numbers of several seeds, in percent, and the published ones beside."""

from collections.abc import Mapping
from dataclasses import dataclass

from surelabel.paper.tables import Measure, Preset, Published

Cell = Mapping[str, str]


@dataclass(frozen=True)
class Summary:
    """Numbers of several seeds, in percent."""

    mean: float
    std: float | None
    """Of the sample, n - 1; None for one seed."""
    num_seeds: int


@dataclass(frozen=True)
class Entry:
    """One measure in one cell."""

    cell: Cell
    measure: Measure
    num_planned: int
    num_done: int
    summaries: Mapping[str, Summary | None]
    """By rule; None where no finished run has what the rule needs."""
    published: tuple[Published, ...] = ()
    """The one to compare with comes first."""

    def difference(self, rule: str) -> float | None:
        """Ours minus the published one."""
        ours, theirs = self.summaries[rule], self.published[0].mean if self.published else None
        return None if ours is None or theirs is None else ours.mean - theirs


@dataclass(frozen=True)
class Table:
    """All entries of a preset, in the order of its trials."""

    preset: Preset
    scale: str
    protocol: str
    entries: tuple[Entry, ...]

    @property
    def rule(self) -> str:
        """The rule of the published numbers."""
        return self.preset.rules[0]
