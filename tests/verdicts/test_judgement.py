import numpy as np
import pytest

from surelabel.verdicts.calibration import Calibration
from surelabel.verdicts.judgement import judge
from surelabel.verdicts.probe import second_opinion

NUM_CLASSES = 4


def blobs(rate, spread, num_rows=800, seed=0):
    """Draw features of four classes; `rate` of the labels are wrong."""
    rng = np.random.default_rng(seed)
    clean = np.arange(num_rows) % NUM_CLASSES
    x = rng.normal(size=(NUM_CLASSES, 10))[clean] * spread + rng.normal(size=(num_rows, 10))
    given = clean.copy()
    wrong = rng.choice(num_rows, round(rate * num_rows), replace=False)
    given[wrong] = (given[wrong] + rng.integers(1, NUM_CLASSES, len(wrong))) % NUM_CLASSES
    return x, given, clean


def judged(x, given, **evidence):
    return judge(second_opinion({"x": x}, given, NUM_CLASSES).logits, given, **evidence)


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_clear_classes_give_the_rate_a_narrow_interval_and_right_suggestions(rate):
    x, given, clean = blobs(rate, spread=1.5)
    found = judged(x, given)
    assert found.p_wrong.mean() == pytest.approx(rate, abs=0.03)
    assert found.low.mean() <= rate <= found.high.mean() <= found.low.mean() + 0.2
    flagged = found.p_wrong >= 0.5
    assert (given != clean)[flagged].mean() > 0.9
    assert (found.true_class.argmax() == clean)[flagged].mean() > 0.9
    assert found.power > 0.75


def test_right_labels_are_left_alone():
    x, given, _ = blobs(0.0, spread=1.5)
    found = judged(x, given)
    assert (found.p_wrong >= 0.5).mean() <= 0.01
    assert found.p_wrong.mean() < 0.01


def test_random_labels_cannot_be_judged():
    x, _, _ = blobs(0.0, spread=1.5)
    given = np.random.default_rng(1).integers(0, NUM_CLASSES, len(x))
    found = judged(x, given)
    assert found.high.mean() - found.low.mean() > 0.4
    assert found.power < 0.6


def test_unclear_classes_have_wide_bounds():
    x, given, _ = blobs(0.2, spread=0.3)
    found = judged(x, given)
    assert found.low.mean() <= 0.2 <= found.high.mean()
    assert found.high.mean() - found.low.mean() > 0.4


def test_training_that_tells_labels_apart_is_believed_and_memorised_labels_are_not():
    x, given, clean = blobs(0.2, spread=0.8)
    rng = np.random.default_rng(2)
    alone = judged(x, given)
    noise = rng.normal(size=len(x)) * 0.05
    helpful = judged(x, given, quality=np.clip(np.where(given == clean, 0.8, 0.2) + noise, 0, 1))
    memorised = judged(x, given, quality=np.clip(0.95 + noise, 0, 1))

    def errors(found):
        return np.abs(found.p_wrong - (given != clean)).mean()

    assert errors(helpful) < 0.85 * errors(alone)
    assert errors(memorised) == pytest.approx(errors(alone), rel=0.1)


def test_trusted_labels_are_right_and_unknown_quality_is_ignored():
    x, given, clean = blobs(0.2, spread=1.5)
    wrong = np.flatnonzero(given != clean)
    trusted = np.isin(np.arange(len(x)), wrong[:20])
    found = judged(x, given, quality=np.full(len(x), np.nan), trusted=trusted)
    assert (found.p_wrong[trusted] == 0).all()
    assert (found.high[trusted] == 0).all()
    assert (found.true_class.argmax() == given)[trusted].all()
    assert (found.p_wrong[wrong[20:]] > 0.5).mean() > 0.8


def test_all_trusted():
    x, given, _ = blobs(0.2, spread=1.5, num_rows=60)
    found = judged(x, given, trusted=np.ones(60, dtype=bool))
    assert not found.p_wrong.any()
    assert not found.high.any()


def test_the_network_chooses_among_other_classes():
    x, given, clean = blobs(0.2, spread=0.6)
    predicted = np.full((len(x), NUM_CLASSES), 0.01)
    predicted[np.arange(len(x)), clean] = 0.97
    wrong = given != clean

    def right(found):
        others = found.true_class.dense().copy()
        others[np.arange(len(x)), given] = 0
        return (others.argmax(1) == clean)[wrong].mean()

    assert right(judged(x, given, predicted=predicted)) > max(0.95, right(judged(x, given)))


