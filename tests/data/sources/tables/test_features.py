"""Tables of numbers: which columns are features, and cells that are not numbers."""

import numpy as np
import pytest
import torch

from surelabel.config import DataConfig
from surelabel.data import load_corpus, read_inputs
from surelabel.errors import DataError


@pytest.fixture
def load(tmp_path):
    def read(text, **options):
        (tmp_path / "t.csv").write_text(text)
        return load_corpus(DataConfig(source=str(tmp_path / "t.csv"), **options))

    return read


GOOD = "b,a,label\n1.5,2,dog\n-3e2, +4 ,cat\n.5,0,dog\n"


def test_numeric_columns_are_features_by_name_and_row_numbers_are_ids(load):
    corpus = load(GOOD)
    assert corpus.train.x.dtype == torch.float32
    assert corpus.train.x.tolist() == [[2, 1.5], [4, -300], [0, 0.5]]
    assert corpus.train.ids.tolist() == ["0", "1", "2"]
    assert corpus.train.label.tolist() == [1, 0, 1]
    assert corpus.feature_names == ("a", "b")


def test_another_order_of_columns_in_test_data_does_not_matter(load, tmp_path):
    (tmp_path / "u.csv").write_text("label,a,b\ncat,1,2\n")
    assert load(GOOD, test=str(tmp_path / "u.csv")).tests["test"].x.tolist() == [[1, 2]]
    x, _ = read_inputs(DataConfig(source=str(tmp_path / "u.csv")), (2,))
    assert x.tolist() == [[1, 2]]


def test_a_test_table_of_another_width_is_an_error(load, tmp_path):
    (tmp_path / "u.csv").write_text("label,a\ncat,1\n")
    with pytest.raises(DataError, match=r"u\.csv: holds 1 features per row; expected 2"):
        load(GOOD, test=str(tmp_path / "u.csv"))


def test_named_columns_are_features_in_that_order(load):
    assert load(GOOD, feature_columns=("b", "a")).train.x[0].tolist() == [1.5, 2]
    assert load(GOOD, feature_columns=("b", "a")).feature_names == ("b", "a")
    assert load(GOOD, feature_columns=("a",)).train.x[0].tolist() == [2]


def test_unused_columns_are_logged(load, caplog):
    text = ",id,split,f,city,clean_label,target,label\n" + "".join(
        f"{row},r{row},train,{row}.5,Bonn,{row % 2},{row % 2},{row % 2}\n" for row in range(4)
    )
    corpus = load(text)
    assert corpus.train.x.tolist() == [[0.5], [1.5], [2.5], [3.5]]
    assert corpus.train.ids.tolist() == ["r0", "r1", "r2", "r3"]
    assert "not used as features: '', city, clean_label, target; data.feature_columns names others" in caplog.text


def test_x_and_y_are_coordinates_next_to_another_label(load):
    corpus = load("x,y,label\n1,2,a\n3,4,b\n")
    assert corpus.train.x.tolist() == [[1, 2], [3, 4]]
    assert corpus.class_names == ("a", "b")


def test_file_names_that_are_not_images_are_no_image_column(load):
    corpus = load("file,f,label\na.wav,1,x\nb.wav,2,y\n")
    assert corpus.train.x.tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1,x,dog\n2,,dog\n3,y,cat\n", r"t\.csv, row 5: a is 'x'; expected a finite number \(and 1 more\)"),
        ("inf,1,dog\n", r"t\.csv, row 5: b is 'inf'; expected a finite number"),
        ("1,1e300,dog\n", r"t\.csv, row 5: a is '1e300'; expected a finite number"),
        ("1,1,\n", r"t\.csv, row 5: label is blank"),
    ],
)
def test_bad_cells_are_named_with_row_and_column(load, rows, message):
    with pytest.raises(DataError, match=message):
        load(GOOD + rows)


def test_a_named_column_must_exist(load):
    with pytest.raises(DataError, match=r"there is no column 'zz', which data\.feature_columns names"):
        load(GOOD, feature_columns=("zz",))


def test_a_large_table_reads_as_numpy_wrote_it(load):
    x = np.random.default_rng(0).normal(size=(2000, 20))
    lines = [",".join([*(f"{value!r}" for value in row.tolist()), str(number % 3)]) for number, row in enumerate(x)]
    corpus = load("\n".join([",".join([*(f"f{n:02d}" for n in range(20)), "label"]), *lines]) + "\n")
    assert np.array_equal(corpus.train.x, x.astype(np.float32))
    assert corpus.train.label.tolist() == [number % 3 for number in range(2000)]
