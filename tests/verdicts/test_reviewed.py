"""Decisions update P(wrong), and a random sample says how many labels are wrong in all."""

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import beta, norm

import surelabel
from surelabel.runs import decisions
from surelabel.runs.decisions import FILE_NAME, Journal, Wish, random_order
from surelabel.verdicts.calibration import Calibration
from surelabel.verdicts.random_sample import Sample
from surelabel.verdicts.reviewed import Answers, Updater


def made_up(seed=0, num_rows=1000, shift=0.0, scale=1.0, width=1.5):
    """Return a calibration whose log odds are off by shift and scale, and which rows are wrong."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(num_rows) < 0.2
    score = np.where(wrong, rng.normal(2, 1.8, num_rows), rng.normal(-3.5, 1.8, num_rows))
    odds = scale * (logit(0.2) + norm.logpdf(score, 2, 1.8) - norm.logpdf(score, -3.5, 1.8)) + shift
    return Calibration(*(expit(odds + end) for end in (0, -width, width))), wrong


def update(calibration, given, in_doubt=False):
    return Updater(calibration, in_doubt).update(given)


def answers(calibration, wrong, top=0, random=0, seed=0, skipped=0):
    """Return answers on the first suspects and on a random sample."""
    decided = np.zeros(len(wrong), dtype=bool)
    decided[np.argsort(-calibration.p_wrong)[:top]] = True
    rows = np.random.default_rng(seed + 1).permutation(len(wrong))[:random]
    own, skip = ~decided[rows], np.arange(random) < skipped
    skip &= own
    decided[rows] = True
    decided[rows[skip]] = False
    sample = Sample(rows, wrong[rows] & ~skip, skip, own, len(wrong), random) if random else None
    return Answers(decided, wrong & decided, sample)


def rate_gap(calibration, wrong):
    return abs(calibration.p_wrong.mean() - wrong.mean())


class TestRows:
    def test_without_decisions_nothing_changes(self):
        calibration, wrong = made_up()
        assert update(calibration, answers(calibration, wrong)) is calibration

    def test_with_all_decided_everything_is_exact(self):
        calibration, wrong = made_up(shift=1.5)
        for random in (0, 300):
            after = update(calibration, answers(calibration, wrong, top=1000, random=random))
            assert np.array_equal(after.p_wrong, wrong)
            assert after.interval(slice(None), 0.95) == (wrong.sum(), wrong.sum())

    def test_answers_as_expected_leave_other_rows_nearly_as_they_were(self):
        calibration, wrong = made_up()
        given = answers(calibration, wrong, top=50)
        after = update(calibration, given)
        rest = ~given.is_decided
        assert np.abs(after.p_wrong - calibration.p_wrong)[rest].max() < 0.03

    def test_decisions_move_rows_with_similar_scores_and_not_others(self):
        calibration, _ = made_up(shift=1.5)
        order = np.argsort(-calibration.p_wrong)
        decided = np.zeros(1000, dtype=bool)
        decided[order[:60:2]] = True
        after = update(calibration, Answers(decided, np.zeros(1000, dtype=bool)))
        change = calibration.p_wrong - after.p_wrong
        assert change[order[1:60:2]].min() > 0.2  # these were said to be wrong and are not
        assert np.abs(change[order[500:]]).max() < 0.01

    def test_bounds_hold_p_wrong_and_shrink_where_rows_were_reviewed(self):
        calibration, wrong = made_up(width=2)
        given = answers(calibration, wrong, top=150)
        after = update(calibration, given)
        assert (after.low <= after.p_wrong).all()
        assert (after.p_wrong <= after.high).all()
        near = np.argsort(-calibration.p_wrong)[150:180]
        assert (after.high - after.low)[near].mean() < 0.8 * (calibration.high - calibration.low)[near].mean()

    def test_trusted_rows_stay_right(self):
        calibration, wrong = made_up()
        for values in (calibration.p_wrong, calibration.low, calibration.high):
            values[:10] = 0
        wrong[:10] = False
        after = update(calibration, answers(calibration, wrong, top=100, random=100))
        assert not after.high[:10].any()

    @pytest.mark.parametrize("random", [0, 60])
    def test_longer_lists_never_promise_less(self, random):
        calibration, wrong = made_up(shift=1, scale=0.5, width=2.5)
        given = answers(calibration, wrong, top=40, random=random)
        after = update(calibration, given)
        ranked = after.reorder(np.lexsort((-after.p_wrong, given.is_decided)))
        ends = np.array([ranked.interval(slice(0, size), 0.95) for size in range(0, 1001, 20)])
        assert (np.diff(ends, axis=0) >= -1e-9).all()
        assert (ends[:, 0] <= ends[:, 1]).all()


class TestSample:
    def test_the_exact_interval_is_that_of_clopper_and_pearson_in_large_data(self):
        rows = np.arange(100)
        sample = Sample(rows, rows < 21, rows < 0, rows >= 0, 10_000_000, 100)
        low, high = (end / 10_000_000 for end in sample.interval(0.95))
        assert low == pytest.approx(beta.ppf(0.025, 21, 80), abs=1e-5)
        assert high == pytest.approx(beta.ppf(0.975, 22, 79), abs=1e-5)

    def test_a_sample_of_everything_is_exact(self):
        rows = np.arange(50)
        assert Sample(rows, rows < 7, rows < 0, rows >= 0, 50, 50).interval(0.95) == (7, 7)

    def test_skipped_rows_may_be_right_or_wrong(self):
        rows = np.arange(50)
        assert Sample(rows, rows < 7, rows >= 45, rows >= 0, 50, 50).interval(0.95) == (7, 12)

    def test_more_skipped_rows_never_narrow_the_interval(self):
        calibration, wrong = made_up(shift=1, scale=0.5, width=2.5)
        widths = []
        for skipped in (0, 10, 30):
            after = update(calibration, answers(calibration, wrong, random=100, skipped=skipped))
            low, high = after.interval(slice(None), 0.95)
            widths.append(high - low)
        assert widths == sorted(widths)

    def test_a_sample_that_agrees_does_not_widen_a_narrow_interval_much(self):
        calibration, wrong = made_up(width=0.7)
        after = update(calibration, answers(calibration, wrong, random=100))
        before, now = (np.diff(one.interval(slice(None), 0.95))[0] for one in (calibration, after))
        assert now < 1.1 * before
        assert not after.combined.contradicts

    def test_a_sample_that_contradicts_the_model_wins(self):
        calibration, wrong = made_up(shift=-6, width=0.2)
        after = update(calibration, answers(calibration, wrong, random=200))
        assert after.combined.contradicts
        low, high = after.interval(slice(None), 0.95)
        assert low <= wrong.sum() <= high
        assert calibration.interval(slice(None), 0.95)[1] < wrong.sum()


CASES = {
    "well calibrated": {},
    "too high": {"shift": 1.5, "width": 1.8},
    "too low": {"shift": -2, "width": 2.2},
    "cannot tell": {"shift": 1, "scale": 0.5, "width": 2.5},
}


@pytest.mark.parametrize("kind", CASES)
def test_reviews_bring_the_rate_nearer_and_their_intervals_hold(kind):
    gaps, held = [], []
    for seed in range(10):
        calibration, wrong = made_up(seed, **CASES[kind])
        for top, random in ((100, 0), (0, 100), (100, 100)):
            after = update(calibration, answers(calibration, wrong, top, random, seed))
            low, high = after.interval(slice(None), 0.95)
            held.append(low <= wrong.sum() <= high)
            gaps.append((rate_gap(calibration, wrong), rate_gap(after, wrong), random))
    assert np.mean(held) >= 0.9
    before, after = np.mean([gap[:2] for gap in gaps if gap[2]], axis=0)
    assert after <= max(0.01, 0.7 * before)


@pytest.fixture
def reviewed_run(run_of, monkeypatch):
    """Return a run of which a person can say everything: its true labels are known."""
    # One sample in twenty is outside its interval, so every test run must draw the same one.
    monkeypatch.setattr(decisions.secrets, "randbits", lambda _bits: 1)
    run = run_of(num_rows=600, rate=0.3)
    journal = Journal(run.path / FILE_NAME)
    names, labels = run.data()["class_names"], run.labels().to_pylist()
    truth = {row["id"]: (names[row["given"]], names[row["clean"]]) for row in labels}

    def decide(ids, queue=None, action=None):
        for id in ids:
            given, clean = truth[id]
            wanted = action or ("keep" if given == clean else "relabel")
            seen = journal.book()[id].last if id in journal.book() else 0
            journal.append([Wish(id, given, wanted, clean if wanted == "relabel" else None, seen, queue)])

    def drawn(count):
        draw = journal.draw(count)
        ids = [row["id"] for row in labels]
        return [ids[at] for at in random_order(draw.seed, ids)[: draw.count]]

    return run, journal, decide, drawn


class TestAudit:
    def test_decided_rows_are_certain_and_come_last(self, reviewed_run):
        run, _, decide, _ = reviewed_run
        before = surelabel.audit(run)
        first = [str(id) for id in before.columns["id"][:40]]
        decide(first)
        after = surelabel.audit(run)
        assert sorted(map(str, after.columns["id"][-40:])) == sorted(first)
        assert set(after.columns["p_wrong"][-40:]) <= {0.0, 1.0}
        assert (after.columns["decided"][-40:] == after.columns["clean"][-40:]).all()
        assert (after.columns["decided"][:-40] == "").all()
        assert not after.ranked(after.is_suspicious)[-40:].any()
        assert "After 40 decisions: about" in after.sentences()[0]
        corrected = dict(zip(run.labels()["id"].to_pylist(), after.corrected(), strict=True))
        clean = dict(zip(after.columns["id"].tolist(), after.columns["clean"].tolist(), strict=True))
        assert all(corrected[id] == clean[id] for id in first)

    def test_stored_values_are_not_rewritten(self, reviewed_run):
        run, _, decide, _ = reviewed_run
        stored = (run.path / "samples.parquet").read_bytes()
        decide([str(id) for id in surelabel.audit(run).columns["id"][:20]])
        surelabel.audit(run)
        assert (run.path / "samples.parquet").read_bytes() == stored

    def test_a_journal_without_valid_decisions_changes_nothing(self, reviewed_run):
        run, journal, decide, _ = reviewed_run
        before = surelabel.audit(run)
        first = str(before.columns["id"][0])
        decide([first])
        decide([first], action="undo")
        decide([str(before.columns["id"][1])], action="skip")
        after = surelabel.audit(run)
        assert np.array_equal(after.p_wrong, before.p_wrong)
        assert after.sentences() == before.sentences()
        assert journal.decisions()

    def test_a_random_sample_tells_where_training_cannot(self, reviewed_run):
        run, _, decide, drawn = reviewed_run
        samples = run.samples()
        half = np.full(len(samples), 0.5, dtype=np.float32)
        table = {
            name: samples[name].to_numpy() for name in samples.column_names if name not in ("target", "probability")
        }
        soft = np.full((len(samples), 4), 0.25, dtype=np.float32)
        wide = {"p_wrong": half, "p_wrong_low": 0 * half, "p_wrong_high": half + 0.5}
        run.write_samples({**table, **wide, "target": soft, "probability": soft})
        assert not surelabel.audit(run).can_tell
        decide(drawn(100), "random")
        after = surelabel.audit(run)
        assert after.can_tell
        low, high = after.noise_rate.interval
        assert low <= 0.3 <= high
        text = " ".join(after.sentences())
        assert "After 100 decisions, 100 of them drawn at random: " in text
        assert "Of the 100 labels drawn at random" in text
        assert after.summary()["review"]["random"]["checked"] == 100

    def test_rows_decided_before_count_only_as_the_sample_reaches_them(self, reviewed_run):
        run, _, decide, drawn = reviewed_run
        wrong_first = [str(id) for id in surelabel.audit(run).columns["id"][:150]]
        decide(wrong_first)
        sample = drawn(50)
        review = surelabel.audit(run).review
        assert review.answers.sample.size == 0
        left = [id for id in sample if id not in wrong_first]
        assert len(left) < 50
        for id in left[:10]:
            decide([id], "random")
        part = surelabel.audit(run).review.answers.sample
        assert part.size == sample.index(left[9]) + 1
        assert part.is_own.sum() == 10
        decide(left[10:], "random")
        whole = surelabel.audit(run).review.answers.sample
        assert whole.size == 50
        assert whole.is_own.sum() == len(left)

    def test_skipped_rows_of_a_sample_are_unknown_and_undone_ones_end_it(self, reviewed_run):
        run, _, decide, drawn = reviewed_run
        sample = drawn(30)
        decide(sample[:5], "random", "skip")
        decide(sample[5:], "random")
        found = surelabel.audit(run).review.answers.sample
        assert (found.size, int(found.is_skipped.sum())) == (30, 5)
        decide([sample[20]], action="undo")
        assert surelabel.audit(run).review.answers.sample.size == 20
