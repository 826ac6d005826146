"""Which label a row has after cleaning, and who decided it."""

import numpy as np
import pytest

from surelabel.errors import ConfigError, RunError
from surelabel.exporting import Rules, choose
from surelabel.verdicts import Audit


class FakeRun:
    """The rows of a run, in their original order."""

    path = "fake"

    def __init__(self, ids):
        import pyarrow as pa

        self.table = pa.table({"id": ids})

    def labels(self):
        return self.table


def made(p_wrong, given="aabb", suggested="bbaa", verdict=None):
    """Make a run of rows 0, 1, ... and its audit, ranked by P(wrong)."""
    ids = np.array([str(row) for row in range(len(given))])
    order = np.argsort(-np.array(p_wrong), kind="stable")
    columns = {
        "id": ids,
        "given": np.array(list(given)),
        "suggested": np.array(list(suggested)),
        "suggested_probability": np.linspace(0.5, 0.9, len(ids)),
        "quality": 1 - np.array(p_wrong),
        "p_wrong": np.array(p_wrong),
        "split": np.full(len(ids), "train"),
        "verdict": np.array(verdict or ["training"] * len(ids)),
    }
    names = tuple(sorted({*given, *suggested}))
    return FakeRun(ids.tolist()), Audit({name: values[order] for name, values in columns.items()}, names)


def labels(cleaned):
    return "".join(cleaned.columns["label"])


def who(cleaned):
    return cleaned.columns["decided_by"].tolist()


EVERY = Rules("all")


def test_with_all_suggestions_are_taken_from_the_threshold_on():
    cleaned = choose(*made([0.1, 0.9, 0.5, 0.49]), {}, EVERY)
    assert labels(cleaned) == "abab"
    assert who(cleaned) == ["nobody", "model", "model", "nobody"]
    assert cleaned.keep.tolist() == [True, False, False, True]
    assert cleaned.columns["changed"].tolist() == [False, True, True, False]
    assert cleaned.columns["id"].tolist() == ["0", "1", "2", "3"]


def test_another_threshold_needs_no_training():
    assert labels(choose(*made([0.1, 0.9, 0.5, 0.49]), {}, Rules("all", min_probability=0.8))) == "abbb"


def test_a_suspect_whose_suggestion_is_the_given_label_keeps_it_and_is_masked():
    cleaned = choose(*made([0.9, 0.1, 0.1, 0.1], suggested="abbb"), {})
    assert (labels(cleaned), who(cleaned)[0], bool(cleaned.keep[0])) == ("aabb", "nobody", False)


def test_persons_always_win(decision):
    decisions = {"0": decision("relabel", "b"), "1": decision("keep", "a"), "2": decision("skip", None)}
    cleaned = choose(*made([0.0, 1.0, 1.0, 0.0]), decisions, EVERY)
    assert labels(cleaned) == "baab"
    assert who(cleaned) == ["person", "person", "model", "nobody"]
    assert cleaned.keep.tolist() == [True, True, False, True]
    assert cleaned.columns["decided_at"][0].startswith("2026")
    assert cleaned.counts() == {
        "rows": 4,
        "changed_by_model": 1,
        "changed_by_person": 1,
        "confirmed_by_person": 1,
        "review_first": 0,
        "kept": 1,
    }


def test_labels_that_were_trusted_before_stay():
    cleaned = choose(*made([1.0, 1.0, 0, 0], verdict=["trusted", "training", "training", "training"]), {}, EVERY)
    assert (labels(cleaned), who(cleaned)[0]) == ("abbb", "person")


def test_a_cap_spares_the_least_suspicious():
    cleaned = choose(*made([0.6, 0.8, 0.7, 0.9], given="aaaa", suggested="bbbb"), {}, Rules("all", class_cap=0.5))
    assert labels(cleaned) == "abab"
    assert not cleaned.keep.any()


def test_a_class_that_loses_most_of_its_rows_is_named():
    run, audit = made([0.9, 0.9, 0.1, 0.1])
    assert "the class 'a' loses 2 of its 2 rows" in choose(run, audit, {}, EVERY).warnings[0]
    assert not choose(run, audit, {}, Rules("all", class_cap=0.5)).warnings


def test_of_many_classes_that_lose_most_of_their_rows_the_first_are_named():
    given = "abcdefgh"
    cleaned = choose(*made([0.9] * 8 + [0.1], given=given + "z", suggested="z" * 9), {}, EVERY)
    (text,) = cleaned.warnings
    assert text.startswith("8 classes lose most of their rows to suggestions of the model: 'a' 1 of 1, 'b' 1 of 1, ")
    assert "'e' 1 of 1 and 3 more; look at them first" in text
    assert cleaned.losing == dict.fromkeys(given, (1, 1))


def test_faults(decision):
    run, audit = made([0.0] * 4)
    with pytest.raises(RunError, match="decision on '0' names no class of this run: 'c'"):
        choose(run, audit, {"0": decision("relabel", "c")})
    assert (
        "1 decision(s) are on rows that this run does not have: '9'"
        in choose(run, audit, {"9": decision("keep", "a")}).warnings
    )
    with pytest.raises(RunError, match="not one of this run"):
        choose(FakeRun(["0", "1", "2", "x"]), audit, {})
    with pytest.raises(ConfigError, match=r"min_probability=1.5: expected a number from 0 to 1"):
        Rules(min_probability=1.5)
    with pytest.raises(ConfigError, match="accept='some': expected safe or all"):
        Rules("some")
    with pytest.raises(ConfigError, match="no split 'test'; there are train"):
        choose(run, audit, {}, rewrite=["test"])
