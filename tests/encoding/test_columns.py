"""Tables of numbers and categories: what is encoded how, what is left out, and new tables."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conftest import FAST_TEXT, write_csv
from tests.encoding.conftest import load_encoded

from surelabel import api
from surelabel.config import DataConfig
from surelabel.errors import DataError

AGES = ["20", "", "40", "NA", "60", "80"]
CITIES = ["Bonn", "Rome", "Bonn", "Rome", " ", "Bonn"]
LABELS = ["a", "b", "a", "b", "a", "b"]


def encoded(rows):
    return rows.x.features().tolist()


def test_missing_numbers_become_the_median_with_an_indicator(load):
    corpus = load({"age": AGES, "label": LABELS})
    assert corpus.feature_names == ("age", "age is missing")
    assert encoded(corpus.train) == [[20, 0], [50, 1], [40, 0], [50, 1], [60, 0], [80, 0]]


def test_categories_have_a_column_each_and_blank_ones_too(load):
    corpus = load({"city": CITIES, "label": LABELS})
    assert corpus.feature_names == ("city is missing", "city=Bonn", "city=Rome")
    assert encoded(corpus.train)[:2] == [[0, 1, 0], [0, 0, 1]]
    assert encoded(corpus.train)[4] == [1, 0, 0]


def test_numbers_alone_stay_numbers(load):
    corpus = load({"a": range(6), "label": LABELS})
    assert corpus.train.x.tolist() == [[0], [1], [2], [3], [4], [5]]
    assert corpus.feature_names == ("a",)


def test_only_training_rows_are_looked_at(load):
    columns = {
        "age": ["1", "2", "3", "", "900", "900"],
        "city": ["Bonn", "Rome", "Bonn", "Rome", "Oslo", "Oslo"],
        "label": LABELS,
        "split": ["train"] * 4 + ["test"] * 2,
    }
    corpus = load(columns)
    assert corpus.feature_names == ("age", "age is missing", "city=Bonn", "city=Rome")
    assert encoded(corpus.train)[3] == [2, 1, 0, 1]
    assert encoded(corpus.tests["test"]) == [[900, 0, 0, 0], [900, 0, 0, 0]]


def test_rare_and_unknown_categories_share_a_column(load):
    columns = {"city": ["Bonn", "Rome"] * 30 + ["Oslo"], "label": [*"ab" * 30, "a"]}
    corpus = load(columns)
    assert corpus.feature_names == ("city=Bonn", "city=Rome", "city: others")
    assert encoded(corpus.train)[-1] == [0, 0, 1]
    assert corpus.train.x.encoder.encode(pa.table({"city": ["Pisa"]})).tolist() == [[0, 0, 1]]


def test_dates_text_and_names_are_named_and_left_out(load, caplog):
    columns = {
        "born": [f"2001-02-{day:02d}" for day in range(1, 7)],
        "age": range(6),
        "name": ["Ada", "Bob", "Cy", "Di", "Eve", "Flo"],
        "remark": [f"this is the remark number {n}" for n in range(6)],
        "label": LABELS,
    }
    assert load(columns).feature_names == ("age",)
    expected = "not used as features: born (dates), name (too many different values), remark (text)"
    assert expected in caplog.text


def test_typed_columns_of_parquet(tmp_path):
    import datetime

    columns = {
        "when": pa.array([datetime.date(2001, 1, 1 + row) for row in range(6)]),
        "city": pa.array(["Bonn", "Rome", None, "Bonn", "Rome", "Bonn"]).dictionary_encode(),
        "age": pa.array([1.0, None, 3.0, float("nan"), 5.0, 7.0]),
        "sure": pa.array([True, False] * 3),
        "label": LABELS,
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    corpus = load_encoded(DataConfig(source=str(tmp_path / "t.parquet")))
    names = ("age", "age is missing", "city is missing", "city=Bonn", "city=Rome", "sure")
    assert corpus.feature_names == names
    assert encoded(corpus.train)[:3] == [[1, 0, 0, 1, 0, 1], [4, 1, 0, 0, 1, 0], [3, 0, 1, 0, 0, 1]]


def test_numbers_can_be_categories(load):
    columns = {"zip": ["1", "2", "1", "2", "1", "2"], "age": range(6), "label": LABELS}
    assert load(columns, category_columns=("zip",)).feature_names == ("age", "zip=1", "zip=2")
    assert load(columns, feature_columns=("zip",), category_columns=("zip",)).feature_names == ("zip=1", "zip=2")
    with pytest.raises(DataError, match=r"no column 'xx', which data\.category_columns names"):
        load(columns, category_columns=("xx",))


def test_skip_leaves_rows_with_blank_features_out(load, caplog):
    corpus = load({"age": AGES, "city": CITIES, "label": LABELS}, unreadable="skip")
    assert encoded(corpus.train) == [[20, 1], [40, 1], [80, 1]]
    assert "3 row(s) are left out: row 3: age is blank" in caplog.text
    assert "row 5: age is 'NA'" in caplog.text
    assert "row 6: city is blank" in caplog.text


def test_a_cell_that_is_no_number_is_refused_or_left_out(load):
    columns = {"age": [*AGES, "old"], "label": [*LABELS, "a"]}
    with pytest.raises(DataError, match=r"row 8: age is 'old'; expected a finite number; data\.unreadable=skip"):
        load(columns)
    assert len(load(columns, unreadable="skip").train) == 4


@pytest.mark.parametrize(
    "labels",
    [
        [f"{row / 7:.3f}" for row in range(12)],
        [f"r{row}" for row in range(12)],
        [f"{min(row, 7)}.5" for row in range(12)],
    ],
)
def test_labels_that_nearly_every_row_has_its_own_of_look_continuous(load, labels):
    columns = {"a": range(len(labels)), "price": labels}
    with pytest.raises(DataError, match=r"price has \d+ different values in 12 rows, so it looks continuous"):
        load(columns, label_column="price")


def test_measurements_of_which_some_are_missing_or_equal_look_continuous(load):
    labels = [f"{row % 25}.{row % 2}" for row in range(99)] + ["NA"]
    with pytest.raises(DataError, match=r"label has 51 different values in 100 rows, so it looks continuous"):
        load({"a": range(100), "label": labels})


def test_whole_numbers_and_half_stars_are_classes(load):
    assert load({"a": range(12), "label": [row % 8 for row in range(12)]}).num_classes == 8
    assert load({"a": range(40), "label": [row % 10 / 2 for row in range(40)]}).num_classes == 10


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Train on people whose class depends on their city; some ages are missing."""
    folder = tmp_path_factory.mktemp("columns")
    rng = np.random.default_rng(0)
    city = rng.choice(["Bonn", "Rome", "Oslo"], 90)
    age = np.where(rng.random(90) < 0.1, "", rng.integers(20, 60, 90).astype(str))
    label = np.where(city == "Oslo", "north", "south")
    write_csv(folder / "people.csv", {"age": age, "city": city, "label": label})
    api.fit(str(folder / "people.csv"), folder / "run", settings=FAST_TEXT)
    return folder


