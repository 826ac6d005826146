"""Which of the runs that are there stands in which panel."""

from collections.abc import Mapping, Sequence

from surelabel.paper.figures.panel_runs import Found
from surelabel.paper.figures.wanted import Wanted


def chosen(panels: Mapping[str, Wanted], there: Sequence[Found]) -> dict[str, Found | None]:
    """A run for each panel, or None; panels that want the same data set all have theirs from one source."""
    result: dict[str, Found | None] = dict.fromkeys(panels)
    taken: set[str] = set()
    for data in dict.fromkeys(wanted.data for wanted in panels.values()):
        own = {name: wanted for name, wanted in panels.items() if wanted.data == data}
        source = best_source(data, list(own.values()), [one for one in there if one.source not in taken])
        if source is not None:
            taken.add(source)
            result |= {name: _panel(wanted, there, source) for name, wanted in own.items()}
    return result


def best_source(data: str, wanted: Sequence[Wanted], there: Sequence[Found]) -> str | None:
    """The source that fills most panels: of the paper's data set, or else one that is no data set of the paper's at all."""
    by_source = {one.source: one for one in there if one.data in (data, None)}

    def rank(source: str) -> tuple[bool, int, bool, bool]:
        one = by_source[source]
        num_filled = sum(_panel(panel, there, source) is not None for panel in wanted)
        return one.data == data, num_filled, source == data, one.is_image

    filling = [source for source in by_source if rank(source)[1]]
    return max(filling, key=rank, default=None)


def _panel(wanted: Wanted, there: Sequence[Found], source: str) -> Found | None:
    fitting = [one for one in there if one.source == source and wanted.fits(one)]
    most = max(map(wanted.num_preferred, fitting), default=0)
    return typical([one for one in fitting if wanted.num_preferred(one) == most])


def typical(runs: Sequence[Found]) -> Found | None:
    """The lowest seed of the experiment that differs least from the others: of a sensitivity study, the one it varies.

    Of several that differ equally the longest is taken.
    """
    kinds: list[Found] = []
    for one in sorted(runs, key=lambda one: (one.seed, str(one.run.path))):
        if all(one.settings != other.settings for other in kinds):
            kinds.append(one)

    def distance(one: Found) -> tuple[int, int, int]:
        return sum(len(differing(one, other)) for other in kinds), -one.config.train.epochs, one.seed

    return min(kinds, key=distance, default=None)


def differing(one: Found, other: Found) -> list[str]:
    """Dotted names of the settings in which two runs differ."""
    names = dict.fromkeys([*one.settings, *other.settings])
    return [name for name in names if one.settings.get(name) != other.settings.get(name)]
