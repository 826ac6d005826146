"""Decide whether the labels of a run are good enough: limits for the fraction of wrong ones.

Every check compares the interval of a rate with a limit. It passes if the whole interval keeps to
the limit, fails if the whole interval is above it, and is unknown if the limit lies within, or if
the audit cannot tell how many labels are wrong. An unknown check never counts as passed.
Intervals of classes are wider, so that all of them together hold as often as one would.

Against a baseline, the increase of a rate is compared with the noise of both rates: the distance
from the estimate down to the lower end of the new interval, and that from the estimate up to the
upper end of the baseline's, added as independent errors are, in squares.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from surelabel.errors import ConfigError
from surelabel.verdicts import classes
from surelabel.verdicts.audit import Audit
from surelabel.verdicts.classes import Rate

PASSED, FAILED, UNKNOWN = "passed", "failed", "unknown"
EXIT_CODES = {PASSED: 0, FAILED: 1, UNKNOWN: 3}
"""Exit codes of `surelabel gate`; 2 is for usage and errors, as in every command."""
ALL_LABELS = "all labels"
CANNOT_TELL = "cannot tell how many of {:,} labels are wrong"
MOST_NAMED = 3
"""Checks that the one line names."""


@dataclass(frozen=True)
class Check:
    """One figure and its limit."""

    name: str
    outcome: str
    """passed, failed or unknown."""
    figure: str
    """The rate and its interval in words."""
    allowed: str
    """The limit in words."""
    rate: Rate
    limit: float
    """The largest allowed rate; against a baseline, that of the baseline and what noise allows."""
    excess: float
    """By how much the limit is exceeded; negative if it is kept."""

    @property
    def text(self) -> str:
        """The figure and the limit in words."""
        return f"{self.figure}, {self.allowed}"

    def to_dict(self) -> dict[str, Any]:
        """Return the check for JSON."""
        return {"name": self.name, "outcome": self.outcome, **self.rate.to_dict(), "limit": self.limit}


@dataclass(frozen=True)
class Gate:
    """The outcome of all checks."""

    checks: tuple[Check, ...]
    warnings: tuple[str, ...] = ()
    """What the audit warns of."""

    @property
    def outcome(self) -> str:
        """The worst outcome of a check: failed, else unknown, else passed."""
        found = {check.outcome for check in self.checks}
        return next(outcome for outcome in (FAILED, UNKNOWN, PASSED) if outcome in found)

    @property
    def exit_code(self) -> int:
        """0 passed, 1 failed, 3 unknown."""
        return EXIT_CODES[self.outcome]

    @property
    def line(self) -> str:
        """The outcome and its reasons on one line."""
        reasons = [check for check in self.checks if check.outcome == self.outcome]
        if self.outcome == FAILED:
            reasons.sort(key=lambda check: -check.excess)
        shown = reasons[: 1 if self.outcome == PASSED else MOST_NAMED]
        text = "; ".join(f"{check.name}: {check.text}" for check in shown)
        left = len(reasons) - len(shown)
        more = f"; and {left} more check{'s'[: left != 1]}" if left else ""
        return f"gate {self.outcome}: {' '.join(text.split())}{more}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        checks = [check.to_dict() for check in self.checks]
        outcome = {"outcome": self.outcome, "exit_code": self.exit_code, "line": self.line}
        return {**outcome, "checks": checks, "warnings": list(self.warnings)}


def check_labels(
    audit: Audit,
    *,
    max_wrong: float | None = None,
    class_max: float | None = None,
    against: Audit | None = None,
    accept_estimate: bool = False,
) -> Gate:
    """Check an audit: the rate of wrong labels, that of every class, and both against a baseline.

    With `accept_estimate` limits apply to the estimated rates, not to their intervals.

        check_labels(surelabel.audit("runs/mine"), max_wrong=0.02, class_max=0.05).exit_code
    """
    _check_arguments(max_wrong, class_max, against)
    checks: list[Check] = []
    if max_wrong is not None:
        checks.append(_check_rate(ALL_LABELS, audit.noise_rate, max_wrong, accept_estimate, audit))
    if class_max is not None:
        checks += [
            _check_rate(f"class {name!r}", rate, class_max, accept_estimate, audit)
            for name, rate in _class_rates(audit).items()
            if rate.num_labels
        ]
    if against is not None:
        checks += _compare(audit, against)
    return Gate(tuple(checks), tuple(audit.warnings))


def _check_arguments(max_wrong: float | None, class_max: float | None, against: Audit | None) -> None:
    if max_wrong is None and class_max is None and against is None:
        raise ConfigError("the gate has nothing to check: give --max-wrong, --class-max or --against")
    for name, limit in (("--max-wrong", max_wrong), ("--class-max", class_max)):
        if limit is not None and not 0 <= limit <= 1:
            raise ConfigError(f"{name} {limit:g}: expected a fraction between 0 and 1, such as 0.02 for 2 %")


def _check_rate(name: str, rate: Rate, limit: float, accept_estimate: bool, audit: Audit) -> Check:
    low, high = rate.interval or (0.0, 1.0)
    if accept_estimate:
        low = high = rate.rate or 0.0
    allowed = f"limit {percent(limit)}" + (" for the estimate" if accept_estimate else "")
    if not audit.can_tell:
        return Check(name, UNKNOWN, CANNOT_TELL.format(rate.num_labels), allowed, rate, limit, low - limit)
    outcome = FAILED if low > limit else PASSED if high <= limit else UNKNOWN
    if outcome == UNKNOWN:
        allowed += ", which lies within the interval"
    return Check(name, outcome, describe(rate, audit.claim), allowed, rate, limit, low - limit)


def _compare(audit: Audit, baseline: Audit) -> Iterator[Check]:
    """Yield whether all labels, and those of every class, are worse than in the baseline."""
    if set(audit.class_names) != set(baseline.class_names):
        differing = sorted(set(audit.class_names) ^ set(baseline.class_names))
        some = ", ".join(map(repr, differing[:3])) + (", ..." if len(differing) > 3 else "")
        raise ConfigError(f"--against: the runs have different classes; only one of them has {some}")
    claim = audit.claim if audit.can_tell and baseline.can_tell else None
    yield _check_increase(ALL_LABELS, audit.noise_rate, baseline.noise_rate, claim)
    now, before = map(_class_rates, (audit, baseline))
    for name in audit.class_names:
        if now[name].num_labels and before[name].num_labels:
            yield _check_increase(f"class {name!r}", now[name], before[name], claim)


def _class_rates(audit: Audit) -> dict[str, Rate]:
    """Return the rates of all classes with intervals that hold together at the audit's level."""
    confidence = 1 - (1 - audit.confidence) / len(audit.class_names)
    rows = {name: np.flatnonzero(audit.columns["given"] == name) for name in audit.class_names}
    return {name: classes.rate_of(audit.calibration, where, confidence) for name, where in rows.items()}


