"""Class probabilities as samples.parquet stores them."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from surelabel.errors import RunError
from surelabel.runs.run_dir import RunDir
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


@pytest.mark.parametrize(("num_classes", "columns"), [(3, ["p"]), (DENSE_UP_TO + 1, ["p", "p_classes"])])
def test_a_table_returns_what_was_written(tmp_path, num_classes, columns):
    run = RunDir(tmp_path)
    written = TopK.from_dense(*rows_over(num_classes))
    run.write_samples({"p": written})
    table = pq.read_table(run.path / "samples.parquet")
    assert table.column_names == columns
    read = TopK.from_table(table, "p", num_classes)
    np.testing.assert_array_equal(read.dense(), written.dense())
    np.testing.assert_array_equal(read.argmax(), written.dense().argmax(1))


def test_another_number_of_classes_or_a_missing_column_is_an_error(tmp_path):
    run, (rows, _) = RunDir(tmp_path), rows_over(100)
    run.write_table("samples.parquet", {"p": rows})
    table = pq.read_table(run.path / "samples.parquet")
    for name, num_classes in (("p", 99), ("q", 100)):
        with pytest.raises(RunError, match=rf"samples\.parquet: .* {name} of {num_classes} classes"):
            TopK.from_table(table, name, num_classes)
