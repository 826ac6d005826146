"""Decisions made at once are no looks: they decide on their rows and say nothing about others."""

import numpy as np
import pytest

import surelabel
from surelabel.runs.decisions import FILE_NAME, Journal, Wish, random_order
from surelabel.runs.run_dir import RunDir


@pytest.fixture
def digits(stored):
    """Return a stored run on digits of which 363 of 1,797 labels are wrong, and its journal."""
    run = RunDir(stored("digits"))
    return run, Journal(run.path / FILE_NAME)


def accept(audit, rows=slice(None)) -> list[Wish]:
    """Return the acceptance of the suggestions for these suspects."""
    suspects = audit.flagged()
    found = zip(*(suspects.columns[name][rows] for name in ("id", "given", "suggested")), strict=True)
    return [Wish(str(id), str(given), "relabel", str(other)) for id, given, other in found if given != other]


def by_id(audit, name: str) -> dict[str, object]:
    return dict(zip(audit.columns["id"].tolist(), audit.columns[name].tolist(), strict=True))


def test_accepting_all_suspects_at_once_changes_no_estimate(digits):
    run, journal = digits
    before = surelabel.audit(run)
    wishes = accept(before)
    assert len(wishes) > 100
    journal.append(wishes)
    after = surelabel.audit(run)
    assert by_id(after, "p_wrong") == by_id(before, "p_wrong")
    assert after.noise_rate.num_wrong == pytest.approx(before.noise_rate.num_wrong)
    assert after.noise_rate.interval == pytest.approx(before.noise_rate.interval)
    assert after.joint_counts == pytest.approx(before.joint_counts)
    assert after.num_suspicious == before.num_suspicious - len(wishes)
    decided = by_id(after, "decided")
    assert {wish.id: decided[wish.id] for wish in wishes} == {wish.id: wish.label for wish in wishes}
    ids = run.labels()["id"].to_pylist()
    corrected = dict(zip(ids, after.corrected().tolist(), strict=True))
    assert all(corrected[wish.id] == wish.label for wish in wishes)


def test_the_sentence_says_how_many_were_looked_at(digits):
    run, journal = digits
    wishes = accept(surelabel.audit(run))
    journal.append(wishes[5:])
    assert f"After {len(wishes) - 5:,} decisions made in bulk: " in surelabel.audit(run).sentences()[0]
    for wish in wishes[:5]:
        journal.append([wish])
    after = surelabel.audit(run)
    assert (
        f"After {len(wishes):,} decisions, 5 of them looked at and {len(wishes) - 5} made in bulk: "
        in (after.sentences()[0])
    )
    assert after.summary()["review"] == {
        "decided": len(wishes),
        "bulk": len(wishes) - 5,
        "wrong": 5,
        "removed": 0,
        "random": None,
    }


def test_one_row_is_looked_at_whatever_command_decides_on_it(digits):
    run, journal = digits
    (wish,) = accept(surelabel.audit(run), slice(1))
    journal.append([wish])
    after = surelabel.audit(run)
    assert by_id(after, "p_wrong")[wish.id] == 1
    assert "After 1 decision: " in after.sentences()[0]


def test_a_look_at_a_row_that_was_accepted_in_bulk_counts(digits):
    run, journal = digits
    wishes = accept(surelabel.audit(run))
    journal.append(wishes)
    first = wishes[0]
    journal.append([Wish(first.id, first.given, "keep", seen=journal.book()[first.id].last)])
    after = surelabel.audit(run)
    assert by_id(after, "p_wrong")[first.id] == 0
    assert after.review.num_looked == 1
    journal.append([Wish(first.id, first.given, "undo", seen=journal.book()[first.id].last)])
    assert surelabel.audit(run).review.num_looked == 0


def test_decisions_made_at_once_do_not_answer_a_random_sample(digits):
    run, journal = digits
    before = surelabel.audit(run)
    ids = run.labels()["id"].to_pylist()
    given = by_id(before, "given")
    draw = journal.draw(40)
    sample = [ids[at] for at in random_order(draw.seed, ids)[:40]]
    for id in sample[:10]:
        journal.append([Wish(id, given[id], "keep", queue="random")])
    journal.append([Wish(id, given[id], "keep", queue="random") for id in sample[10:]])
    found = surelabel.audit(run).review
    assert (found.answers.sample.size, found.num_looked, found.num_decided) == (10, 10, 40)


def test_export_does_not_count_labels_that_nobody_looked_at_as_right(digits):
    from surelabel.exporting.selection import choose

    run, journal = digits
    before = surelabel.audit(run)
    wishes = accept(before)
    journal.append(wishes)
    after = surelabel.audit(run)
    cleaned = choose(run, after, journal.decisions())
    right_before, right_after = cleaned.expected_right
    assert right_before == pytest.approx(len(before) - before.noise_rate.num_wrong)
    decided = np.isin(after.columns["id"], [wish.id for wish in wishes])
    gained = float((after.ranked(after.p_suggested) + after.columns["p_wrong"] - 1)[decided].sum())
    assert right_after == pytest.approx(right_before + gained)
