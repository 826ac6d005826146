import numpy as np
import pytest

from surelabel.runs.samples import DENSE_UP_TO, NUM_KEPT, TopK


def rows_over(num_classes, num_rows=7):
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.full(num_classes, 0.1), num_rows).astype(np.float32), rng.integers(0, num_classes, num_rows)


@pytest.mark.parametrize("num_classes", [2, DENSE_UP_TO])
def test_few_classes_are_kept_exactly(num_classes):
    rows, given = rows_over(num_classes)
    np.testing.assert_array_equal(TopK.from_dense(rows, given).dense(), rows)


def test_many_classes_keep_the_given_and_the_largest_and_share_the_rest():
    rows, given = rows_over(100)
    given[0] = rows[0].argmin()
    kept = TopK.from_dense(rows, given)
    assert kept.classes.shape == kept.values.shape == (7, NUM_KEPT)
    for row, label, classes, full in zip(rows, given, kept.classes, kept.dense(), strict=True):
        assert label in classes
        assert set(np.argsort(row)[-(NUM_KEPT - 1) :]) <= set(classes)
        np.testing.assert_array_equal(full[classes], row[classes])
        others = np.delete(full, classes)
        assert others == pytest.approx(np.full(100 - NUM_KEPT, (1 - row[classes].sum()) / (100 - NUM_KEPT)), abs=1e-6)
        assert full.sum() == pytest.approx(1, abs=1e-5)


def test_parts_are_joined_and_read_by_slices():
    rows, given = rows_over(50)
    whole = TopK.from_dense(rows, given)
    parts = TopK.concatenate([TopK.from_dense(rows[:3], given[:3]), TopK.from_dense(rows[3:], given[3:])])
    np.testing.assert_array_equal(parts.dense(), whole.dense())
    np.testing.assert_array_equal(whole.dense(slice(2, 5)), whole.dense()[2:5])
    assert len(parts) == 7
