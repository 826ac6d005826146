"""Several annotators: each has an own decision on a row, and a rule makes one of them."""

import csv
import json

import pytest

from surelabel.errors import ConfigError
from surelabel.runs.decisions import Journal, Wish


@pytest.fixture
def path(tmp_path):
    return tmp_path / "decisions.jsonl"


def annotator(path, name):
    return Journal(path, name, is_independent=True)


def say(journal, **labels):
    """Decide on rows that were given "cat": a label, or one of remove, unsure and skip."""
    for id, label in labels.items():
        seen = journal.find([id])[id].last if journal.find([id]) else 0
        if label in ("remove", "unsure", "skip", "undo"):
            journal.append([Wish(id, "cat", label, seen=seen)])
        else:
            journal.append([Wish(id, "cat", "keep" if label == "cat" else "relabel", label, seen)])


def held(journal):
    return {id: one.label or one.action for id, one in journal.decisions().items()}


def test_annotators_decide_and_undo_independently(path):
    ann, bob = annotator(path, "ann"), annotator(path, "bob")
    say(ann, x="cat", y="cat")
    assert held(bob) == {}
    say(bob, x="dog")
    say(ann, x="undo")
    assert held(ann) == {"y": "cat"}
    assert held(bob) == {"x": "dog"}
    assert [len(bulk) for bulk in ann.recent(9)] == [1]
    assert held(Journal(path)) == {"x": "dog", "y": "cat"}
    assert json.loads(path.read_text().splitlines()[0])["independent"] is True


def test_rules(path):
    ann, bob, eve = (annotator(path, name) for name in ("ann", "bob", "eve"))
    say(ann, both="cat", two="dog", all="dog", alone="dog", gone="remove", vague="unsure")
    say(bob, both="dog", two="dog", all="dog", gone="remove", vague="cat")
    say(eve, two="cat", all="dog", gone="cat", vague="unsure")
    assert held(Journal(path)) == {
        "both": "dog", "two": "cat", "all": "dog", "alone": "dog", "gone": "cat", "vague": "cat"
    }  # fmt: skip
    assert held(Journal(path, rule="majority")) == {
        "both": "unsure", "two": "dog", "all": "dog", "alone": "dog", "gone": "remove", "vague": "cat"
    }  # fmt: skip
    assert held(Journal(path, rule="agree")) == {
        "both": "unsure", "two": "unsure", "all": "dog", "alone": "dog", "gone": "unsure", "vague": "cat"
    }  # fmt: skip
    with pytest.raises(ConfigError, match="last, majority, agree"):
        Journal(path, rule="loudest")


def test_what_is_decided_in_common_settles_a_disagreement(path):
    say(annotator(path, "ann"), x="cat", y="cat")
    say(annotator(path, "bob"), x="dog", y="cat")
    common = Journal(path, "chair", rule="agree")
    assert common.disputed() == {"x"}
    say(common, x="dog")
    assert common.disputed() == set()
    assert held(common) == {"x": "dog", "y": "cat"}
    assert [[one.id for one in bulk] for bulk in common.recent(9)] == [["x"]], "others' decisions are theirs to undo"
    say(common, x="undo")
    assert common.disputed() == {"x"}


def test_kappa_by_hand(path):
    """Two classes, 20 + 5 + 10 + 15 rows: the textbook's kappa of 0.4."""
    counts = {("cat", "cat"): 20, ("cat", "dog"): 5, ("dog", "cat"): 10, ("dog", "dog"): 15}
    rows = [pair for pair, count in counts.items() for _ in range(count)]
    for name, place in (("ann", 0), ("bob", 1)):
        wishes = [Wish(f"{n}", "cat", "relabel", pair[place]) for n, pair in enumerate(rows)]
        annotator(path, name).append([*wishes, Wish(f"only {name}", "cat", "keep")])
    (found,) = Journal(path).agreement()
    assert (found.one, found.other, found.num_rows, found.num_agreed) == ("ann", "bob", 50, 35)
    assert found.kappa == pytest.approx(0.4)


def test_agreement_follows_changes_of_mind(path):
    ann, bob = annotator(path, "ann"), annotator(path, "bob")
    say(ann, x="cat", y="dog")
    say(bob, x="cat", y="cat")
    say(ann, y="undo")
    assert [(one.num_rows, one.num_agreed) for one in Journal(path).agreement()] == [(1, 1)]
    say(ann, y="cat", x="unsure")
    assert [(one.num_rows, one.num_agreed) for one in ann.agreement()] == [(1, 1)]
    say(bob, x="undo", y="undo")
    assert ann.agreement() == []


def test_kappa_is_not_defined_if_all_is_one_class(path):
    for name in ("ann", "bob"):
        say(annotator(path, name), x="cat", y="cat")
    assert [one.kappa for one in Journal(path).agreement()] == [None]


def test_disagreements_are_listed_in_the_csv(path, tmp_path):
    say(annotator(path, "ann"), x="cat", y="cat")
    say(annotator(path, "bob"), x="remove", y="cat")
    Journal(path, rule="majority").to_csv(tmp_path / "d.csv")
    with (tmp_path / "d.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    assert (rows["x"]["action"], rows["x"]["label"], rows["x"]["disagreement"]) == (
        "unsure",
        "",
        "ann: cat; bob: remove",
    )
    assert (rows["y"]["label"], rows["y"]["by"], rows["y"]["disagreement"]) == ("cat", "bob", "")


def test_journals_without_annotators_are_read_as_before(path):
    one, other = Journal(path, "one"), Journal(path, "other")
    say(one, x="cat")
    say(other, x="dog")
    say(one, x="undo")  # what held last, whoever decided it
    assert held(one) == held(Journal(path, rule="agree")) == {"x": "cat"}
    assert one.agreement() == []
    assert one.disputed() == set()
