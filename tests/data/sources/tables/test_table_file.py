"""Tables of image paths: the roles of columns, and errors with their row."""

import logging

import pytest

from surelabel.config import DataConfig
from surelabel.data import load_corpus, read_inputs
from surelabel.errors import ConfigError, DataError


@pytest.fixture
def load(tmp_path, paint):
    for name in "abc":
        paint(tmp_path / "images" / f"{name}.png")

    def read(text, encoding="utf-8", name="t.csv", **options):
        (tmp_path / name).write_text(text, encoding=encoding)
        return load_corpus(DataConfig(source=str(tmp_path / name), cache=False, **options))

    return read


GOOD = "path,label\nimages/b.png,dog\nimages/a.png,cat\n"


def test_paths_are_relative_to_the_table_and_are_the_ids(load):
    corpus = load(GOOD)
    assert corpus.train.ids.tolist() == ["images/b.png", "images/a.png"]
    assert corpus.class_names == ("cat", "dog")
    assert corpus.train.label.tolist() == [1, 0]
    assert corpus.train.x.shape == (2, 3, 8, 8)
    assert corpus.train.clean is None


class TestColumns:
    def test_configured_names(self, load):
        text = "id,y,file,key,true\nq,1,images/a.png,k,1\nr,10,images/b.png,l,9\ns,9,images/c.png,m,9\n"
        names = {"path_column": "file", "label_column": "y", "id_column": "key", "clean_column": "true"}
        corpus = load(text, **names)
        assert corpus.train.ids.tolist() == ["k", "l", "m"]
        assert corpus.class_names == ("1", "9", "10")
        assert corpus.train.label.tolist() == [0, 2, 1]
        assert corpus.train.clean.tolist() == [0, 1, 1]

    @pytest.mark.parametrize("label", ["label", "labels", "Class", "target", "y", "category", "fine_label"])
    @pytest.mark.parametrize("path", ["path", "file", "Filename", "file_name", "image"])
    def test_common_names_are_found_in_any_case(self, load, label, path):
        corpus = load(f"{path},{label}\nimages/a.png,dog\nimages/b.png,cat\n")
        assert corpus.class_names == ("cat", "dog")
        assert corpus.train.ids.tolist() == ["images/a.png", "images/b.png"]

    def test_the_choice_among_several_labels_is_logged(self, load, caplog):
        corpus = load("path,target,label\nimages/a.png,0,dog\nimages/b.png,1,cat\n")
        assert corpus.class_names == ("cat", "dog")
        assert "t.csv: 'label' is taken as the label, not target; data.label_column names another" in caplog.text

    def test_a_single_label_is_not_logged(self, load, caplog):
        load(GOOD)
        assert not caplog.records

    def test_the_true_label_is_not_taken_as_the_given_one(self, load):
        with pytest.raises(DataError, match="there is no label column but the clean one; available: path, label"):
            load(GOOD, clean_column="label")

    def test_true_labels_must_be_complete(self, load):
        with pytest.raises(DataError, match=r"t\.csv, row 3: true is blank; true labels are known for all rows"):
            load("path,label,true\nimages/a.png,dog,dog\nimages/b.png,cat,\n", clean_column="true")

    @pytest.mark.parametrize("option", ["path_column", "label_column", "clean_column", "id_column"])
    def test_a_configured_column_that_is_missing(self, load, option):
        message = rf"t\.csv: there is no column 'zz', which data\.{option} names; available: path, label"
        with pytest.raises(DataError, match=message):
            load(GOOD, **{option: "zz"})

    def test_images_and_features_exclude_each_other(self, load):
        with pytest.raises(ConfigError, match=r"data\.path_column and data\.feature_columns"):
            load(GOOD, path_column="path", feature_columns=("label",))


class TestSplit:
    TEXT = "path,label,split\nimages/a.png,0,train\nimages/b.png,1,Train\nimages/c.png,1,test\n"

    def test_a_column_makes_a_test_set(self, load):
        corpus = load(self.TEXT)
        assert corpus.train.ids.tolist() == ["images/a.png", "images/b.png"]
        assert corpus.tests["test"].ids.tolist() == ["images/c.png"]

    @pytest.mark.parametrize("name", ["validation", "valid", "val", "dev"])
    def test_validation_rows_are_ignored(self, load, name):
        corpus = load(self.TEXT.replace("test", name))
        assert len(corpus.train) == 2
        assert not corpus.tests

    def test_of_another_file_the_test_split_is_read(self, load, tmp_path):
        (tmp_path / "u.csv").write_text("path,label,split\nimages/b.png,dog,test\n")
        corpus = load(GOOD, test=str(tmp_path / "u.csv"))
        assert corpus.tests["test"].ids.tolist() == ["images/b.png"]

    def test_test_rows_are_measured_with_true_labels(self, load):
        text = "path,noisy,label,split\nimages/a.png,0,0,train\nimages/b.png,1,0,train\nimages/c.png,0,1,test\n"
        corpus = load(text, label_column="noisy", clean_column="label")
        assert corpus.train.label.tolist() == [0, 1]
        assert corpus.train.clean.tolist() == [0, 0]
        assert corpus.tests["test"].label.tolist() == [1]


