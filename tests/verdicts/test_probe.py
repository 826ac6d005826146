import numpy as np
import pytest

from surelabel.verdicts import probe, row_readers
from surelabel.verdicts.judgement import judge
from surelabel.verdicts.probe import second_opinion


def blobs(num_rows=300, num_classes=4, size=10, spread=1.5, seed=0):
    rng = np.random.default_rng(seed)
    clean = np.arange(num_rows) % num_classes
    x = rng.normal(size=(num_classes, size))[clean] * spread + rng.normal(size=(num_rows, size))
    given = clean.copy()
    wrong = rng.choice(num_rows, num_rows // 5, replace=False)
    given[wrong] = (given[wrong] + rng.integers(1, num_classes, len(wrong))) % num_classes
    return x.astype(np.float32), given, clean


@pytest.mark.parametrize(("num_rows", "size"), [(40, 5), (20, 30)])
def test_scores_are_those_of_models_that_were_fitted_without_the_row(num_rows, size):
    rng = np.random.default_rng(1)
    phi, labels = rng.normal(size=(num_rows, size)), rng.integers(0, 3, num_rows)
    phi -= phi.mean(0)
    penalty, _, scores = probe._best_scores(phi, labels, 3, np.arange(num_rows))
    targets = np.eye(3)[labels]
    for row in range(num_rows):
        rest = np.delete(np.arange(num_rows), row)
        centre, level = phi[rest].mean(0), targets[rest].mean(0)
        x, y = phi[rest] - centre, targets[rest] - level
        weights = np.linalg.solve(x.T @ x + penalty * num_rows * np.eye(size), x.T @ y)
        expected = (phi[row] - centre) @ weights + level - targets.mean(0)
        np.testing.assert_allclose(scores[row], expected, atol=2e-5)


def test_wrong_labels_are_ranked_first():
    x, given, clean = blobs()
    opinion = second_opinion({"x": x}, given, 4)
    rows = np.arange(len(x))
    others = opinion.logits.copy()
    others[rows, given] = -np.inf
    margin = opinion.logits[rows, given] - others.max(1)
    assert np.median(margin[given != clean]) < 0 < np.median(margin[given == clean])
    assert (opinion.logits.argmax(1) == clean).mean() > 0.9


def test_rescaled_shifted_and_constant_columns_change_nothing():
    x, given, _ = blobs()
    changed = np.hstack([x * 1000 + 7, np.full((len(x), 2), 3.0, dtype=np.float32)])
    before, after = (second_opinion({"x": features}, given, 4).logits for features in (x, changed))
    np.testing.assert_allclose(after, before, atol=0.02)


def test_inputs_without_any_variation_give_the_prior():
    given = np.array([0, 0, 0, 1])
    logits = second_opinion({"x": np.ones((4, 3))}, given, 2).logits
    assert np.isfinite(logits).all()
    assert (logits.argmax(1) == 0).all()


def test_too_much_work_gives_no_opinion(monkeypatch):
    x, given, _ = blobs()
    monkeypatch.setattr(probe, "MAX_WORK", 10)
    assert second_opinion({"x": x}, given, 4) is None


def test_wide_features_are_projected(monkeypatch):
    x, given, clean = blobs(size=60)
    monkeypatch.setattr(probe, "MAX_FEATURES", 40)
    assert (second_opinion({"x": x}, given, 4).logits.argmax(1) == clean).mean() > 0.9


def test_two_descriptions_of_the_inputs_together_say_more_than_one():
    x, given, clean = blobs(num_rows=600, num_classes=6, spread=0.9)
    halves = {"first": x[:, :5], "second": x[:, 5:]}
    both = second_opinion(halves, given, 6)
    assert {(expert.features, expert.name) for expert in both.experts} >= {("first", "linear"), ("second", "linear")}
    alone = [second_opinion({name: part}, given, 6).logits for name, part in halves.items()]
    right = [(logits.argmax(1) == clean).mean() for logits in (both.logits, *alone)]
    assert right[0] > max(right[1:]) + 0.05


class TestFurtherExperts:
    def scores(self, clean, strength):
        rng = np.random.default_rng(2)
        return (strength * np.eye(4)[clean] + rng.normal(size=(len(clean), 4))).astype(np.float32)

    def test_one_that_knows_more_is_heard(self):
        x, given, clean = blobs(spread=0.3)
        alone = second_opinion({"x": x}, given, 4)
        opinion = second_opinion({"x": x}, given, 4, extra={"oracle": self.scores(clean, 6.0)})
        assert [expert.name for expert in opinion.experts] == [*(one.name for one in alone.experts), "oracle"]
        *others, oracle = opinion.experts
        assert oracle.loss < min(one.loss for one in others)
        assert (alone.logits.argmax(1) == clean).mean() < 0.8
        assert (opinion.logits.argmax(1) == clean).mean() > 0.95

    def test_one_that_knows_nothing_changes_nothing(self):
        x, given, clean = blobs()
        alone, opinion = (
            second_opinion({"x": x}, given, 4),
            second_opinion({"x": x}, given, 4, extra={"lost": self.scores(clean, 0)}),
        )
        np.testing.assert_allclose(opinion.logits, alone.logits, atol=0.2)

    def test_it_says_the_same_of_all_rows_that_it_does_not_judge(self):
        x, given, clean = blobs()
        scores = self.scores(clean, 6.0)
        scores[:100] = np.nan
        opinion = second_opinion({"x": np.ones_like(x)}, given, 4, extra={"oracle": scores})
        np.testing.assert_array_equal(opinion.logits[:100], np.broadcast_to(opinion.logits[0], (100, 4)))
        assert np.isfinite(opinion.logits).all()
        assert (opinion.logits.argmax(1) == clean)[100:].mean() > 0.95

    def test_labels_that_it_has_seen_do_not_speak_for_it(self):
        x, given, _ = blobs()
        seen, nothing = np.eye(4, dtype=np.float32)[given] * 5, np.zeros((len(given), 4), dtype=np.float32)
        half = np.arange(len(given)) < 150
        hidden = np.where(half[:, None], np.nan, nothing)
        leaked = np.where(half[:, None], seen, nothing)
        losses = [second_opinion({"x": x}, given, 4, extra={"net": s}).experts[-1].loss for s in (hidden, leaked)]
        assert losses[0] == pytest.approx(np.log(4), abs=0.02)
        assert losses[1] < 1.1

    def test_they_judge_where_features_would_take_too_long(self, monkeypatch):
        x, given, clean = blobs()
        monkeypatch.setattr(probe, "MAX_WORK", 10)
        opinion = second_opinion({"x": x}, given, 4, extra={"oracle": self.scores(clean, 6.0)})
        assert [expert.name for expert in opinion.experts] == ["oracle"]
        assert (opinion.logits.argmax(1) == clean).mean() > 0.9


def test_rows_computed_when_they_are_read_give_the_same(monkeypatch):
    x, given, _ = blobs(num_rows=500)
    whole = second_opinion({"x": x}, given, 4)
    monkeypatch.setattr(row_readers, "WHOLE_VALUES", 100)
    monkeypatch.setattr(row_readers, "CHUNK_VALUES", 9000)
    read = second_opinion({"x": x}, given, 4)
    assert not isinstance(read.logits, np.ndarray)
    np.testing.assert_allclose(read.logits[:], whole.logits, atol=2e-3)
    np.testing.assert_allclose(read.logits[np.array([7, 3])], whole.logits[[7, 3]], atol=2e-3)
    once, in_chunks = judge(whole.logits, given), judge(read.logits, given)
    np.testing.assert_allclose(in_chunks.p_wrong, once.p_wrong, atol=2e-3)
    np.testing.assert_allclose(in_chunks.true_class.dense(), once.true_class.dense(), atol=2e-3)


@pytest.mark.parametrize(("num_rows", "num_classes", "expected"), [(50_000, 1000, 1000), (1_000_000, 1000, 309)])
def test_many_rows_have_fewer_landmarks(num_rows, num_classes, expected):
    assert probe.affordable_landmarks(num_rows, num_classes) == expected
