"""The rungs of a search by hand: who stays, who is chosen, failures and the budget."""

import numpy as np
import pytest

import surelabel
from surelabel.config import validate
from surelabel.errors import ConfigError, RunError
from surelabel.jobs import Outcome
from surelabel.runs.run_dir import RunDir
from surelabel.tuning import list_rows, plan_rungs, search
from surelabel.tuning.rungs import accuracy_of, choose, compare, count_runs, rank

NUM_ROWS = 10
VALUES = {"momentum": [0.1, 0.2, 0.3, 0.4]}


def test_rungs_are_halved_down_to_two():
    assert [plan_rungs(number) for number in (2, 3, 4, 6, 8)] == [[2, 2, 2], [3, 2, 2], [4, 2, 2], [6, 3, 2], [8, 4, 2]]
    assert count_runs(6) == pytest.approx(11 * 2 / 3)


def test_candidates_are_ranked_by_hits_and_equals_by_their_order():
    assert rank({"a": np.array([1, 0, 0]), "b": np.array([1, 1, 0]), "c": np.array([0, 1, 1])}) == ["b", "c", "a"]


def test_of_equals_the_one_that_memorises_least_is_chosen():
    hits = {name: np.arange(100) < count for name, count in {"a": 60, "b": 61, "c": 50}.items()}
    assert choose(hits, {"a": 0.3, "b": 0.1, "c": 0.0}) == "b"
    assert choose(hits, {"a": 0.1, "b": 0.3, "c": 0.0}) == "a", "one row more is within the standard error"
    assert choose(hits, {"a": 0.1, "b": 0.1, "c": 0.0}) == "a", "of equals the first"
    assert choose({"b": hits["b"], "c": hits["c"]}, {"b": 0.3, "c": 0.0}) == "b", "11 rows more are not"
    assert choose({}, {}) is None


def test_errors_of_a_comparison_count_only_rows_that_differ():
    ours, theirs = np.array([1, 1, 1, 0], dtype=bool), np.array([1, 1, 0, 0], dtype=bool)
    accuracy, difference = accuracy_of(ours), compare(ours, theirs)
    assert (accuracy.mean, accuracy.standard_error) == pytest.approx((0.75, np.sqrt(0.75 * 0.25 / 3)))
    assert (difference.mean, difference.standard_error) == pytest.approx((0.25, np.sqrt(0.25 * 0.75 / 3)))


@pytest.fixture
def scripted(monkeypatch, tmp_path):
    """`scripted({0.1: [6, 7, 7], ...})`: a search whose runs hit so many of ten rows in each fold.

    A text instead of a number is the reason for a failure, None a run that is not started.
    """

    def run(script):
        asked, hits = [], {}

        def run_all(trials, folder, **options):
            outcome = Outcome()
            for trial in trials:
                data, momentum = trial.config.data, trial.config.method.options["momentum"]
                asked.append((data.validation_fold, momentum))
                found = script[momentum][data.validation_fold]
                if isinstance(found, str):
                    outcome.failed[trial.name] = found
                elif found is None:
                    outcome.waiting.append(trial.name)
                else:
                    hits[trial.name] = np.arange(NUM_ROWS) < found
            return outcome

        monkeypatch.setattr(search, "run_all", run_all)
        monkeypatch.setattr(search, "read_hits", lambda run: (np.arange(NUM_ROWS), hits[run.path.name], 1.0))
        monkeypatch.setattr(RunDir, "metrics", lambda run: [{"seconds": 30.0}])
        tuning = search.tune("digits", tmp_path, settings={"method": "elr"}, candidates=VALUES)
        return tuning, asked

    return run


