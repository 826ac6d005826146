"""Exact and near-duplicates by features, and their neighbours."""

import numpy as np
import pytest

from surelabel.data import neighbours as module
from surelabel.data.duplicates import CLOSEST, number_duplicates
from surelabel.data.neighbours import NUM_NEIGHBOURS, find_neighbours


def groups_of(x):
    return number_duplicates(x, find_neighbours(x))


def rows(num_rows=300, size=8, seed=0):
    return np.random.default_rng(seed).normal(size=(num_rows, size)).astype(np.float32)


class TestNeighbours:
    def test_they_are_the_nearest(self):
        x = rows()
        x = (x - x.mean(0)) / x.std(0)
        apart = np.linalg.norm(x[:, None] - x[None], axis=2)
        np.fill_diagonal(apart, np.inf)
        found = find_neighbours(x)
        assert found.index.shape == (300, NUM_NEIGHBOURS)
        np.testing.assert_array_equal(found.index, np.argsort(apart, axis=1)[:, :NUM_NEIGHBOURS])
        np.testing.assert_allclose(found.distance, np.sort(apart, axis=1)[:, :NUM_NEIGHBOURS], rtol=1e-4)

    def test_chunks_do_not_matter(self, monkeypatch):
        whole = find_neighbours(rows())
        monkeypatch.setattr(module, "CHUNK_VALUES", 7 * 300)
        np.testing.assert_array_equal(find_neighbours(rows()).index, whole.index)

    def test_units_do_not_matter(self):
        x = rows()
        other = find_neighbours(x * np.array([1, 1000, 1, 1, 0.01, 1, 1, 1]) + 5)
        np.testing.assert_array_equal(other.index, find_neighbours(x).index)

    def test_wide_features_are_projected_and_copies_stay_copies(self, monkeypatch):
        x = rows(size=400)
        x[7] = x[3]
        monkeypatch.setattr(module, "MAX_WORK", 100 * 300**2)
        found = find_neighbours(x)
        assert found.index[7, 0] == 3
        assert found.distance[7, 0] == pytest.approx(0, abs=1e-4)

    @pytest.mark.parametrize("num_rows", [2 * NUM_NEIGHBOURS, 301])
    def test_too_few_or_too_many_rows_have_none(self, num_rows, monkeypatch):
        monkeypatch.setattr(module, "MOST_ROWS", 300)
        assert find_neighbours(rows(num_rows)) is None

    def test_constant_columns_do_not_matter(self):
        x = np.concatenate([rows(), np.full((300, 2), 3, dtype=np.float32)], 1)
        np.testing.assert_array_equal(find_neighbours(x).index, find_neighbours(rows()).index)


class TestGroups:
    @pytest.mark.parametrize("noise", [0, 0.01, 0.03])
    @pytest.mark.parametrize("size", [8, 64, 384])
    def test_planted_copies_are_found_and_nothing_else(self, size, noise):
        x, rng = rows(400, size), np.random.default_rng(1)
        copies = x[:20] + noise * rng.normal(size=(20, size)).astype(np.float32)
        found = groups_of(np.concatenate([x, copies]))
        assert (found[:20] == found[400:]).all()
        assert sorted(found[:20]) == list(range(1, 21))
        assert not found[20:400].any()

    @pytest.mark.parametrize("size", [1, 2, 3, 5, 10, 100])
    def test_ordinary_neighbours_are_no_duplicates_in_any_dimension(self, size):
        for seed in range(5):
            assert not groups_of(rows(500, size, seed)).any()

    def test_in_few_dimensions_only_very_close_rows_are_copies(self):
        x = rows(400, 2)
        found = groups_of(np.concatenate([x, x[:10] + 1e-5]))
        assert (found[:10] == found[400:]).all()
        assert found[:10].all()

    def test_many_copies_of_one_row_are_one_group(self):
        x = np.concatenate([rows(), np.repeat(rows()[:1], 50, 0)])
        found = groups_of(x)
        assert (found[300:] == found[0]).all()
        assert (found > 0).sum() == 51

    def test_copies_are_most_of_the_data(self):
        x = np.concatenate([rows(100), rows(100) + 1e-4, rows(100)])
        found = groups_of(x)
        assert (found[:100] == found[100:200]).all()
        assert (found[:100] == found[200:]).all()
        assert len(np.unique(found)) == 100

    def test_without_neighbours_only_equal_rows_are_found(self):
        x = np.concatenate([rows(), rows()[:5], rows()[5:10] + 1e-4])
        found = number_duplicates(x, None)
        assert (found[:5] == found[300:305]).all()
        assert (found > 0).sum() == 10

    def test_rows_of_one_value_are_one_group(self):
        assert set(groups_of(np.ones((50, 3), dtype=np.float32))) == {1}

    def test_half_as_far_as_others_is_no_copy(self):
        x = rows(400, 100)
        usual = np.sqrt(2 * 100)
        near = x[:5] + 2 * CLOSEST * usual * np.eye(5, 100, dtype=np.float32)
        assert not groups_of(np.concatenate([x, near])).any()