def _check_increase(name: str, now: Rate, before: Rate, claim: str | None) -> Check:
    """Compare two rates; without a `claim` on what they count, nothing is known."""
    low, _ = now.interval or (0.0, 1.0)
    _, high = before.interval or (0.0, 1.0)
    rate, earlier = now.rate or 0.0, before.rate or 0.0
    noise = math.hypot(max(0.0, rate - low), max(0.0, high - earlier))
    allowed = f"baseline {percent(earlier)} and noise of {points(noise)} points"
    excess = rate - earlier - noise
    outcome = UNKNOWN if claim is None else FAILED if excess > 0 else PASSED
    figure = describe(now, claim) if claim else CANNOT_TELL.format(now.num_labels)
    return Check(f"{name} against the baseline", outcome, figure, allowed, now, earlier + noise, excess)


def describe(rate: Rate, what: str) -> str:
    """Return a rate and its interval in words; `what` the labels are or do."""
    low, high = rate.interval or (0.0, 1.0)
    ends = f"{points(low)} to {percent(high)}"
    return f"{percent(rate.rate or 0.0)} of {rate.num_labels:,} labels {what} ({ends})"


def percent(share: float) -> str:
    """Return a fraction as a percentage with three digits."""
    return f"{points(share)} %"


def points(share: float) -> str:
    """Return a fraction in percentage points; less than a thousandth of one counts as none."""
    return "0" if share < 1e-5 else f"{100 * share:.3g}"
