"""The reader that all CSV files with an id and a label, or another value, go through."""

import numpy as np
import pytest

from surelabel.data.label_file import read_label_file
from surelabel.errors import DataError


@pytest.fixture
def write(tmp_path):
    def write_file(content: bytes | str):
        path = tmp_path / "l.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


def test_ids_and_labels_are_text_in_the_order_of_the_file(write):
    file = read_label_file(write("note,id,label\nx,007,1\ny,6,1.0\n"))
    assert file.ids.tolist() == ["007", "6"]
    assert file.values.tolist() == ["1", "1.0"]
    assert file.positions(np.array(["6", "8", "007"])).tolist() == [1, -1, 0]


@pytest.mark.parametrize("content", ["\ufeffid,label\na,b\n", "ID;Label\r\na;b\r\n", "\n\nid\tlabel\na\tb\n\n"])
def test_byte_order_marks_case_delimiters_and_empty_lines_make_no_difference(write, content):
    file = read_label_file(write(content))
    assert (file.ids.tolist(), file.values.tolist()) == (["a"], ["b"])


def test_spaces_can_belong_to_ids_and_never_to_labels(write):
    path = write("id,label\n a, b\n")
    assert read_label_file(path).ids.tolist() == ["a"]
    assert read_label_file(path, strip=False).ids.tolist() == [" a"]
    assert read_label_file(path, strip=False).values.tolist() == ["b"]


def test_the_first_of_several_column_names_is_taken(write):
    file = read_label_file(write("aum,index,score,id\n1,0,2,a\n"), ("id", "index"), ("score", "aum"))
    assert (file.ids.tolist(), file.values.tolist(), file.value_column) == (["a"], ["2"], "score")


def test_the_exact_name_is_preferred(write):
    file = read_label_file(write("ID,id,Label,label\n0,a,1,b\n"))
    assert (file.ids.tolist(), file.values.tolist()) == (["a"], ["b"])


def test_values_can_be_missing(write):
    file = read_label_file(write("id\na\n"), needs_values=False)
    assert file.values is None
    assert file.value_column is None


def test_short_rows_can_be_refused(write):
    path = write("id,label,note\na,b\n")
    assert read_label_file(path).values.tolist() == ["b"]
    with pytest.raises(DataError, match=r"l\.csv, row 2: 2 cells for 3 columns"):
        read_label_file(path, allow_short_rows=False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"l\.csv: an empty table"),
        ("id,label,label\na,b,c\n", r"l\.csv: 2 columns are called 'label'"),
        ("name,label\na,b\n", r"l\.csv: there is no column 'id'; available: name, label"),
        ("id,class\na,b\n", r"l\.csv: there is no column 'label'; available: id, class"),
        ("id,label\n ,b\n", r"l\.csv, row 2: id is blank"),
        ("id,label\na,b\n\nc,\n", r"l\.csv, row 4: label is blank"),
        ("id,label\na,b\na,c\n", r"l\.csv, row 3: the id 'a' .* row 2;"),
        ("id,label\na,b,c\n", r"l\.csv, row 2: 3 cells for 2 columns"),
        ('id,label\na,"b\n', r"l\.csv: not readable as a CSV table in UTF-8"),
        (b"id,label\na,K\xe4se\n", r"l\.csv: not readable as a CSV table in UTF-8"),
    ],
)
@pytest.mark.parametrize("strip", [True, False])
def test_faults_are_one_line_that_names_the_row(write, content, message, strip):
    with pytest.raises(DataError, match=message) as caught:
        read_label_file(write(content), strip=strip)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.csv: no such file"):
        read_label_file(tmp_path / "none.csv")
    with pytest.raises(DataError, match=f"{tmp_path.name}: not readable"):
        read_label_file(tmp_path)