def test_new_rows_are_predicted_whatever_they_lack(run, done, tmp_path):
    write_csv(tmp_path / "new.csv", {"city": ["Oslo", "Bonn", "Pisa"], "age": ["", "30", "x"[:0]], "more": [1, 2, 3]})
    done("predict", run / "run", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    with (tmp_path / "p.csv").open() as file:
        assert [row["predicted"] for row in csv.DictReader(file)][:2] == ["north", "south"]


def test_a_frame_is_predicted_like_a_file(run):
    pandas = pytest.importorskip("pandas")
    model = api.load(run / "run")
    frame = pandas.DataFrame({"more": [1, 2], "city": ["Oslo", "Bonn"], "age": [float("nan"), 30]})
    assert model.predict(frame).tolist() == ["north", "south"]
    with pytest.raises(DataError, match="there is no column 'age'"):
        model.predict(frame[["city"]])


def test_one_row_is_enough(run, done, tmp_path):
    write_csv(tmp_path / "new.csv", {"city": ["Oslo"], "age": ["30"]})
    assert "1 rows" in done("predict", run / "run", tmp_path / "new.csv", "--out", tmp_path / "p.csv")


def test_a_column_that_new_rows_lack_is_named(run, call, tmp_path):
    write_csv(tmp_path / "new.csv", {"age": ["30"]})
    result = call("predict", run / "run", tmp_path / "new.csv")
    assert result.exit_code == 2
    assert "there is no column 'city'" in result.stderr


def test_a_report_and_the_data_again(run, done, tmp_path):
    done("report", run / "run", "--out", tmp_path / "r.html")
    assert api.reopen_data(run / "run").feature_names[-3:] == ("city=Bonn", "city=Oslo", "city=Rome")


@pytest.mark.parametrize(
    "change",
    [
        {"columns": []},
        {"columns": [{"kind": "number", "name": "age", "fill": 1e999, "has_indicator": True}]},
        {"columns": [{"kind": "number", "name": "age", "fill": "1", "has_indicator": True}]},
        {"columns": [{"kind": "category", "name": "city", "values": ["a", "a"], "has_others": False}]},
        {"columns": [{"kind": "category", "name": "city", "values": ["x"] * 10**5, "has_others": False}]},
        {"columns": [{"kind": "code", "name": "city"}]},
        {"columns": [{"kind": "number", "name": "age", "fill": 1.0, "has_indicator": False}]},
    ],
)
def test_an_encoder_from_a_stranger(run, change, refuses_encoder):
    refuses_encoder(run / "run", change)


TRAIN = {"city": ["Bonn", "Rome"] * 6, "age": [1.0, None] * 6, "label": ["a", "b"] * 6}
TEST = {"city": ["Oslo", "Bonn"], "age": [5.0, 6.0], "label": ["a", "b"]}
"""Too few rows to tell categories from names."""


def test_a_test_frame_is_read_like_the_training_frame():
    pandas = pytest.importorskip("pandas")
    data = {"train": pandas.DataFrame(TRAIN), "test": pandas.DataFrame(TEST)}
    corpus = load_encoded(DataConfig(source="<frame>"), data)
    assert corpus.feature_names == ("age", "age is missing", "city=Bonn", "city=Rome")
    assert encoded(corpus.tests["test"]) == [[5, 0, 0, 0], [6, 0, 1, 0]]


def test_the_test_files_of_a_folder_are_read_like_its_training_files(tmp_path):
    pq.write_table(pa.table(TRAIN), tmp_path / "train-00000-of-00001.parquet")
    pq.write_table(pa.table(TEST), tmp_path / "test-00000-of-00001.parquet")
    corpus = load_encoded(DataConfig(source=str(tmp_path)))
    assert encoded(corpus.tests["test"]) == [[5, 0, 0, 0], [6, 0, 1, 0]]


def test_a_test_file_is_read_like_the_training_file(load, tmp_path):
    test = write_csv(tmp_path / "test.csv", TEST)
    columns = {**TRAIN, "age": ["1", ""] * 6}
    assert encoded(load(columns, test=str(test)).tests["test"]) == [[5, 0, 0, 0], [6, 0, 1, 0]]


@pytest.mark.parametrize("kind", ["folder", "frame"])
def test_so_are_texts(tmp_path, kind):
    pandas = pytest.importorskip("pandas")
    train = {"what": [f"a text about the number {n}" for n in range(12)], "label": ["a", "b"] * 6}
    test = {"text": ["x", "y"], "what": ["one", "two"], "label": ["a", "b"]}
    if kind == "frame":
        data = {"train": pandas.DataFrame(train), "test": pandas.DataFrame(test)}
        corpus = load_encoded(DataConfig(source="<frame>"), data)
    else:
        pq.write_table(pa.table(train), tmp_path / "train-00000-of-00001.parquet")
        pq.write_table(pa.table(test), tmp_path / "test-00000-of-00001.parquet")
        corpus = load_encoded(DataConfig(source=str(tmp_path)))
    assert corpus.tests["test"].x.texts(np.arange(2)) == ["one", "two"]