def test_the_better_half_goes_on_and_all_folds_count(scripted):
    tuning, asked = scripted({0.1: [5, 9, 6], 0.2: [7, 4, 4], 0.3: [3], 0.4: [4]})
    first, second, third = ([momentum for fold, momentum in asked if fold == number] for number in range(3))
    assert (first, second, third) == ([0.1, 0.2, 0.3, 0.4], [0.2, 0.1], [0.1, 0.2])
    assert tuning.chosen == "momentum=0.1"
    assert tuning.best.method.options == {"momentum": 0.1}
    assert tuning.best.data.validation_fraction == 0
    rows = {row["candidate"]: row for row in list_rows(tuning)}
    assert next(iter(rows)) == "momentum=0.1"
    chosen, second, dropped = (rows[f"momentum={value}"] for value in (0.1, 0.2, 0.4))
    assert (chosen["state"], chosen["rung"], chosen["rows"], chosen["minutes"]) == ("chosen", 3, 30, 1.5)
    assert (chosen["accuracy"], chosen["behind"], chosen["gap"]) == (pytest.approx(2 / 3), None, pytest.approx(1 / 3))
    assert (second["state"], second["behind"]) == ("compared", pytest.approx(5 / 30))
    assert (dropped["state"], dropped["rung"], dropped["behind"]) == ("dropped", 1, pytest.approx(1 / 10))


def test_equals_go_to_the_first(scripted):
    tuning, _ = scripted({value: [6, 6, 6] for value in VALUES["momentum"]})
    assert tuning.chosen == "momentum=0.1"


def test_a_candidate_that_fails_is_out_and_the_rest_goes_on(scripted):
    tuning, asked = scripted({0.1: ["diverged"], 0.2: [6, 6, 6], 0.3: [9, "diverged later"], 0.4: [5]})
    assert tuning.chosen == "momentum=0.2"
    assert tuning.is_complete
    assert (2, 0.2) not in asked, "nobody is left to compare it with"
    states = {row["candidate"]: row["state"] for row in list_rows(tuning)}
    assert states["momentum=0.1"] == "failed: diverged"
    assert states["momentum=0.3"] == "failed: diverged later"


def test_if_all_of_a_rung_fail_those_dropped_before_are_left(scripted):
    tuning, _ = scripted({0.1: [8, "full"], 0.2: [7, "full"], 0.3: [3], 0.4: [6]})
    assert tuning.chosen == "momentum=0.4"


def test_a_common_failure_is_one_error(scripted):
    with pytest.raises(RunError, match="every candidate failed: no such file"):
        scripted({value: ["no such file"] for value in VALUES["momentum"]})


def test_candidates_that_fail_for_different_reasons_are_all_listed(scripted):
    tuning, _ = scripted({value: [f"reason {value}"] for value in VALUES["momentum"]})
    assert tuning.chosen is None
    with pytest.raises(RunError, match="no candidate"):
        tuning.best  # noqa: B018


def test_a_rung_that_the_budget_cuts_short_does_not_count_unless_it_is_the_first(scripted):
    tuning, _ = scripted({0.1: [5], 0.2: [7], 0.3: [None], 0.4: [None]})
    assert (tuning.chosen, tuning.is_complete) == ("momentum=0.2", False)
    assert {row["candidate"]: row["state"] for row in list_rows(tuning)}["momentum=0.3"] == "not ended"
    tuning, _ = scripted({0.1: [6, 9], 0.2: [7, None], 0.3: [3], 0.4: [3]})
    assert (tuning.chosen, tuning.is_complete) == ("momentum=0.2", False)


def test_trials_are_the_run_without_a_fold_and_what_only_a_verdict_needs(scripted, tmp_path):
    config = validate({"data": {"source": "digits"}, "method": "elr", "train": {"epochs": 7, "folds": 5}})
    candidate = search.list_candidates(config)[1]
    trial = search.trial_config(config, candidate, 2)
    assert (trial.data.validation_fraction, trial.data.validation_fold) == (1 / 3, 2)
    assert (trial.train.epochs, trial.train.folds, trial.train.second_opinion) == (7, 0, False)
    assert trial.method.options == {"regularisation": 3.0, "momentum": 0.9}


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (([[1.0]], [0]), {}, "data in memory"),
        ("digits", {"budget": 0}, "budget: got 0; expected minutes, more than 0"),
        ("digits", {"budget": float("nan")}, "budget: got nan"),
        ("digits", {"workers": 0}, "workers: got 0"),
        ("digits", {"settings": {"train.warm_start": "runs/1"}}, "train.warm_start"),
        ("digits", {"settings": {"method": "elrr"}}, "did you mean elr"),
    ],
)
def test_refused(data, options, words, tmp_path):
    with pytest.raises(ConfigError, match=words):
        surelabel.tune(data, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
