"""Sensitivity from runs: which runs differ in one parameter only, and what they reach."""

from collections.abc import Mapping, Sequence

from surelabel.paper.figures.choosing import best_source, differing, typical
from surelabel.paper.figures.figure_kinds import Picture
from surelabel.paper.figures.panel_runs import Found
from surelabel.paper.figures.sensitivity import Parameter, is_run, sensitivity_figure, sensitivity_text, summarised
from surelabel.paper.figures.wanted import OPTIONS, Wanted
from surelabel.plotting.curves import accuracy_on_test


def draw_study(panels: Mapping[str, Wanted], there: Sequence[Found]) -> Picture | None:
    """A panel per parameter; there is one kind of run for all of them."""
    (wanted,) = panels.values()
    base, parameters, runs = study(wanted, there)
    if base is None or not any(map(is_run, parameters)):
        return None
    others = [one for one in runs if one is not base]
    return Picture(sensitivity_figure(parameters), sensitivity_text(parameters), [base, *others])


def study(wanted: Wanted, there: Sequence[Found]) -> tuple[Found | None, list[Parameter], list[Found]]:
    """The run that all others vary, a panel per parameter, and all runs that count; None and empty panels where there is none."""
    source = best_source(wanted.data, [wanted], there)
    runs = [one for one in there if one.source == source and wanted.fits(one) and _last_accuracy(one) is not None]
    base = typical(runs)
    if base is None:
        return None, [Parameter(letter, []) for letter in OPTIONS.values()], []
    varied = {option: _varied(base, runs, option) for option in OPTIONS}
    used = {id(one): one for group in varied.values() for one in group}
    return base, [_parameter(base, option, group) for option, group in varied.items()], list(used.values())


def _varied(base: Found, runs: Sequence[Found], option: str) -> list[Found]:
    """Runs that differ from the base in this option or not at all, each seed once."""
    alike = [one for one in runs if set(differing(base, one)) <= {f"method.options.{option}"}]
    return list({(one.options[option], one.seed): one for one in reversed(alike)}.values())[::-1]


def _parameter(base: Found, option: str, group: Sequence[Found]) -> Parameter:
    accuracies: dict[float | None, list[float]] = {}
    for one in group:
        accuracy = _last_accuracy(one)
        assert accuracy is not None
        accuracies.setdefault(one.options[option], []).append(accuracy)
    return Parameter(OPTIONS[option], summarised(accuracies), base.options[option])


def _last_accuracy(found: Found) -> float | None:
    """On the first test set in the last epoch."""
    values = accuracy_on_test(found.metrics)[1]
    return values[-1] if values else None
