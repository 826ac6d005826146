import pytest

from surelabel.config import DataConfig
from surelabel.data import load_corpus
from surelabel.errors import DataError


@pytest.fixture
def load(tmp_path, paint):
    for name in "abc":
        paint(tmp_path / "images" / f"{name}.png")

    def read(text, encoding="utf-8", **options):
        (tmp_path / "t.csv").write_text(text, encoding=encoding)
        return load_corpus(DataConfig(source=str(tmp_path / "t.csv"), **options))

    return read


GOOD = "path,label\nimages/b.png,dog\nimages/a.png,cat\n"


def test_paths_are_relative_to_the_table_and_are_the_ids(load):
    corpus = load(GOOD)
    assert corpus.train.ids.tolist() == ["images/b.png", "images/a.png"]
    assert corpus.class_names == ("cat", "dog")
    assert corpus.train.label.tolist() == [1, 0]
    assert corpus.train.x.shape == (2, 3, 8, 8)


def test_columns_can_have_other_names(load):
    corpus = load(
        "id,y,file\nq,1,images/a.png\nr,10,images/b.png\ns,9,images/c.png\n", path_column="file", label_column="y"
    )
    assert corpus.train.ids.tolist() == ["q", "r", "s"]
    assert corpus.class_names == ("1", "9", "10")


def test_a_split_column_gives_a_test_part(load):
    corpus = load("path,label,split\nimages/a.png,0,train\nimages/b.png,1,Train\nimages/c.png,1,test\n")
    assert corpus.train.ids.tolist() == ["images/a.png", "images/b.png"]
    assert corpus.tests["test"].ids.tolist() == ["images/c.png"]


def test_what_spreadsheets_write_is_read(load):
    corpus = load('path,label\r\n"images/a.png","big, cat"\r\n\r\nimages/b.png,dog\r\n', encoding="utf-8-sig")
    assert corpus.class_names == ("big, cat", "dog")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "images/c.png,\nimages/c.png, \n", r"t\.csv, row 4: label is blank \(and 1 more\)"),
        (GOOD + "images/c.png\n", r"t\.csv, row 4: label is blank$"),
        (GOOD + "\n,dog\n", r"t\.csv, row 5: path is blank"),
        (GOOD + "x.png,dog\ny.png,cat\nz.png,cat\n", r"t\.csv, row 4: no image .*/x\.png \(and 2 more\)"),
        (GOOD + "images,dog\n", r"t\.csv, row 4: no image .*/images"),
        (GOOD + "images/c.png,dog,big\n", r"t\.csv, row 4: 3 cells for 2 columns"),
        ("path,class\nimages/a.png,dog\n", r"t\.csv: there is no column 'label'; there are path, class"),
        ("file,label\nimages/a.png,dog\n", r"t\.csv: there is no column 'path'; there are file, label"),
        ("path,label,label\na,b,c\n", r"t\.csv: 2 columns are called 'label'"),
        ("path,label,id\nimages/a.png,dog,\n", r"t\.csv, row 2: id is blank"),
        ("path,label,split\nimages/a.png,dog,val\n", r"t\.csv, row 2: split is 'val'; allowed are train and test"),
        ("path,label,split\nimages/a.png,dog,test\n", r"t\.csv: no images to train on"),
        ("path,label\n", r"t\.csv: no images to train on"),
        ("", r"t\.csv: an empty table; expected a header"),
        ('path,label\n"images/a.png,dog\n', r"t\.csv: not readable as a CSV table"),
        (GOOD + "images/a.png,dog\n", r"t\.csv: the id 'images/a\.png' stands for 2 rows"),
    ],
)
def test_faults_are_named_with_their_row(load, text, message):
    with pytest.raises(DataError, match=message) as caught:
        load(text)
    assert "\n" not in str(caught.value)


def test_another_encoding_is_an_error(load):
    with pytest.raises(DataError, match=r"t\.csv: not readable as a CSV table in UTF-8"):
        load(GOOD + "images/c.png,Käse\n", encoding="latin-1")


def test_an_unreadable_image_is_named(load, tmp_path):
    (tmp_path / "images" / "a.png").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"images/a\.png: not readable as an image"):
        load(GOOD)


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nosuch\.csv: no such file"):
        load_corpus(DataConfig(source=str(tmp_path / "nosuch.csv")))
