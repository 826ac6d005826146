"""Which epoch's number counts: the rules by which tables choose."""

from collections.abc import Callable, Mapping
from typing import Any

from surelabel.paper.tables.preset import BEST_CLEAN_VALIDATION, BEST_TEST, BEST_VALIDATION, LAST, Measure

Epoch = dict[str, Any]
CLEAN_VALIDATION = "clean_validation"
"""The test set by which Clothing1M's rule chooses."""


def chosen_value(epochs: list[Epoch], measure: Measure, rule: str) -> float | None:
    """The measure, in percent, at the epoch that the rule chooses; None where a run lacks what either needs."""
    # Of the last stage: what an earlier one trained, such as an estimate of the noise, is not the method's result.
    measured = [e for e in epochs if e.get("stage") == epochs[-1].get("stage") and _value(e, measure) is not None]
    score = _SCORES[rule]
    scored = [(found, epoch) for epoch in measured if (found := score(epoch, measure)) is not None]
    if not scored:
        return None
    _, best = max(scored, key=lambda pair: pair[0])  # the first of equals
    value = _value(best, measure)
    return None if value is None else 100 * value


def _value(epoch: Epoch, measure: Measure) -> float | None:
    place = epoch if measure.test is None else _accuracies(epoch, measure.test)
    return place.get(measure.metric)


def _accuracies(epoch: Epoch, test: str) -> dict[str, Any]:
    return (epoch.get("tests") or {}).get(test) or {}


_SCORES: Mapping[str, Callable[[Epoch, Measure], float | None]] = {
    LAST: lambda epoch, _: epoch["epoch"],
    BEST_VALIDATION: lambda epoch, _: (epoch.get("validation") or {}).get("top1"),
    # By top-1 also for top-5: one network is tested, not one for each number.
    BEST_TEST: lambda epoch, measure: _accuracies(epoch, measure.test or "test").get("top1"),
    BEST_CLEAN_VALIDATION: lambda epoch, _: _accuracies(epoch, CLEAN_VALIDATION).get("top1"),
}