def test_judgements_do_not_depend_on_when_they_are_made():
    x, given, _ = blobs(0.2, spread=1.0)
    first, second = judged(x, given), judged(x, given)
    for name in ("p_wrong", "low", "high"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    np.testing.assert_array_equal(first.true_class.dense(), second.true_class.dense())


class TestCalibration:
    def ranked(self):
        p_wrong = np.concatenate([np.linspace(1, 0.5, 100), np.linspace(0.5, 0, 400)])
        return Calibration(p_wrong, p_wrong * 0.8, np.minimum(1, p_wrong * 1.2 + 0.02))

    def test_a_longer_list_never_promises_fewer_wrong_labels(self):
        ends = [self.ranked().interval(slice(0, size), 0.95) for size in range(0, 501, 5)]
        lows, highs = zip(*ends, strict=True)
        assert list(lows) == sorted(lows)
        assert list(highs) == sorted(highs)
        assert all(low <= high <= size for low, high, size in zip(lows, highs, range(0, 501, 5), strict=True))

    def test_the_expected_number_is_inside_and_more_confidence_is_wider(self):
        table = self.ranked()
        expected = table.p_wrong[:200].sum()
        narrow, wide = (table.interval(slice(0, 200), confidence) for confidence in (0.5, 0.99))
        assert wide[0] < narrow[0] < expected < narrow[1] < wide[1]

    def test_rows_move_together(self):
        table, order = self.ranked(), np.random.default_rng(0).permutation(500)
        moved = table.reorder(order)
        rows = np.flatnonzero(np.isin(order, np.arange(50)))
        np.testing.assert_allclose(sorted(moved.p_wrong[rows]), sorted(table.p_wrong[:50]))
        assert moved.interval(rows, 0.95)[1] == pytest.approx(table.interval(slice(0, 50), 0.95)[1])


def with_hard_rows_wrong(x, clean, rate, seed=0):
    """Give the rows that are least clear their second class: mistakes that follow the inputs."""
    centres = np.stack([x[clean == label].mean(0) for label in range(NUM_CLASSES)])
    nearness = -((x[:, None] - centres) ** 2).sum(2)
    own = nearness[np.arange(len(x)), clean]
    nearness[np.arange(len(x)), clean] = -np.inf
    hard = np.argsort(own - nearness.max(1))[: round(rate * len(x) / 0.8)]
    hard = hard[np.random.default_rng(seed).random(len(hard)) < 0.8]
    given = clean.copy()
    given[hard] = nearness.argmax(1)[hard]
    return given


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_mistakes_that_follow_the_inputs_raise_doubt_and_their_rate_is_within_the_bounds(rate):
    x, _, clean = blobs(0.0, spread=0.8)
    given = with_hard_rows_wrong(x, clean, rate)
    found = judged(x, given)
    assert found.p_wrong.mean() < 0.3 * (given != clean).mean()  # models repeat such mistakes
    assert found.may_follow_inputs
    assert found.low.mean() <= (given != clean).mean() <= found.high.mean()
    assert not found.low.any()


@pytest.mark.parametrize(("rate", "spread"), [(0.0, 1.5), (0.1, 1.2), (0.3, 1.2)])
def test_mistakes_that_depend_on_the_class_alone_raise_none(rate, spread):
    x, given, _ = blobs(rate, spread)
    assert not judged(x, given).may_follow_inputs


def test_a_suggestion_is_judged_by_the_label_that_was_given():
    x, given, clean = blobs(0.3, spread=1.5)
    logits = second_opinion({"x": x}, given, NUM_CLASSES).logits
    before = judge(logits, given)
    changed = np.flatnonzero(before.p_wrong >= 0.5)
    present = given.copy()
    present[changed] = clean[changed]
    spoilt = changed[:20]
    present[spoilt] = (clean[spoilt] + 1) % NUM_CLASSES
    found = judge(logits, given, present=present)
    assert found.p_wrong[changed[20:]].mean() < 0.1
    assert found.p_wrong[spoilt].min() > 0.5
    assert (found.true_class.argmax() == clean)[spoilt].mean() > 0.9
    rate = (present != clean).mean()
    assert found.p_wrong.mean() == pytest.approx(rate, abs=0.02)
    assert found.low.mean() <= rate <= found.high.mean()
    kept = given == present
    assert found.p_wrong[kept] == pytest.approx(before.p_wrong[kept])


def test_training_on_a_suggestion_does_not_speak_for_it():
    x, given, clean = blobs(0.3, spread=1.0)
    logits = second_opinion({"x": x}, given, NUM_CLASSES).logits
    present = np.where(judge(logits, given).p_wrong >= 0.5, clean, given)
    own = present != given
    quality = np.where(present == clean, 0.9, 0.1) + np.random.default_rng(0).normal(size=len(x)) / 20
    found, alone = judge(logits, given, quality, present=present), judge(logits, given, present=present)
    assert np.isnan(found.training_odds[own]).all()
    assert np.isfinite(found.training_odds[~own]).all()
    assert found.p_wrong[own] == pytest.approx(alone.p_wrong[own])
