"""The decision of the gate: which figure meets which limit, and what noise allows."""

import json

import numpy as np
import pytest

from surelabel.errors import ConfigError
from surelabel.verdicts import Audit, audit
from surelabel.verdicts.gate import Gate, check_labels, percent


@pytest.fixture(scope="module")
def audits(tmp_path_factory, made_run):
    """Audits of made-up runs by name: 5 % wrong twice, by different seeds, and 20 %."""
    folder = tmp_path_factory.mktemp("gate")
    kinds = {"good": (0.05, 0), "again": (0.05, 1), "bad": (0.2, 2)}
    return {name: audit(made_run(folder / name, rate=rate, seed=seed)) for name, (rate, seed) in kinds.items()}


def outcomes(gate):
    return {check.name: check.outcome for check in gate.checks}


@pytest.mark.parametrize(
    ("place", "outcome", "code"),
    [
        ("above", "passed", 0),
        ("high", "passed", 0),
        ("within", "unknown", 3),
        ("low", "unknown", 3),
        ("below", "failed", 1),
    ],
)
def test_the_whole_interval_meets_the_limit(audits, place, outcome, code):
    rate = audits["good"].noise_rate
    low, high = rate.interval
    limit = {"above": high + 0.01, "high": high, "within": rate.rate, "low": low, "below": low - 1e-4}[place]
    gate = check_labels(audits["good"], max_wrong=limit)
    assert (gate.outcome, gate.exit_code) == (outcome, code)
    assert ("lies within the interval" in gate.line) == (outcome == "unknown")


def test_the_estimate_counts_if_that_is_accepted(audits):
    rate = audits["good"].noise_rate.rate
    assert check_labels(audits["good"], max_wrong=rate, accept_estimate=True).outcome == "passed"
    assert check_labels(audits["good"], max_wrong=rate - 1e-4, accept_estimate=True).outcome == "failed"


def test_every_class_has_a_check_and_the_worst_is_named_first(audits):
    rates = {name: rate.rate for name, rate in audits["bad"].class_rates.items()}
    worst = max(rates, key=rates.get)
    limit = sorted(rates.values())[1]
    gate = check_labels(audits["bad"], class_max=limit, accept_estimate=True)
    assert outcomes(gate) == {f"class {name!r}": "failed" if rates[name] > limit else "passed" for name in rates}
    assert gate.line.startswith(f"gate failed: class {worst!r}: ")
    assert "\n" not in gate.line


def test_limits_of_classes_allow_for_their_number(audits):
    alone = audits["good"].class_rates["cat"]
    check = next(c for c in check_labels(audits["good"], class_max=0.5).checks if "cat" in c.name)
    assert check.rate.high > alone.high


def test_an_audit_that_cannot_tell_never_passes():
    unsure = audit_that_cannot_tell()
    assert not unsure.can_tell
    for limits in ({"max_wrong": 1.0}, {"class_max": 1.0}, {"against": unsure}):
        gate = check_labels(unsure, **limits)
        assert (gate.outcome, gate.exit_code) == ("unknown", 3)
        assert "cannot tell" in gate.line


def audit_that_cannot_tell():
    rng = np.random.default_rng(0)
    columns = {"id": np.arange(40).astype(str), "given": np.tile(["cat", "dog"], 20)}
    columns |= {"quality": rng.random(40), "verdict": np.full(40, "training"), "suggested": columns["given"]}
    columns["suggested_probability"] = np.full(40, 0.5)
    return Audit(columns, ("cat", "dog"))


def test_a_failed_check_weighs_more_than_an_unknown_one(audits):
    failed = check_labels(audits["bad"], max_wrong=0.01).checks
    assert failed[0].outcome == "failed"
    unknown = check_labels(audit_that_cannot_tell(), max_wrong=0.01).checks
    passed = check_labels(audits["good"], max_wrong=1.0).checks
    assert Gate(unknown + failed + passed).outcome == "failed"
    assert Gate(passed + unknown).outcome == "unknown"


class TestAgainstABaseline:
    def test_the_same_rate_by_another_draw_passes(self, audits):
        for now, before in (("good", "again"), ("again", "good")):
            assert check_labels(audits[now], against=audits[before]).outcome == "passed"

    def test_more_wrong_labels_fail_and_fewer_pass(self, audits):
        worse = check_labels(audits["bad"], against=audits["good"])
        assert outcomes(worse)["all labels against the baseline"] == "failed"
        assert check_labels(audits["good"], against=audits["bad"]).outcome == "passed"

    def test_noise_is_the_two_near_ends_added_in_squares(self, audits):
        now, before = audits["bad"].noise_rate, audits["good"].noise_rate
        noise = np.hypot(now.rate - now.interval[0], before.interval[1] - before.rate)
        check = check_labels(audits["bad"], against=audits["good"]).checks[0]
        assert check.limit == pytest.approx(before.rate + noise)
        assert check.excess == pytest.approx(now.rate - before.rate - noise)

    def test_class_intervals_widen_with_the_number_of_classes(self, audits):
        alone = audits["good"].class_rates["cat"]
        check = next(c for c in check_labels(audits["good"], against=audits["again"]).checks if "cat" in c.name)
        assert check.rate.high - check.rate.low > alone.high - alone.low

    def test_different_classes_are_refused(self, audits):
        with pytest.raises(ConfigError, match=r"different classes.*'fox', 'owl'"):
            check_labels(audit_that_cannot_tell(), against=audits["good"])


@pytest.mark.parametrize(
    ("arguments", "guilty"),
    [
        ({}, "--max-wrong"),
        ({"max_wrong": 2}, "--max-wrong 2"),
        ({"max_wrong": float("nan")}, "--max-wrong nan"),
        ({"class_max": -1}, "--class-max -1"),
    ],
)
def test_limits_that_make_no_sense_are_named(audits, arguments, guilty):
    with pytest.raises(ConfigError, match=guilty):
        check_labels(audits["good"], **arguments)


def test_everything_is_json(audits):
    gate = check_labels(audits["bad"], max_wrong=0.1, class_max=0.1, against=audits["good"])
    content = json.loads(json.dumps(gate.to_dict(), allow_nan=False))
    assert content["outcome"] == "failed"
    assert len(content["checks"]) == 1 + 4 + 1 + 4


def test_percentages_have_three_digits_and_no_exponent():
    assert [percent(share) for share in (0.17123, 0.000191, 1.2e-5, 3.8e-8, 0.0)] == [
        "17.1 %", "0.0191 %", "0.0012 %", "0 %", "0 %"
    ]  # fmt: skip