class TestForms:
    def test_files_of_spreadsheets_can_be_read(self, load):
        corpus = load('path,label\r\n"images/a.png","big, cat"\r\n\r\nimages/b.png,dog\r\n', encoding="utf-8-sig")
        assert corpus.class_names == ("big, cat", "dog")

    @pytest.mark.parametrize(("name", "sign"), [("t.tsv", "\t"), ("t.csv", ";"), ("t.csv", "\t")])
    def test_other_delimiters(self, load, name, sign):
        assert load(GOOD.replace(",", sign), name=name).class_names == ("cat", "dog")

    def test_empty_lines_are_counted_and_skipped(self, load):
        assert len(load("\n,\n" + GOOD + "\n,\n\n").train) == 2
        with pytest.raises(DataError, match=r"t\.csv, row 8: label is blank"):
            load("\n,\n" + GOOD + "\n,\nimages/c.png,\n")

    @pytest.mark.parametrize("quotes", ['"dog"', '"d""g"', '"do\ng"'])
    def test_quotes(self, load, quotes):
        corpus = load(GOOD.replace("dog", quotes))
        assert corpus.class_names[1] == quotes[1:-1].replace('""', '"')

    def test_row_numbers_count_a_cell_of_two_lines_once(self, load):
        with pytest.raises(DataError, match=r"t\.csv, row 4: label is blank"):
            load(GOOD.replace("dog", '"do\ng"') + "images/c.png,\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "images/c.png,\nimages/c.png, \n", r"t\.csv, row 4: label is blank \(and 1 more\)"),
        (GOOD + "images/c.png\n", r"t\.csv, row 4: label is blank; data\.unreadable=skip leaves such rows out$"),
        (GOOD + "\n,dog\nx.png,dog\nimages/a.png,\n", r"t\.csv, row 5: path is blank \(and 2 more\)"),
        (
            GOOD + "x.png,dog\ny.png,cat\nz.png,cat\n",
            r"t\.csv, row 4: no image .*/x\.png, which path names \(and 2 more\)",
        ),
        (GOOD + "images,dog\n", r"t\.csv, row 4: no image .*/images"),
        (GOOD + "images/c.png,dog,big\n", r"t\.csv, row 4: 3 cells for 2 columns; a cell with a comma needs quotes"),
        ("path,kind\nimages/a.png,dog\n", r"t\.csv: there is no label column; available: path, kind \(data\.label_col"),
        (
            "place,label\nimages/a.png,dog\n",
            r"t\.csv: no images, text, numbers or categories in place, label; ",
        ),
        ("path,label,label\na,b,c\n", r"t\.csv: 2 columns are called 'label'"),
        ("path,label,id\nimages/a.png,dog,\n", r"t\.csv, row 2: id is blank"),
        ("path,label,split\nimages/a.png,dog,x\n", r"t\.csv, row 2: split is 'x'; expected train, test or valid"),
        ("path,label,split\nimages/a.png,dog,test\n", r"t\.csv: no rows to train on"),
        ("path,label\n", r"t\.csv: no rows to train on"),
        ("", r"t\.csv: an empty table; expected a header"),
        ('path,label\n"images/a.png,dog\n', r"t\.csv: not readable as a CSV table"),
        ('path,label\n"images/a.png,dog\n"images/b.png,cat\n', r"t\.csv: not readable as a CSV table"),
        (GOOD + "images/a.png,dog\n", r"t\.csv: the id 'images/a\.png' belongs to 2 rows"),
    ],
)
def test_faults_are_named_with_their_row(load, text, message):
    with pytest.raises(DataError, match=message) as caught:
        load(text)
    assert "\n" not in str(caught.value)


def test_another_encoding_is_an_error(load):
    with pytest.raises(DataError, match=r"t\.csv: not readable as a CSV table in UTF-8"):
        load(GOOD + "images/c.png,Käse\n", encoding="latin-1")


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nosuch\.csv: no such file"):
        load_corpus(DataConfig(source=str(tmp_path / "nosuch.csv")))


class TestUnreadable:
    def test_it_is_named(self, load, tmp_path):
        (tmp_path / "images" / "a.png").write_bytes(b"nothing")
        with pytest.raises(DataError, match=r"images/a\.png: not readable as an image"):
            load(GOOD)

    def test_rows_without_an_image_or_a_label_can_be_skipped_and_are_listed(self, load, tmp_path, caplog):
        (tmp_path / "images" / "broken.png").write_bytes(b"nothing")
        bad = "x.png,dog\ny.png,cat\nimages/c.png,\nz.png,cat\nimages/broken.png,dog\n"
        corpus = load(GOOD + bad, unreadable="skip")
        assert corpus.train.ids.tolist() == ["images/b.png", "images/a.png"]
        assert corpus.train.label.tolist() == [1, 0]
        assert "t.csv: 4 row(s) are left out: row 4: no image" in caplog.text
        assert "row 6: label is blank; and 1 more" in caplog.text
        assert "broken.png" in caplog.text

    def test_no_class_may_be_lost(self, load):
        with pytest.raises(DataError, match=r"t\.csv: the class 'owl' has no rows left: all 2 were left out"):
            load(GOOD + "x.png,owl\ny.png,owl\n", unreadable="skip")


class TestInputs:
    def test_labels_are_not_needed(self, tmp_path, paint):
        paint(tmp_path / "a.png")
        (tmp_path / "t.csv").write_text("path\na.png\n")
        config = DataConfig(
            source=str(tmp_path / "t.csv"), label_column="y", clean_column="z", id_column="k", cache=False
        )
        x, ids = read_inputs(config, (1, 8, 8))
        assert x.shape == (1, 1, 8, 8)
        assert ids.tolist() == ["a.png"]


def test_a_test_table_in_the_same_folder_is_mentioned_but_not_used(load, tmp_path, caplog):
    (tmp_path / "test.csv").write_text(GOOD)
    assert not load(GOOD, name="train.csv").tests
    assert f"test.csv beside it is not used; data.test (--test {tmp_path / 'test.csv'}) takes it" in caplog.text
    with caplog.at_level(logging.WARNING):
        caplog.clear()
        assert load(GOOD, name="train.csv", test=str(tmp_path / "test.csv")).tests
    assert not caplog.records
