"""Scores of a ridge regression without a row or its group, against models that were refitted."""

import numpy as np
import pytest
from tests.verdicts.test_probe import blobs

from surelabel.verdicts import left_out, probe, row_readers
from surelabel.verdicts.left_out import Groups, LeftOut
from surelabel.verdicts.probe import second_opinion


def refit(phi, labels, num_classes, penalty, apart):
    """Return the scores of the rows `apart` by a regression that was fitted to all others."""
    num_rows, targets = len(phi), np.eye(num_classes)[labels]
    rest = np.setdiff1d(np.arange(num_rows), apart)
    centre, level = phi[rest].mean(0), targets[rest].mean(0)
    x, y = phi[rest] - centre, targets[rest] - level
    weights = np.linalg.solve(x.T @ x + penalty * num_rows * np.eye(phi.shape[1]), x.T @ y)
    return (phi[apart] - centre) @ weights + level - targets.mean(0)


def groups_of(*sizes, num_rows, seed=0):
    """Number groups of these sizes, in no order; all other rows are alone."""
    rows = np.random.default_rng(seed).permutation(num_rows)
    group = np.full(num_rows, -1)
    group[rows[: sum(sizes)]] = np.repeat(np.arange(len(sizes)) + 7, sizes)
    return group


def maps_of(x, num_classes=4):
    """Return the features of every map, centred, in double precision."""
    scaled = probe._standardise(x)
    found = probe._feature_maps(scaled, num_classes, np.random.default_rng(0))
    return {name: np.asarray(phi[:], dtype=np.float64) for name, phi in found}


@pytest.mark.parametrize("num_rows", [60, 30])
@pytest.mark.parametrize("sizes", [(3, 3, 2, 5), (20, 3), (1, 1)], ids=str)
@pytest.mark.parametrize("name", ["linear", "gaussian 0.5", "gaussian 2"])
def test_scores_are_those_of_models_that_were_fitted_without_the_group(name, sizes, num_rows):
    x, given, _ = blobs(num_rows=num_rows, size=12 if num_rows == 60 else 50)
    phi, group = maps_of(x)[name], groups_of(*sizes, num_rows=num_rows)
    penalty, _, scores = probe._best_scores(phi, given, 4, np.arange(num_rows), Groups(group))
    for row in range(num_rows):
        apart = np.flatnonzero(group == group[row]) if group[row] >= 0 else np.array([row])
        expected = refit(phi, given, 4, penalty, apart)[apart == row]
        np.testing.assert_allclose(scores[row], expected[0], atol=1e-3)


@pytest.mark.parametrize("size", [5, 30])
def test_a_third_of_all_rows_is_left_out_exactly(size):
    x, given, _ = blobs(num_rows=240, size=size)
    phi, group = maps_of(x)["linear"], groups_of(80, 40, 40, 4, num_rows=240)
    penalty, _, scores = probe._best_scores(phi, given, 4, np.arange(240), Groups(group))
    for number in (7, 8, 9, 10):
        apart = np.flatnonzero(group == number)
        np.testing.assert_allclose(scores[apart], refit(phi, given, 4, penalty, apart), atol=1e-4)


def test_without_groups_nothing_changes():
    x, given, _ = blobs()
    before = second_opinion({"x": x}, given, 4).logits
    for group in (None, np.full(len(x), -1), np.arange(len(x)), np.zeros(len(x), dtype=int)):
        np.testing.assert_array_equal(second_opinion({"x": x}, given, 4, group=group).logits, before)


def test_any_rows_can_be_read_in_any_order_and_more_than_once():
    x, given, _ = blobs()
    rotated, gram = probe._rotate(maps_of(x)["linear"])
    sums = probe._sum_by_label(rotated, given, 4)
    table = LeftOut(rotated, gram, sums, given, 1e-3, Groups(groups_of(100, 3, 3, num_rows=300)))
    whole = table[:]
    for rows in (slice(90, 200), np.array([5, 299, 5, 0, 5]), np.random.default_rng(0).permutation(300)):
        np.testing.assert_allclose(table[rows], whole[rows], atol=1e-9)


def test_groups_are_the_same_where_rows_are_computed_when_they_are_read(monkeypatch):
    x, given, _ = blobs(num_rows=500)
    group = groups_of(*[3] * 50, 150, num_rows=500)
    whole = second_opinion({"x": x}, given, 4, group=group).logits
    monkeypatch.setattr(row_readers, "WHOLE_VALUES", 100)
    monkeypatch.setattr(row_readers, "CHUNK_VALUES", 9000)
    read = second_opinion({"x": x}, given, 4, group=group).logits
    assert not isinstance(read, np.ndarray)
    np.testing.assert_allclose(np.concatenate([read[:250], read[250:]]), whole, atol=4e-3)


def test_a_mistake_that_copies_share_does_not_speak_for_itself():
    x, given, clean = blobs(num_rows=200, spread=2.5)
    jitter = np.random.default_rng(1).normal(size=(600, x.shape[1])) * 1e-3
    tripled, labels, true = np.repeat(x, 3, 0) + jitter, np.repeat(given, 3), np.repeat(clean, 3)
    wrong, rows = labels != true, np.arange(600)
    alone, together = (
        second_opinion({"x": tripled}, labels, 4, group=group).logits for group in (None, np.repeat(np.arange(200), 3))
    )
    assert (alone[rows, labels] >= alone.max(1))[wrong].mean() > 0.9
    assert (together.argmax(1) == true)[wrong].mean() > 0.9


class TestSample:
    def test_groups_are_taken_whole(self, monkeypatch):
        monkeypatch.setattr(probe, "ROWS_TO_CHOOSE", 90)
        group = np.repeat(np.arange(200), 3)[np.random.default_rng(0).permutation(600)]
        chosen = probe._sample(600, 4, np.random.default_rng(1), Groups(group))
        assert len(chosen) == 90
        assert np.unique(group[chosen], return_counts=True)[1].tolist() == [3] * 30

    def test_none_is_most_of_it(self, monkeypatch):
        monkeypatch.setattr(probe, "ROWS_TO_CHOOSE", 50)
        group = groups_of(300, num_rows=600)
        for seed in range(5):
            chosen = probe._sample(600, 4, np.random.default_rng(seed), Groups(group))
            assert len(chosen) == 50
            assert (group[chosen] == 7).sum() <= 5


def test_many_groups_of_one_size_are_solved_in_batches(monkeypatch):
    monkeypatch.setattr(row_readers, "CHUNK_VALUES", 100)
    groups = left_out.Groups(np.repeat(np.arange(40), 3))
    batches = list(groups.batches(np.arange(40), 10))
    assert [batch.shape for batch in batches[:2]] == [(3, 3), (3, 3)]
    assert sorted(np.concatenate([batch.ravel() for batch in batches])) == list(range(120))
